"""Training: demonstrations, losses, the two stages, imitation, DAggerFM, checkpoints, presets."""
