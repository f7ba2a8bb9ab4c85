"""How Sphinx builds the documentation: `./dev docs`, in which a warning is an error."""

from untrace import __version__

project = "untrace"
release = version = __version__
project_copyright = "the authors of untrace, Apache-2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
highlight_language = "none"  # of blocks that name no language

myst_heading_anchors = 3  # what links of GitHub lead to

default_role = "code"  # `x` in docstrings
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say what types are
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = "untrace"
html_copy_source = html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
pygments_style, pygments_dark_style = "friendly", "native"

linkcheck_timeout, linkcheck_retries = 20, 2
linkcheck_anchors = False


def as_markup(app, what, name, obj, options, lines) -> None:
    """Make markup of a docstring: |x| is an absolute value, and `f`s are many `f`."""
    parts = "\n".join(lines).split("`")
    for i in range(0, len(parts), 2):  # outside of backticks
        plural = r"\ " if i and parts[i][:1].isalnum() else ""
        parts[i] = plural + parts[i].replace("|", r"\|")
    lines[:] = "`".join(parts).split("\n")


def setup(app) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", as_markup)
