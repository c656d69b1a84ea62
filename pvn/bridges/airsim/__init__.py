"""AirSim, both ways: our agent in an AirSim world, and AirSim scripts in our field."""
