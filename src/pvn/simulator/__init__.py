"""How the world moves and looks: quadcopters and ray-traced pictures, batched on a CPU or a GPU."""
