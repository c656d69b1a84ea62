"""How Sphinx builds the documentation: `make docs`."""

import sys
from pathlib import Path

import pvn

# The page with all tables is made from the stored results.
sys.path.insert(0, str(Path(__file__).parent))
import results_tables

results_tables.main()

project = "PVN"
author = "the PVN developers"
release = pvn.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]

# Links to headings are GitHub's, so that pages read the same there.
myst_heading_anchors = 4
# Instructions and options are quoted as they are typed.
smartquotes = False

# Docstrings are prose, and `names` in them are code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "PVN"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
