"""einsum: parse the index notation, then contract operands, left to right, by batched products.

All operands get the same dimensions: those of the output in their order, then the summed ones; what
an operand lacks has size one. A pair is contracted as soon as nobody later needs a dimension. The
order of dimensions in between is PyTorch's, so that results have its strides.
"""

import math
import string

LETTERS = string.ascii_uppercase + string.ascii_lowercase
ELLIPSIS = "..."


def evaluate(arguments):
    """einsum as called: with an equation and operands, or operands and lists of subscripts."""
    if len(arguments) == 3 and type(arguments[0]) is str:
        equation, a, b = arguments
        recipe = _recipes.get((equation, getattr(a, "shape", None), getattr(b, "shape", None)))
        if recipe is not None:
            return _follow(recipe, a, b)
    if len(arguments) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    if isinstance(arguments[0], str):
        equation, operands = arguments[0], list(arguments[1:])
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = list(operands[0])
    else:
        equation, operands = _from_sublists(arguments)
    for k, t in enumerate(operands):
        if not hasattr(t, "_layout"):
            raise TypeError(
                f"expected Tensor as element {k} in argument 1, but got {type(t).__name__}"
            )
    terms, output = _parse(equation, operands)
    order = [*output, *_summed(terms, output)]
    if len(operands) == 2:
        recipe = _recipe(terms, order, len(output), *[t.shape for t in operands])
        if recipe is not None:
            if len(_recipes) > 1024:
                _recipes.clear()
            _recipes[equation, operands[0].shape, operands[1].shape] = recipe
            return _follow(recipe, *operands)
    return _contract_all(
        [_aligned(t, term, order) for t, term in zip(operands, terms)], len(output)
    )


# -- the notation ---------------------------------------------------------------------------------


def _from_sublists(items):
    """einsum(a, [0, 1], b, [1, 2], [0, 2]) as an equation."""

    def text(labels):
        return "".join(ELLIPSIS if x is Ellipsis else _letter(x) for x in labels)

    lists = [text(x) for x in items[1::2]]
    equation = ",".join(lists)
    if len(items) % 2:
        equation += "->" + text(items[-1])
    return equation, list(items[0 : len(items) - len(items) % 2 : 2])


def _letter(label):
    if not 0 <= label < len(LETTERS):
        raise ValueError(
            "einsum(): subscript in subscript list is not within the valid range [0, 52)"
        )
    return LETTERS[label]


def _parse(equation, operands):
    """Labels per operand and those of the output; the dimensions of ... are numbers, last one 0."""
    left, arrow, right = equation.partition("->")
    written = [_labels(t, equation, 0, f"operand {k}") for k, t in enumerate(left.split(","))]
    if len(written) != len(operands):
        more = "fewer" if len(written) > len(operands) else "more"
        raise RuntimeError(
            f"einsum(): {more} operands were provided than specified in the equation"
        )
    for k, (labels, t) in enumerate(zip(written, operands)):
        _check_count(labels, t, k)
    wide = max((t.ndim - len(w) + 1 for w, t in zip(written, operands) if ELLIPSIS in w), default=0)
    terms = [_spread(w, t.ndim - len(w) + 1) for w, t in zip(written, operands)]
    _check_sizes(terms, operands)
    if arrow:
        output = _labels(right, equation, len(left) + 2, "output")
        _check_output(output, terms)
        return terms, _spread(output, wide)
    every = [c for t in terms for c in t if isinstance(c, str)]
    once = sorted((c for c in set(every) if every.count(c) == 1), key=LETTERS.index)
    return terms, _spread([ELLIPSIS, *once], wide)


def _labels(text, equation, start, where):
    """Letters and at most one ... of a term."""
    found: list = []
    k = 0
    while k < len(text):
        c = text[k]
        if c == ".":
            if ELLIPSIS in found:
                raise RuntimeError(
                    f"einsum(): found '.' for {where} for which an ellipsis was already found"
                    if where != "output"
                    else "einsum(): found '.' for output but an ellipsis (...) was already found"
                )
            if text[k : k + 3] != ELLIPSIS:
                more = " (...)" if where == "output" else ""
                raise RuntimeError(
                    f"einsum(): found '.' for {where} that is not part of any ellipsis{more}"
                )
            found.append(ELLIPSIS)
            k += 2
        elif c != " ":
            if c not in LETTERS:
                at = start + k if start else equation.index(c)
                raise RuntimeError(
                    f"einsum(): invalid subscript given at index {at} in the equation string, "
                    "subscripts must be in [a-zA-Z]"
                )
            found.append(c)
        k += 1
    return found


def _check_count(labels, t, k):
    named = len(labels) - (ELLIPSIS in labels)
    if ELLIPSIS in labels and named > t.ndim:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({named}) is more than the number "
            f"of dimensions ({t.ndim}) for operand {k}"
        )
    if ELLIPSIS not in labels and named != t.ndim:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({named}) does not match the "
            f"number of dimensions ({t.ndim}) for operand {k} and no ellipsis was given"
        )


def _spread(labels, wide):
    """... as that many numbered dimensions, counted from the right."""
    found: list = []
    for c in labels:
        found.extend(range(wide - 1, -1, -1) if c == ELLIPSIS else [c])
    return found


def _check_sizes(terms, operands):
    sizes: dict = {}
    for k, (term, t) in enumerate(zip(terms, operands)):
        own: dict = {}
        for c, n in zip(term, t.shape):
            if own.setdefault(c, n) != n:
                raise RuntimeError(
                    f"einsum(): subscript {c} is repeated for operand {k} but the sizes don't "
                    f"match, {n} != {own[c]}"
                )
            if sizes.get(c, 1) == 1:
                sizes[c] = n
            elif n not in (1, sizes[c]):
                raise RuntimeError(
                    f"einsum(): subscript {c} has size {n} for operand {k} which does not "
                    f"broadcast with previously seen size {sizes[c]}"
                )


