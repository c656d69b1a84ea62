"""A narrator: tells any flown path by what happens along it."""
