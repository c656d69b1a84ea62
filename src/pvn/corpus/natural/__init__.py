"""Instructions that people wrote for flights: the bundled ones, and the user's own."""