def _check_output(output, terms):
    for c in output:
        if output.count(c) > 1:
            raise RuntimeError(
                f"einsum(): output subscript {c} appears more than once in the output"
            )
        if c != ELLIPSIS and not any(c in t for t in terms):
            raise RuntimeError(
                f"einsum(): output subscript {c} does not appear in the equation for any input "
                "operand"
            )


def _summed(terms, output):
    """Labels that are not in the output: dimensions of ... first, then letters in order."""
    rest = {c for t in terms for c in t} - set(output)
    numbers = sorted((c for c in rest if isinstance(c, int)), reverse=True)
    return numbers + sorted((c for c in rest if isinstance(c, str)), key=LETTERS.index)


# -- contraction ----------------------------------------------------------------------------------


def _aligned(t, term, order):
    """An operand with all dimensions in the common order; repeated labels are diagonals."""
    term = list(term)
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            first = term.index(c)
            second = term.index(c, first + 1)
            t = t.diagonal(0, first, second).movedim(-1, first)
            del term[second]
    missing = [c for c in order if c not in term]
    for _ in missing:
        t = t.unsqueeze(t.ndim)
    term += missing
    places = [term.index(c) for c in order]
    return t if places == sorted(places) else t.permute(places)


def _contract_all(parts, kept):
    ndim = parts[0].ndim
    summed = range(kept, ndim)
    if len(parts) == 1:
        return parts[0].sum(tuple(summed)) if len(summed) else parts[0]
    users = {d: sum(p.shape[d] != 1 for p in parts) for d in summed}
    current = parts[0]
    for other in parts[1:]:
        current = _pair(current, other, users, summed)
    return current.view(current.shape[:kept]) if len(summed) else current


def _pair(a, b, users, summed):
    """One step: sum what only one side has, contract what nobody needs later."""
    alone: tuple = ([], [])
    both = []
    for d in summed:
        if a.shape[d] != 1 and b.shape[d] != 1:
            users[d] -= 1
            if users[d] == 1:
                both.append(d)
                users[d] = 0
        elif users[d] == 1 and (a.shape[d] != 1 or b.shape[d] != 1):
            alone[a.shape[d] == 1].append(d)
            users[d] = 0
    a, b = (t.sum(dims, keepdim=True) if dims else t for t, dims in zip((a, b), alone))
    return _product(a, b, both) if both else a * b


# -- two operands and one product, the usual case: worked out once per equation and shapes ---------

_recipes: dict = {}


def _recipe(terms, order, kept, *shapes):
    """What _aligned, _pair and _product would do with two operands, if that is one product."""
    if any(len(set(term)) < len(term) for term in terms):
        return None
    a, b = ({c: (k, n) for k, (c, n) in enumerate(zip(t, s))} for t, s in zip(terms, shapes))
    shared, rows, both, columns = [], [], [], []
    for place, c in enumerate(order):
        left, right = a.get(c, (0, 1))[1] != 1, b.get(c, (0, 1))[1] != 1
        if place >= kept:
            if left is not right:
                return None  # a sum of its own
            if left:
                both.append(place)
                continue
        (shared if left and right else rows if left else columns).append(place)
    if not both:
        return None
    swapped = _come_first(columns, rows)
    if swapped:
        a, b, rows, columns = b, a, columns, rows

    def dims(places, own):
        return tuple(own[order[p]][0] for p in places if order[p] in own)

    def size(places, own):
        return math.prod(own.get(order[p], (0, 1))[1] for p in places)

    batch, m, k, n = size(shared, a), size(rows, a), size(both, a), size(columns, b)
    steps = shared + rows + both + columns
    shape = tuple(
        1 if p in both else (b if p in columns else a).get(order[p], (0, 1))[1] for p in steps
    )
    back = tuple(steps.index(p) for p in range(len(order)))
    return (
        swapped,
        (dims(steps, a), (batch, m, k)),
        (dims(shared + both + columns + rows, b), (batch, k, n)),
        shape,
        back,
        tuple(shape[p] for p in back)[:kept],
    )


def _follow(recipe, a, b):
    swapped, (a_dims, a_shape), (b_dims, b_shape), shape, back, final = recipe
    if swapped:
        a, b = b, a
    x, y = a.permute(a_dims).reshape(a_shape), b.permute(b_dims).reshape(b_shape)
    return x.bmm(y).view(shape).permute(back).view(final)


def _come_first(columns, rows):
    """Do all columns stand before all rows in the result? Then the operands change sides."""
    return bool(rows and columns) and columns[-1] < rows[0]


def _product(a, b, both):
    """A batched product: shared dimensions are the batch, those of one side rows or columns."""
    shared, rows, columns = [], [], []
    for d in range(a.ndim):
        if d not in both:
            left, right = a.shape[d] != 1, b.shape[d] != 1
            (shared if left and right else rows if left else columns).append(d)
    if _come_first(columns, rows):
        a, b, rows, columns = b, a, columns, rows
    batch, m, k, n = (
        math.prod(t.shape[d] for d in dims)
        for t, dims in ((a, shared), (a, rows), (a, both), (b, columns))
    )
    x = a.permute(shared + rows + both + columns).reshape(batch, m, k)
    y = b.permute(shared + both + columns + rows).reshape(batch, k, n)
    order = shared + rows + both + columns
    shape = [1 if d in both else b.shape[d] if d in columns else a.shape[d] for d in order]
    return x.bmm(y).view(shape).permute([order.index(d) for d in range(a.ndim)])
