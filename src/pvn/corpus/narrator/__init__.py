"""A narrator: describes any path by what happens along it."""
