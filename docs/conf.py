"""Sphinx builds the site of this folder: `make site`."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from portal import __version__
from tools import sequence_diagrams

HERE = Path(__file__).resolve().parent

project = "Novella"
version = release = __version__
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
nitpicky = True
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
html_theme = "furo"
html_title = f"Novella {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False


class Diagram(Directive):
    """A block of Mermaid, drawn as SVG while the site is built."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        drawn = sequence_diagrams.render("\n".join(self.content))
        return [nodes.raw("", drawn, format="html")]


def setup(app: Sphinx) -> None:
    app.add_directive("mermaid", Diagram)
