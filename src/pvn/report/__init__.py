"""Results as tables, figures and a page."""
