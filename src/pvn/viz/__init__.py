"""What people look at: views from above, flight records, films, Rerun files, meshes, figures."""
