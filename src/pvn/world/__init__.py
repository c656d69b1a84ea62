"""What exists: landmarks and their solids, layouts of fields, routes, tasks, LANI's environment files."""
