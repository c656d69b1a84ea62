"""A two-way bridge to AirSim: our agent flies in AirSim worlds, and AirSim scripts fly in our field."""

DEFAULT_PORT = 41451
"""The port that AirSim servers listen on unless told otherwise."""
