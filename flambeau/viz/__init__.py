"""Pictures and tables: the autograd graph as DOT, SVG or HTML; models as tables; loss curves."""

from flambeau.viz.curves import plot_losses as plot_losses
from flambeau.viz.graph import graph_html as graph_html
from flambeau.viz.graph import graph_svg as graph_svg
from flambeau.viz.graph import make_dot as make_dot
from flambeau.viz.summary import summary as summary

__all__ = ["graph_html", "graph_svg", "make_dot", "plot_losses", "summary"]
