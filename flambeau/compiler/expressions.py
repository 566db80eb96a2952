"""Expressions of kernels taken apart and put together: other arguments, numbers, identity."""

from flambeau.codegen import scalar

HALVES = ("f16", "bf16")


def compute_type(code):
    return "f32" if code in HALVES else code


def substituted(values, arguments):
    """Expressions with something else in place of their arguments."""
    memo: dict = {}

    def visit(e):
        found = memo.get(id(e))
        if found is None:
            if e.op == "argument":
                found = arguments[e.data]
            elif not e.args:
                found = e
            else:
                args = tuple(map(visit, e.args))
                same = all(a is b for a, b in zip(args, e.args))
                found = e if same else scalar.Expr(e.op, args, e.type, e.data)
            memo[id(e)] = found
        return found

    return [visit(v) for v in values]


def leaves(values):
    """The arguments that expressions mention, by identity."""
    seen, found, stack = set(), set(), list(values)
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if e.op == "argument":
            found.add(id(e))
        stack.extend(e.args)
    return found


def numbered(value, places, memo):
    """An expression whose arguments are counted."""

    def visit(e):
        found = memo.get(id(e))
        if found is None:
            if e.op == "argument":
                found = scalar.argument(places[id(e)], e.type)
            elif not e.args:
                found = e
            else:
                found = scalar.Expr(e.op, tuple(map(visit, e.args)), e.type, e.data)
            memo[id(e)] = found
        return found

    return visit(value)


def structure(values):
    """What tells expressions apart: every node once, by what it is and which nodes it uses."""
    number: dict = {}
    found: list = []

    def visit(e):
        k = number.get(id(e))
        if k is None:
            args = tuple(map(visit, e.args))
            data = e.data
            if e.op == "repeat":
                count, index, variables = data
                data = (count, visit(index), tuple(map(visit, variables)))
            k = number[id(e)] = len(found)
            found.append((e.op, e.type, repr(data), args))
        return k

    return tuple(map(visit, values)), tuple(found)


def exchanged(value, memo, leaf):
    """An expression with others in place of some: leaf(e) gives them, or None."""

    def visit(e):
        found = memo.get(id(e))
        if found is None:
            found = leaf(e)
            if found is None:
                found = e
                if e.args:
                    found = scalar.Expr(e.op, tuple(map(visit, e.args)), e.type, e.data)
            memo[id(e)] = found
        return found

    return visit(value)
