"""A directed graph: what depends on what."""

from collections.abc import Iterator
from typing import Any


class DiGraph:
    """Nodes with attributes, and edges between them."""

    def __init__(self) -> None:
        self._node: dict[Any, dict[str, Any]] = {}
        self._succ: dict[Any, dict[Any, None]] = {}
        self._pred: dict[Any, dict[Any, None]] = {}

    def add_node(self, n: Any, **kwargs: Any) -> None:
        """A node, or more attributes of one."""
        self._node.setdefault(n, {}).update(kwargs)
        self._succ.setdefault(n, {})
        self._pred.setdefault(n, {})

    def add_edge(self, u: Any, v: Any) -> None:
        """An edge, and its nodes if they are new."""
        self.add_node(u)
        self.add_node(v)
        self._succ[u][v] = self._pred[v][u] = None

    def _neighbours(self, table: dict[Any, dict[Any, None]], n: Any) -> Iterator[Any]:
        if n not in table:
            raise ValueError(f"The node {n} is not in the digraph.")
        return iter(table[n])

    def successors(self, n: Any) -> Iterator[Any]:
        return self._neighbours(self._succ, n)

    def predecessors(self, n: Any) -> Iterator[Any]:
        return self._neighbours(self._pred, n)

    @property
    def edges(self) -> Iterator[tuple[Any, Any]]:
        return ((u, v) for u, found in self._succ.items() for v in found)

    @property
    def nodes(self) -> dict[Any, dict[str, Any]]:
        return self._node

    def __iter__(self) -> Iterator[Any]:
        return iter(self._node)

    def __contains__(self, n: Any) -> bool:
        try:
            return n in self._node
        except TypeError:
            return False

    def _reached(self, table: dict[Any, dict[Any, None]], start: Any) -> set[Any]:
        found, left = {start}, [start]
        while left:
            for node in self._neighbours(table, left.pop()):
                if node not in found:
                    found.add(node)
                    left.append(node)
        return found

    def forward_transitive_closure(self, src: Any) -> set[Any]:
        """All that can be reached from a node."""
        return self._reached(self._succ, src)

    def backward_transitive_closure(self, src: Any) -> set[Any]:
        """All from which a node can be reached."""
        return self._reached(self._pred, src)

    def all_paths(self, src: Any, dst: Any) -> str:
        """The part of the graph between two nodes, for Graphviz."""
        between = self.forward_transitive_closure(src) & self.backward_transitive_closure(dst)
        part = DiGraph()
        for u, v in self.edges:
            if u in between and v in between:
                part.add_edge(u, v)
        return part.to_dot()

    def first_path(self, dst: Any) -> list[Any]:
        """Nodes that lead to one, from where nothing depends on."""
        path = [dst]
        while before := next((n for n in self.predecessors(path[0]) if n not in path), None):
            path.insert(0, before)
        return path

    def to_dot(self) -> str:
        """The graph for Graphviz."""
        edges = "\n".join(f'"{u}" -> "{v}";' for u, v in self.edges)
        return f"digraph G {{\nrankdir = LR;\nnode [shape=box];\n{edges}\n}}\n"
