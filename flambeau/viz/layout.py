"""Places for the boxes of a directed graph, in layers from top to bottom.

Sugiyama's four steps: a layer for each box (as close above its successors as they allow), short
edges only (long ones are cut by invisible joints), an order within each layer (sweeps that move
each box to the mean place of its neighbours, keeping the order with the fewest crossings), and
coordinates (the same sweeps on real numbers, where the boxes of a layer settle by least squares
without overlapping). Drawing is in `picture.py`.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Hashable, Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

_GAP = 24.0  # between boxes of a layer
_LAYER_GAP = 36.0  # between layers
_MARGIN = 16.0
_PORT_GAP = 14.0  # between two edges that meet the same side of a box
_JOINT_WIDTH = 8.0
_ORDER_SWEEPS = 24
_PLACE_SWEEPS = 40
_TALL = 60.0  # a layer in which a passing edge keeps straight
_MANY_JOINTS = 1500  # from here on long edges of one box share a trunk
_WORK = 120_000  # places that sweeps may find, so that time is bounded


class Place(NamedTuple):
    """Centre and size of a box."""

    x: float
    y: float
    width: float
    height: float


class Layout(NamedTuple):
    """Where everything is: boxes by key, and for each edge the points it passes, top to bottom."""

    places: dict[Hashable, Place]
    routes: list[list[tuple[float, float]]]
    width: float
    height: float


class _Joint(NamedTuple):
    """Where a long edge passes a layer."""

    edge: int
    layer: int


def _ranks(keys, edges):
    """The layer of each box, counted up from the bottom: one above its highest successor."""
    before: dict = {key: [] for key in keys}
    waiting = dict.fromkeys(keys, 0)
    for tail, head in edges:
        before[head].append(tail)
        waiting[tail] += 1
    ranks = dict.fromkeys(keys, 0)
    ready = [key for key in keys if waiting[key] == 0]
    while ready:
        head = ready.pop()
        for tail in before[head]:
            ranks[tail] = max(ranks[tail], ranks[head] + 1)
            waiting[tail] -= 1
            if waiting[tail] == 0:
                ready.append(tail)
    return ranks


def _layers_of(keys, edges, aside):
    """The layer of each box, counted down from the top."""
    ranks = _ranks(keys, edges)
    top = max(ranks.values(), default=0)
    layer_of: dict = {key: top - rank for key, rank in ranks.items()}
    ranked = {key for edge in edges for key in edge}
    lowest: dict = {}
    for box, companion in aside:
        if companion not in ranked:
            lowest[companion] = max(lowest.get(companion, 0), layer_of[box] + 1)
    return layer_of | lowest


def _chains(edges, layer_of):
    """One chain per edge, from the higher box through joints to the lower one.

    Where there would be very many joints, the edges of a box share theirs, as branches a trunk.
    """
    ordered = [sorted(ends, key=layer_of.__getitem__) for ends in edges]
    spans = sum(max(layer_of[low] - layer_of[high] - 1, 0) for high, low in ordered)
    trunks: dict = {}  # box -> the number its joints go by
    chains = []
    for number, (high, low) in enumerate(ordered):
        name = trunks.setdefault(high, number) if spans > _MANY_JOINTS else number
        joints = [_Joint(name, layer) for layer in range(layer_of[high] + 1, layer_of[low])]
        layer_of.update((joint, joint.layer) for joint in joints)
        chains.append([high, *joints, low])
    return chains


def _neighbours(chains):
    """For each box and joint, those one layer above and those one layer below."""
    above: dict = {}
    below: dict = {}
    seen = set()
    for chain in chains:
        for pair in pairwise(chain):
            upper, lower = pair
            if pair in seen and isinstance(upper, _Joint) | isinstance(lower, _Joint):
                continue  # a trunk that several edges share
            seen.add(pair)
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    return above, below


def _sweeps(layers, most):
    """How many sweeps there is time for."""
    return max(4, min(most, _WORK // (1 + sum(map(len, layers)))))


def _first_order(layer_of, above, below, companions):
    """Layers filled from the bottom up, depth first, so that arguments keep their order."""
    layers: list[list] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    ends = [key for key in layer_of if key not in below and key not in companions]
    seen: set = set()
    for start in (*ends, *layer_of):
        stack = [start]
        while stack:
            key = stack.pop()
            if key not in seen:
                seen.add(key)
                layers[layer_of[key]].append(key)
                stack.extend(reversed(above.get(key, ())))
    return layers


def _crossings(layers, below):
    """How many pairs of short edges cross."""
    total = 0
    for upper, lower in pairwise(layers):
        place = {key: i for i, key in enumerate(lower)}
        seen: list[int] = []
        for key in upper:
            ends = [place[end] for end in below.get(key, ())]
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def _sweep(layers, neighbours):
    """Each layer sorted by the mean place of its neighbours in the layer before."""
    place: dict = {}
    swept = []
    for layer in layers:
        here = {key: i for i, key in enumerate(layer)}

        def mean(key, here=here):
            spots = [place[n] for n in neighbours.get(key, ())]
            return sum(spots) / len(spots) if spots else here[key]

        layer = sorted(layer, key=mean)
        place.update((key, i) for i, key in enumerate(layer))
        swept.append(layer)
    return swept


def _ordered(layers, above, below):
    """Layers reordered by sweeps down and up; the order with the fewest crossings wins."""
    best, fewest = layers, _crossings(layers, below)
    stale = 0
    for number in range(_sweeps(layers, _ORDER_SWEEPS)):
        if fewest == 0 or stale == 4:
            break
        if number % 2 == 0:
            layers = _sweep(layers, above)
        else:
            layers = _sweep(layers[::-1], below)[::-1]
        crossings = _crossings(layers, below)
        stale = 0 if crossings < fewest else stale + 1
        if crossings < fewest:
            best, fewest = layers, crossings
    return best


def _settle(wanted, weights, distances):
    """The places nearest to the wanted ones (least squares) that keep order and distances."""
    # With the distances subtracted this is isotonic regression: neighbours that collide pool.
    pools: list[list] = []
    offset = 0.0
    for want, weight, distance in zip(wanted, weights, distances, strict=True):
        offset += distance
        pools.append([want - offset, weight, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            value, mass, count = pools.pop()
            left = pools[-1]
            left[0] = (left[0] * left[1] + value * mass) / (left[1] + mass)
            left[1] += mass
            left[2] += count
    settled = [value for value, _, count in pools for _ in range(count)]
    offset = 0.0
    for i, distance in enumerate(distances):
        offset += distance
        settled[i] += offset
    return settled


def _distances(layer, widths):
    """From each box of a layer to the one on its left, centre to centre."""
    return [0.0, *((widths[a] + widths[b]) / 2 + _GAP for a, b in pairwise(layer))]


def _pulls(key, above, below, companions):
    """(neighbour, strength) of the short edges up and down from a box or joint."""

    def strength(upper, lower):
        if upper in companions or lower in companions:
            return 0.3
        joints = isinstance(upper, _Joint) + isinstance(lower, _Joint)
        if joints:
            return (2.0, 8.0)[joints - 1]  # long edges run straight
        return 3.0 if upper in above else 0.3  # the stem of the graph does, its leaves make room

    up = [(upper, strength(upper, key)) for upper in above.get(key, ())]
    return up, [(lower, strength(key, lower)) for lower in below.get(key, ())]


def _spread(layers, widths, above, below, companions):
    """The x of every box and joint."""
    distances = [_distances(layer, widths) for layer in layers]
    x: dict = {}
    for layer, steps in zip(layers, distances, strict=True):
        at = -sum(steps) / 2
        for key, step in zip(layer, steps, strict=True):
            at += step
            x[key] = at
    pulls = {key: _pulls(key, above, below, companions) for key in x}
    sweeps = _sweeps(layers, _PLACE_SWEEPS)
    for number in range(sweeps):
        down = number % 2 == 0
        ending = number >= sweeps // 2
        for i in range(len(layers)) if down else reversed(range(len(layers))):
            wanted, weights = [], []
            for key in layers[i]:
                up, under = pulls[key]
                # Under its parents, over its children by turns; in the end, between all of them.
                near = up + under if ending else up if down else under
                total = sum(weight for _, weight in near)
                mean = sum(x[n] * weight for n, weight in near) / total if total else x[key]
                wanted.append(mean)
                weights.append(total**2 or 0.01)
            settled = _settle(wanted, weights, distances[i])
            x.update(zip(layers[i], settled, strict=True))
    left = min((x[key] - widths[key] / 2 for key in x), default=0.0)
    return {key: at - left + _MARGIN for key, at in x.items()}


def _ports(chains, places, x, side):
    """For each chain, the x where it leaves (side 0) or meets (side -1) its box."""
    meeting: dict = {}
    for number, chain in enumerate(chains):
        next_on_chain = chain[1] if side == 0 else chain[-2]
        meeting.setdefault(chain[side], []).append((x[next_on_chain], number))
    ports = {}
    for key, ends in meeting.items():
        gap = min(_PORT_GAP, 0.7 * places[key].width / len(ends))
        for i, (_, number) in enumerate(sorted(ends)):
            ports[number] = places[key].x + gap * (i - (len(ends) - 1) / 2)
    return ports


def _longest(chains):
    """For each first joint, the longest of the chains that go through it."""
    found: dict = {}
    for number, chain in enumerate(chains):
        first = chain[1]
        if len(chain) > 2 and len(chain) > len(chains[found.get(first, number)]):
            found[first] = number
        elif len(chain) > 2:
            found.setdefault(first, number)
    return found


def layered(
    sizes: Mapping[Any, tuple[float, float]],
    edges: Iterable[tuple[Hashable, Hashable]],
    aside: Iterable[tuple[Hashable, Hashable]] = (),
) -> Layout:
    """Lay out boxes of the given sizes; the routes are those of `edges`, then of `aside`.

    Args:
        sizes: width and height of each box, by key.
        edges: (tail, head) pairs without cycles; a tail lies above its head.
        aside: (box, companion) pairs, edges that do not decide layers; a companion that is in
            none of the other edges goes just below its box.
    """
    edges, aside = list(edges), list(aside)
    layer_of = _layers_of(list(sizes), edges, aside)
    chains = _chains(edges + aside, layer_of)
    above, below = _neighbours(chains)
    companions = {companion for _, companion in aside}
    layers = _first_order(layer_of, above, below, companions)
    layers = _ordered(layers, above, below)
    widths = {key: sizes[key][0] if key in sizes else _JOINT_WIDTH for key in layer_of}
    x = _spread(layers, widths, above, below, companions)

    bands, y = [], _MARGIN
    places: dict[Hashable, Place] = {}
    for layer in layers:
        height = max((sizes[key][1] for key in layer if key in sizes), default=0.0)
        bands.append((y, y + height))
        for key in layer:
            if key in sizes:
                places[key] = Place(x[key], y + height / 2, *sizes[key])
        y += height + _LAYER_GAP
    leave, meet = _ports(chains, places, x, 0), _ports(chains, places, x, -1)
    trunks = _longest(chains)
    routes = []
    for number, chain in enumerate(chains):
        high, low = places[chain[0]], places[chain[-1]]
        if trunks.get(chain[1], number) != number:  # a branch: the trunk is drawn by another
            top, bottom = bands[layer_of[chain[-2]]]
            routes.append([(x[chain[-2]], bottom), (meet[number], low.y - low.height / 2)])
            continue
        points = [(leave[number], high.y + high.height / 2)]
        for i, joint in enumerate(chain[1:-1], start=1):
            top, bottom = bands[layer_of[joint]]
            # Straight past the boxes where the edge bends most, in its first and last layer.
            straight = i in (1, len(chain) - 2) or bottom - top > _TALL
            passed = (top, bottom) if straight else ((top + bottom) / 2,)
            points += [(x[joint], y) for y in passed]
        routes.append([*points, (meet[number], low.y - low.height / 2)])
    right = max((x[key] + widths[key] / 2 for key in x), default=0.0)
    return Layout(places, routes, right + _MARGIN, max(y - _LAYER_GAP, 0.0) + _MARGIN)
