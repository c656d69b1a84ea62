"""Interactive programs: the demo in the browser."""
