"""A two-way bridge to MAVLink: our agent flies autopilots, and MAVLink scripts fly in our field."""

SERVER_PORT = 14580
"""The port from which our autopilot speaks, as PX4's simulator does."""
SCRIPT_PORT, GROUND_STATION_PORT = 14540, 14550
"""The ports on which scripts and ground stations listen for an autopilot unless told otherwise."""
CAMERA_PORT = 8088
"""The port of our autopilot's camera stream."""
