"""Graphs with modules in place of operations, for models too large to read op by op.

Which module an operation belongs to follows from names: a parameter called `blocks.0.fc.weight`
belongs to `blocks.0.fc`, and so does the operation that uses it. An operation without parameters
belongs to the innermost module that everything around it has in common, or to the numbered block
that it ends.
"""

from __future__ import annotations

from itertools import takewhile

from flambeau.viz.picture import Arrow, Box, Graph

Path = tuple[str, ...]


def module_paths(graph: Graph) -> dict[str, Path]:
    """The module of each operation, as parts of its name; () where names do not tell."""
    own: dict[str, Path] = {}
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for arrow in graph.arrows:
        tail, head = graph.boxes[arrow.tail], graph.boxes[arrow.head]
        if arrow.kind != "flow" or head.kind != "op":
            continue
        if tail.kind == "leaf":
            path = _path_of(tail)
            if path is not None:
                own[arrow.head] = _common(own.get(arrow.head), path) or ()
        elif tail.kind == "op":
            above.setdefault(arrow.head, []).append(arrow.tail)
            below.setdefault(arrow.tail, []).append(arrow.head)
    order = _in_order(graph, above, below)
    before = _spread(order, above, own)
    after = _spread(reversed(order), below, own)
    last = _last_named(order, above, own)
    found = {}
    for key in order:
        path = own.get(key)
        if path is None:
            path = _common(before[key], after[key]) or ()
            path = _item_of(last[key], len(path)) or path
        found[key] = path
    return found


def _last_named(order, above, own):
    """The module of the operation with a name that ran last before each operation."""
    depth: dict[str, int] = {}
    last: dict[str, Path] = {}
    for key in order:
        near = max(above.get(key, ()), key=depth.__getitem__, default=None)
        depth[key] = 0 if near is None else depth[near] + 1
        last[key] = () if near is None else own.get(near, last[near])
    return last


def _item_of(path, start):
    """blocks.3 for blocks.3.fc: lists of blocks do nothing themselves, so what follows the last
    layer of a block ends it (an addition, mostly)."""
    for k in range(start, len(path) - 1):
        if path[k].isdigit():
            return path[: k + 1]
    return None


def _path_of(leaf: Box) -> Path | None:
    """The module of a parameter; None if it has no name."""
    name = leaf.label.split("\n")[0].strip()
    return tuple(name.split(".")[:-1]) if name else None


def _common(a: Path | None, b: Path | None) -> Path | None:
    """What two names begin with; None says nothing."""
    if a is None or b is None:
        return b if a is None else a
    return tuple(x for x, _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b)))


