"""einsum as PyTorch makes it of other ops: operands in one order of dimensions, then a product."""

import math
from typing import Any

from flambeau._tensor import Tensor
from flambeau.aten.overloads import namespace

aten: Any = namespace("aten")


def einsum_of(equation: str, tensors: list[Tensor]) -> Tensor:
    """The sum that an equation describes."""
    inputs, letters, kept = _parsed(equation, tensors)
    order = list(kept) + [x for x in letters if x not in kept]
    operands = [_arranged(t, names, order) for t, names in zip(tensors, inputs)]
    present = [set(names) for names in inputs]
    result, seen = operands[0], set(present[0])
    for k, operand in enumerate(operands[1:], 1):
        later = set(kept).union(*present[k + 1 :])
        gone = [x for x in order if x in seen | present[k] and x not in later]
        result = _pair(result, operand, seen, present[k], order, gone)
        seen = (seen | present[k]) - set(gone)
    rest = [k for k, x in enumerate(order) if k >= len(kept)]
    if len(operands) == 1 and rest:
        return aten.sum.dim_IntList(result, rest)
    return (
        aten.view.default(result, [result.shape[k] for k in range(len(kept))]) if rest else result
    )


def _parsed(equation, tensors):
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    dots = max((t.ndim - len(p.replace("...", "")) for t, p in zip(tensors, parts)), default=0)
    names = [chr(200 + k) for k in range(dots)]

    def spread(text, ndim=None):
        head, found, tail = text.partition("...")
        if not found:
            return list(text)
        count = dots if ndim is None else ndim - len(head) - len(tail)
        return list(head) + names[len(names) - count :] + list(tail)

    inputs = [spread(p, t.ndim) for p, t in zip(parts, tensors)]
    letters = list(dict.fromkeys(x for i in inputs for x in i))
    if arrow:
        return inputs, letters, spread(right)
    flat = [x for i in inputs for x in i]
    return inputs, letters, names + sorted(x for x in set(flat) - set(names) if flat.count(x) == 1)


def _arranged(tensor, names, order):
    """All dimensions there are, in one order; missing ones have length one."""
    for k in range(len(names) - 1, -1, -1):
        first = names.index(names[k])
        if first != k:  # a letter twice: the diagonal
            tensor = aten.diagonal.default(tensor, 0, first, k)
            tensor = aten.movedim.int(tensor, -1, first)
            names = names[:k] + names[k + 1 :]
    have = len(names)
    missing = [x for x in order if x not in names]
    for _ in missing:
        tensor = aten.unsqueeze.default(tensor, tensor.ndim)
    places = {x: k for k, x in enumerate(names)}
    places |= {x: have + k for k, x in enumerate(missing)}
    return aten.permute.default(tensor, [places[x] for x in order])


def _pair(a, b, in_a, in_b, order, gone):
    """Two operands multiplied, with sums over dimensions that are in both and go."""
    shared = [k for k, x in enumerate(order) if x in gone and x in in_a and x in in_b]
    for name, operand in (("a", a), ("b", b)):
        only = in_a - in_b if name == "a" else in_b - in_a
        lone = [k for k, x in enumerate(order) if x in gone and x in only]
        if lone:
            operand = aten.sum.dim_IntList(operand, lone, True)
            a, b = (operand, b) if name == "a" else (a, operand)
    if not shared:
        return aten.mul.Tensor(a, b)
    n = len(order)
    batch = [k for k in range(n) if k not in shared and order[k] in in_a and order[k] in in_b]
    left = [k for k in range(n) if k not in shared and order[k] in in_a and order[k] not in in_b]
    right = [k for k in range(n) if k not in (*shared, *batch, *left)]
    if left and right and right[-1] < left[0]:  # the result's columns come before its rows
        a, b, left, right = b, a, right, left
    sizes_a, sizes_b = list(a.shape), list(b.shape)
    count = math.prod(sizes_a[k] for k in batch)
    rows, columns = (math.prod(sizes_a[k] for k in left), math.prod(sizes_b[k] for k in right))
    inner = math.prod(sizes_a[k] for k in shared)
    a = aten.permute.default(a, [*batch, *left, *shared, *right])
    a = aten.reshape.default(a, [count, rows, inner])
    b = aten.permute.default(b, [*batch, *shared, *right, *left])
    b = aten.reshape.default(b, [count, inner, columns])
    product = aten.bmm.default(a, b)
    shape = [sizes_a[k] for k in (*batch, *left)] + [1] * len(shared) + [sizes_b[k] for k in right]
    product = aten.view.default(product, shape)
    arranged = [*batch, *left, *shared, *right]
    return aten.permute.default(product, [arranged.index(k) for k in range(n)])
