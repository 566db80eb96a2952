"""Pictures: the autograd graph as DOT, SVG or HTML."""

from flambeau.viz.graph import graph_html as graph_html
from flambeau.viz.graph import graph_svg as graph_svg
from flambeau.viz.graph import make_dot as make_dot

__all__ = ["graph_html", "graph_svg", "make_dot"]
