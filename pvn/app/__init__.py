"""Programs with a page to look at: the demo."""
