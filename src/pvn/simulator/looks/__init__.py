"""Another look at things: the same field and camera, drawn by other renderers, each an optional package."""
