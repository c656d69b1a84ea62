"""How it is learned: demonstrations, targets, losses, the two stages, checkpoints."""
