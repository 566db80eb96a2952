"""einsum: parse the index notation, then contract operands pair by pair with batched products."""

import string

LETTERS = string.ascii_letters


def evaluate(equation, operands):
    if not isinstance(equation, str):
        equation, operands = _from_sublists([equation, *operands])
    terms, output = _parse(equation, operands)
    sizes = _sizes(terms, operands)
    parts = [_diagonal(t, o, sizes) for t, o in zip(terms, operands)]
    current, labels = parts[0]
    for k, (other, other_labels) in enumerate(parts[1:], 1):
        later = (
            set(output).union(*(p[1] for p in parts[k + 1 :]))
            if k + 1 < len(parts)
            else set(output)
        )
        current, labels = _contract(current, labels, other, other_labels, later)
    drop = [k for k, x in enumerate(labels) if x not in output]
    if drop:
        current = current.sum(drop)
        labels = [x for x in labels if x in output]
    return current.permute(*[labels.index(x) for x in output]) if output else current


def _from_sublists(items):
    """einsum(a, [0, 1], b, [1, 2], [0, 2]) as an equation."""
    operands, lists, out = [], [], None
    for k in range(0, len(items) - 1, 2):
        operands.append(items[k])
        lists.append(items[k + 1])
    if len(items) % 2:
        out = items[-1]

    def text(labels):
        return "".join("..." if x is Ellipsis else LETTERS[x] for x in labels)

    equation = ",".join(map(text, lists)) + ("->" + text(out) if out is not None else "")
    return equation, operands


def _parse(equation, operands):
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        more = "more" if len(terms) < len(operands) else "fewer"
        raise RuntimeError(
            f"einsum(): {more} operands were provided than specified in the equation"
        )
    for k, t in enumerate(terms):
        for c in t.replace("...", ""):
            if c not in LETTERS:
                raise RuntimeError(
                    f"einsum(): invalid subscript given at index {equation.index(c)} in the equation string, subscripts must be in [a-zA-Z]"
                )
        if t.count("...") > 1 or ("." in t.replace("...", "")):
            raise RuntimeError(
                f"einsum(): found '.' for operand {k} that is not part of any ellipsis"
            )
    wide = 0
    for k, (t, o) in enumerate(zip(terms, operands)):
        named = len(t.replace("...", ""))
        if "..." in t:
            if o.ndim < named:
                raise RuntimeError(
                    f"einsum(): the number of subscripts in the equation ({named}) is more than the number of dimensions ({o.ndim}) for operand {k}"
                )
            wide = max(wide, o.ndim - named)
        elif o.ndim != named:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) does not match the number of "
                f"dimensions ({o.ndim}) for operand {k}"
                + (" and no ellipsis was given" if o.ndim > named else "")
            )
    dots = [f"#{k}" for k in range(wide)]
    expanded = [_expand(t, o.ndim, dots) for t, o in zip(terms, operands)]
    if arrow:
        out: list = []
        for piece in right.replace("...", ".").strip():
            out.extend(dots if piece == "." else [piece])
        for c in out:
            if out.count(c) > 1:
                raise RuntimeError(
                    f"einsum(): output subscript {c} appears more than once in the output"
                )
            if not any(c in t for t in expanded) and c not in dots:
                raise RuntimeError(
                    f"einsum(): output subscript {c} does not appear in the equation for any input operand"
                )
    else:
        every = [c for t in expanded for c in t if c[0] != "#"]
        out = dots + sorted(c for c in set(every) if every.count(c) == 1)
    return expanded, out


def _expand(term, ndim, dots):
    found: list = []
    for piece in term.replace("...", "."):
        if piece == ".":
            count = ndim - (len(term) - 3)
            found.extend(dots[len(dots) - count :])
        else:
            found.append(piece)
    return found


def _sizes(terms, operands):
    sizes: dict = {}
    for k, (t, o) in enumerate(zip(terms, operands)):
        for d, c in enumerate(t):
            n = o.shape[d]
            if sizes.get(c, 1) == 1:
                sizes[c] = n
            elif n not in (1, sizes[c]):
                raise RuntimeError(
                    f"einsum(): subscript {c} has size {n} for operand {k} which does not broadcast with previously seen size {sizes[c]}"
                )
    return sizes


def _diagonal(labels, t, sizes):
    """Repeated labels become diagonals."""
    labels = list(labels)
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            first = labels.index(c)
            second = labels.index(c, first + 1)
            t = t.diagonal(0, first, second)
            labels = [x for k, x in enumerate(labels) if k not in (first, second)] + [c]
    return t, labels


def _contract(a, la, b, lb, later):
    """One batched product: shared labels that are needed later are batch, the other shared ones are summed."""
    # a label that only one side has, and nobody needs later, is summed first
    for side in (0, 1):
        t, own, other = (a, la, lb) if side == 0 else (b, lb, la)
        alone = [k for k, c in enumerate(own) if c not in other and c not in later]
        if alone:
            t = t.sum(alone)
            own = [c for k, c in enumerate(own) if k not in alone]
        if side == 0:
            a, la = t, own
        else:
            b, lb = t, own
    shared = [c for c in la if c in lb]
    summed = [c for c in shared if c not in later]
    size_a, size_b = dict(zip(la, a.shape)), dict(zip(lb, b.shape))
    if any(size_a[c] != size_b[c] for c in summed):
        a, b = (_stretch(t, lt, shared, size_a, size_b) for t, lt in ((a, la), (b, lb)))
        size_a, size_b = dict(zip(la, a.shape)), dict(zip(lb, b.shape))
    batch = [c for c in shared if c in later]
    free_a = [c for c in la if c not in shared]
    free_b = [c for c in lb if c not in shared]
    if not summed:
        # no sum: a broadcast product
        x = a.permute(*[la.index(c) for c in batch + free_a])
        x = x.reshape([size_a[c] for c in batch + free_a] + [1] * len(free_b))
        y = b.permute(*[lb.index(c) for c in batch + free_b])
        y = y.reshape([size_b[c] for c in batch] + [1] * len(free_a) + [size_b[c] for c in free_b])
        return x * y, batch + free_a + free_b
    sizes = {c: max(size_a[c], size_b[c]) for c in batch}
    x = a.permute(*[la.index(c) for c in batch + free_a + summed])
    y = b.permute(*[lb.index(c) for c in batch + summed + free_b])
    x = x.expand([sizes[c] for c in batch] + [size_a[c] for c in free_a + summed])
    y = y.expand([sizes[c] for c in batch] + [size_b[c] for c in summed + free_b])
    nb, na, ns, nf = (
        _prod(sizes[c] for c in batch),
        _prod(size_a[c] for c in free_a),
        _prod(size_a[c] for c in summed),
        _prod(size_b[c] for c in free_b),
    )
    product = x.reshape(nb, na, ns).bmm(y.reshape(nb, ns, nf))
    shape = [sizes[c] for c in batch] + [size_a[c] for c in free_a] + [size_b[c] for c in free_b]
    return product.reshape(shape), batch + free_a + free_b


def _stretch(t, labels, shared, size_a, size_b):
    return t.expand(
        [max(size_a[c], size_b[c]) if c in shared else n for c, n in zip(labels, t.shape)]
    )


def _prod(values):
    total = 1
    for v in values:
        total *= v
    return total
