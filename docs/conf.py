"""How Sphinx builds the documentation: `make docs`."""

import tonnage

project = "Tonnage"
author = "The Tonnage developers"
copyright = "2026, the Tonnage developers"
version = release = tonnage.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"Tonnage {release}"
exclude_patterns = ["_build"]
autodoc_typehints = "description"
nitpicky = False
