"""SubgraphMatcher finds the places of a graph that look like a pattern."""

import itertools
from dataclasses import dataclass, field
from typing import Any

from flambeau.fx.graph import Graph
from flambeau.fx.node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One place: nodes of the pattern and of the graph that are the same."""

    anchors: list[Node]
    nodes_map: dict[Node, Node] = field(default_factory=dict)
    placeholder_nodes: list[Node] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> "InternalMatch":
        return InternalMatch(
            self.anchors, dict(self.nodes_map), list(self.placeholder_nodes),
            list(self.returning_nodes), dict(self.name_node_map),
        )  # fmt: skip


class SubgraphMatcher:
    """Finds a pattern; its placeholders stand for anything.

    match_output: the pattern must end where the graph ends. match_placeholder: placeholders match
    placeholders only. ignore_literals: numbers and strings may differ.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern = pattern
        self.match_output, self.match_placeholder = match_output, match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op != "output" and not node.users:
                raise AssertionError(
                    "SubgraphMatcher cannot be initialized with an pattern with dead code"
                )
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = [output] if match_output else self._anchors(output)

    def _anchors(self, output):
        """Results that nothing else in the pattern depends on."""
        return [n for n in output.all_input_nodes if len(n.users) == 1]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """All places of a graph that look like the pattern, in the order of the graph."""
        candidates = [
            [n for n in graph.nodes if self._nodes_are_equal(anchor, n, node_name_match)]
            for anchor in self.pattern_anchors
        ]
        found = []
        for chosen in itertools.product(*candidates):
            match = InternalMatch(anchors=self.pattern_anchors)
            pairs = zip(self.pattern_anchors, chosen)
            if all(self._match_nodes(pn, gn, match) for pn, gn in pairs):
                self._note_ends(match)
                if self._is_contained(match):
                    found.append(match)
        return _without_overlaps(found) if self.remove_overlapping_matches else found

    def _note_ends(self, match):
        match.placeholder_nodes = [match.nodes_map[n] for n in self.pattern_placeholder_nodes]
        match.returning_nodes = [match.nodes_map[n] for n in self.pattern_returning_nodes]

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        kind = pn.op
        anything = kind == "placeholder" and not self.match_placeholder
        if anything or (node_name_match and node_name_match in gn.name):
            return True
        if kind == gn.op == "get_attr":
            return self._attributes_are_equal(pn, gn)
        return kind == gn.op and (kind in ("placeholder", "output") or pn.target == gn.target)

    def _attributes_are_equal(self, pn, gn):
        """Attributes match if they are of one type; patterns without a module do by name."""
        ours, theirs = _attribute(pn), _attribute(gn)
        if ours is None or theirs is None:
            return pn.target == gn.target
        return type(ours) is type(theirs)

    def _match_nodes(self, pn, gn, match):
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if gn in match.nodes_map.values():
            return False
        if not self._nodes_are_equal(pn, gn):
            return False
        saved = dict(match.nodes_map)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder" or self._match_arguments(pn, gn, match):
            return True
        match.nodes_map = saved
        return False

    def _match_arguments(self, pn, gn, match):
        if len(pn.args) == len(gn.args) and pn.kwargs.keys() == gn.kwargs.keys():
            return self._match_args(pn.args, gn.args, match) and all(
                self._match_args(value, gn.kwargs[key], match) for key, value in pn.kwargs.items()
            )
        ours, theirs = _by_name(pn), _by_name(gn)
        if ours is None or theirs is None or ours.keys() != theirs.keys():
            return False
        return all(self._match_args(value, theirs[key], match) for key, value in ours.items())

    def _match_args(self, ours: Any, theirs: Any, match: InternalMatch) -> bool:
        if isinstance(ours, Node):
            if isinstance(theirs, Node):
                return self._match_nodes(ours, theirs, match)
            return self._match_literal(ours, theirs, match)
        if isinstance(theirs, Node):
            return False
        if isinstance(ours, (list, tuple)):
            if not isinstance(theirs, (list, tuple)) or len(ours) != len(theirs):
                return False
            return all(self._match_args(a, b, match) for a, b in zip(ours, theirs))
        if isinstance(ours, dict):
            if not isinstance(theirs, dict) or ours.keys() != theirs.keys():
                return False
            return all(self._match_args(v, theirs[k], match) for k, v in ours.items())
        if isinstance(ours, slice):
            parts = lambda s: (s.start, s.stop, s.step)
            return isinstance(theirs, slice) and self._match_args(parts(ours), parts(theirs), match)
        return self.ignore_literals or (type(ours) is type(theirs) and ours == theirs)

    def _match_literal(self, pn, value, match):
        """A placeholder may stand for a number."""
        if pn.op != "placeholder" or self.match_placeholder:
            return False
        return match.nodes_map.setdefault(pn, value) == value

    def _is_contained(self, match):
        """Are values inside of the match used by it alone?"""
        inside = {n for p, n in match.nodes_map.items() if p.op != "placeholder"}
        returned = {match.nodes_map[n] for n in self.pattern_returning_nodes}
        for pn, gn in match.nodes_map.items():
            if pn.op in ("placeholder", "output") or gn in returned:
                continue
            if any(user not in inside for user in gn.users):
                return False
        return True


def _attribute(node):
    value: Any = node.graph.owning_module
    if value is None:
        return None
    for name in node.target.split("."):
        value = getattr(value, name, None)
    return value


def _by_name(node):
    """Arguments of a function by name, with defaults; None if that is not known."""
    pair = node.normalized_arguments(node.graph.owning_module, normalize_to_only_use_kwargs=True)
    return None if pair is None else pair.kwargs


def _without_overlaps(found):
    taken: set[Node] = set()
    kept = []
    for match in found:
        own = {n for p, n in match.nodes_map.items() if p.op not in ("placeholder", "output")}
        if not own & taken:
            kept.append(match)
            taken |= own
    return kept
