"""What people look at: pictures, films and recordings of flights, figures, tables and the results page."""
