"""How it moves and looks: one ray, one quadcopter, batched over flights on CPU or CUDA."""
