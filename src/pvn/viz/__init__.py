"""What people look at: views from above, flight records, films, Rerun files, figures, tables and the results page."""
