"""AirSim, both ways: our agent flies in AirSim's worlds, and scripts written for AirSim fly in our field.

Tried with AirSim's own clients against our server. AirSim itself, which needs Unreal Engine, was never run.
"""
