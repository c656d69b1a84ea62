"""The demo: a page on which anyone flies a drone by typing."""
