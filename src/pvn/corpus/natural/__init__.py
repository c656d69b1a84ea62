"""Natural instructions for flights: the bundled ones, written by a large language model, and the user's own."""
