"""What both bridges need of a drone in our field: frames, motions, the vehicle, its clock, what a camera sees."""
