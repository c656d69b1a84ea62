"""A two-way bridge to AirSim: our agent flies in AirSim worlds, and AirSim scripts fly in our field."""