def _in_order(graph, above, below):
    """Operations, each after those it follows."""
    waiting = {key: len(above.get(key, ())) for key, box in graph.boxes.items() if box.kind == "op"}
    ready = [key for key, count in waiting.items() if not count]
    order = []
    while ready:
        key = ready.pop()
        order.append(key)
        for follower in below.get(key, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    return order


def _spread(order, neighbours, own):
    """What the nearest operations with names have in common, in one direction."""
    found: dict[str, Path | None] = {}
    for key in order:
        path = None
        for near in neighbours.get(key, ()):
            path = _common(path, own[near] if near in own else found.get(near))
        found[key] = path
    return found


def by_module(graph: Graph, depth: int) -> Graph:
    """The graph with one box for each module of the first `depth` levels."""
    paths = module_paths(graph)
    named = {
        arrow.head
        for arrow in graph.arrows
        if graph.boxes[arrow.tail].kind == "leaf" and _path_of(graph.boxes[arrow.tail]) is not None
    }
    target: dict[str, str] = {}  # key -> key of the box it is shown as
    for key, path in paths.items():
        if path and (len(path) >= depth or key in named):
            target[key] = "module:" + ".".join(path[:depth])
    _close_loops(graph, target)
    members: dict[str, list[str]] = {}
    for key, module in target.items():
        members.setdefault(module, []).append(key)
    users: dict[str, set[str]] = {}
    for arrow in graph.arrows:
        if graph.boxes[arrow.tail].kind == "leaf":
            users.setdefault(arrow.tail, set()).add(target.get(arrow.head, arrow.head))
    inside = {key: next(iter(to)) for key, to in users.items() if len(to) == 1}
    inside = {key: module for key, module in inside.items() if module in members}
    found = Graph(alive=graph.alive)
    for key, box in graph.boxes.items():
        if key in target:
            module = target[key]
            if module not in found.boxes:
                params = [graph.boxes[leaf] for leaf, home in inside.items() if home == module]
                found.boxes[module] = _module_box(graph, module, members[module], params)
        elif key not in inside and box.kind != "saved":
            found.boxes[key] = box
    seen = set()
    for arrow in graph.arrows:
        tail, head = target.get(arrow.tail, arrow.tail), target.get(arrow.head, arrow.head)
        if tail == head or tail not in found.boxes or head not in found.boxes:
            continue
        if arrow.kind != "saved" and (tail, head, arrow.kind) not in seen:
            seen.add((tail, head, arrow.kind))
            found.arrows.append(Arrow(tail, head, arrow.kind))
    return found


def _module_box(graph, module, members, params):
    name = module.removeprefix("module:")
    count = f"{len(members)} operation" + "s" * (len(members) != 1)
    kinds: dict[str, int] = {}
    for key in members:
        op = graph.boxes[key].label.split("\n")[0]
        kinds[op] = kinds.get(op, 0) + 1
    lines = [f"{op} x{n}" if n > 1 else op for op, n in sorted(kinds.items())]
    lines += [" ".join(leaf.label.split()) for leaf in params]
    return Box(f"{name}\n{count}", "module", "\n".join(lines))


def _close_loops(graph, target):
    """An operation between two of the same module joins it, or arrows would run in a circle."""
    while True:
        edges: dict[str, set[str]] = {}
        for arrow in graph.arrows:
            tail, head = target.get(arrow.tail, arrow.tail), target.get(arrow.head, arrow.head)
            if tail != head and arrow.kind != "saved":
                edges.setdefault(tail, set()).add(head)
        loops = [loop for loop in _strong_components(edges) if len(loop) > 1]
        if not loops:
            return
        for loop in loops:
            modules = sorted((key for key in loop if key.startswith("module:")), key=len)
            shown = modules[0]
            for key, module in list(target.items()):
                if module in loop:
                    target[key] = shown
            for key in loop:
                if not key.startswith("module:"):
                    target[key] = shown


def _strong_components(edges):
    """Sets of boxes that lead to one another (Tarjan's algorithm, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack, on_stack, found = [], set(), []
    for root in list(edges):
        if root in index:
            continue
        work = [(root, iter(edges.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            key, rest = work[-1]
            for follower in rest:
                if follower not in index:
                    index[follower] = low[follower] = len(index)
                    stack.append(follower)
                    on_stack.add(follower)
                    work.append((follower, iter(edges.get(follower, ()))))
                    break
                if follower in on_stack:
                    low[key] = min(low[key], index[follower])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[key])
                if low[key] == index[key]:
                    component = set()
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.add(member)
                        if member == key:
                            break
                    found.append(component)
    return found


def levels(graph: Graph) -> list[tuple[str, Graph]]:
    """The graph at several levels of detail, coarsest first; the last is the graph itself."""
    paths = set(module_paths(graph).values())
    found: list[tuple[str, Graph]] = []
    size = 0
    for depth in range(1, max(map(len, paths), default=0) + 1):
        level = by_module(graph, depth)
        if len(level.boxes) > size and len(level.boxes) < 0.8 * len(graph.boxes):
            size = len(level.boxes)
            found.append((f"modules, {depth} level" + "s" * (depth > 1), level))
    return [*found, ("operations", graph)]
