"""How Sphinx builds the site: `make docs`."""

import os

import pvn

project = "PVN"
author = "the PVN authors"
release = pvn.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
myst_heading_anchors = 3
html_theme = os.environ.get("THEME", "furo")
html_title = "PVN"
