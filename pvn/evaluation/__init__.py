"""How well: figures of speed and quality."""
