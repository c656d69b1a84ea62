"""What exists: landmarks as solids, layouts of a field, routes through it, LANI environment files."""
