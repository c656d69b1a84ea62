"""MAVLink, both ways: our agent flies drones that have an autopilot, and scripts for autopilots fly in our field.

Our agent flew PX4's and ArduPilot's own software in their simulators. No real drone was ever flown.
"""
