"""Sphinx's settings for the site. `make docs` (build.py) collects the sources and calls Sphinx with -W."""

import re
from typing import Any

project = "whest"
author = "the whest authors"
copyright = "the whest authors, MIT licence"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
myst_links_external_new_tab = True
html_theme = "furo"
html_title = "whest"
html_copy_source = False
html_show_sphinx = False
html_extra_path = ["live"]
exclude_patterns = ["live"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
suppress_warnings = ["myst.header"]  # logs may start below level 1


def _as_markdown(app: Any, what: str, name: str, subject: Any, options: Any, lines: list[str]) -> None:
    """Docstrings write `name`, also with letters behind it, as Markdown does."""
    text = re.sub(r"(?<!`)`([^`]+)`(?!`)(?=(\w?))", lambda m: f"``{m[1]}``" + ("\\ " if m[2] else ""), "\n".join(lines))
    lines[:] = text.split("\n")


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _as_markdown)
