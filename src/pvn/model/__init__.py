"""The networks and the agents made of them: image encoder, semantic map, instruction encoder, prediction, control."""
