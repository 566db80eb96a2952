"""Calls of `autograd.functional` as data: what to call, on which function, at which point.

`outcome(torch, case)` makes the call with the given package and returns plain data: nested lists
of numbers, or the type and text of the exception. Recording and comparing both use it.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    """`call` of autograd.functional on FUNCTIONS[function] at POINTS[at]."""

    call: str
    function: str
    at: str
    v: Any = None
    options: tuple = ()

    @property
    def name(self) -> str:
        options = ",".join(f"{key}={value}" for key, value in self.options)
        return f"{self.call}-{self.function}-{self.at}-{self.v}-{options}"


FUNCTIONS = {
    "square": lambda t: lambda x: x * x,
    "cubes": lambda t: lambda x: (x**3).sum(),
    "waves": lambda t: lambda x: (x.sin() * x.exp()).sum(0),
    "linear": lambda t: lambda x: 3 * x,
    "linear_sum": lambda t: lambda x: (3 * x).sum(),
    "constant": lambda t: lambda x: t.ones(2),
    "detached": lambda t: lambda x: x.detach() * 2,
    "pair": lambda t: lambda x, y: (x * y.sum(), (x * x).sum() + y.prod()),
    "first_only": lambda t: lambda x, y: (x * x * x).sum(),
    "first_of_two": lambda t: lambda x, y: (x.exp(), x.sum() * y.sum()),
    "mixed": lambda t: lambda x, y: (x.exp() * y.cos().sum()).sum(),
    "tuple_of_one": lambda t: lambda x: (x.sum(),),
    "number": lambda t: lambda x: 3.0,
    "listed": lambda t: lambda x: [x, x],
    "tuple_with_number": lambda t: lambda x: (x, 2),
    "keep_shape": lambda t: lambda x: (x**2).sum().reshape(1, 1),
}

POINTS = {
    "scalar": [1.5],
    "one": [[0.7]],
    "vector": [[1.0, -2.0, 0.5]],
    "matrix": [[[0.5, 1.0], [-1.0, 2.0], [0.25, 0.0]]],
    "two": [[1.0, 2.0], [0.5, -1.0]],
}

ALL = ("jacobian", "hessian", "vjp", "jvp", "vhp", "hvp")
_ON_ONE = ("square", "cubes", "waves", "linear", "linear_sum", "constant", "detached",
           "tuple_of_one", "number", "listed", "tuple_with_number", "keep_shape")  # fmt: skip
_ON_TWO = ("pair", "first_only", "first_of_two", "mixed")


def _vectors(call, function, at):
    """Vectors to multiply by: none, one of the right shape, and wrong ones."""
    if call in ("jacobian", "hessian"):
        return [None]
    return [None, "inputs", "outputs", "short", "long"]


def cases() -> list[Case]:
    """Every call on every function, plain, strict and with the graph kept."""
    made = []
    for call in ALL:
        for function in _ON_ONE + _ON_TWO:
            points = ("two",) if function in _ON_TWO else ("scalar", "one", "vector", "matrix")
            for at in points:
                for v in _vectors(call, function, at):
                    for strict in (False, True):
                        for graph in (False, True):
                            options = (("create_graph", graph), ("strict", strict))
                            made.append(Case(call, function, at, v, options))
    jacobians = [
        {"vectorize": True},
        {"vectorize": True, "strict": True},
        {"strategy": "forward-mode"},
        {"strategy": "forward-mode", "create_graph": True},
        {"strategy": "forward-mode", "strict": True, "vectorize": True},
        {"strategy": "sideways"},
    ]
    for options in jacobians:
        made.append(Case("jacobian", "square", "vector", None, tuple(options.items())))
        renamed = {k.replace("strategy", "outer_jacobian_strategy"): v for k, v in options.items()}
        made.append(Case("hessian", "cubes", "vector", None, tuple(renamed.items())))
    return made


def _v(torch, case, inputs):
    if case.v is None:
        return None
    if case.v == "long":
        return (torch.ones(2, dtype=torch.float64),) * 3
    if case.v == "short":
        return torch.ones(1, 2, dtype=torch.float64)
    like = inputs
    if case.v == "outputs":
        out = FUNCTIONS[case.function](torch)(*inputs)
        out = out if isinstance(out, tuple) else (out,)
        like = out if all(isinstance(t, torch.Tensor) for t in out) else inputs
    vectors = tuple(torch.full_like(t, 0.5 + i) for i, t in enumerate(like))
    return vectors if len(vectors) > 1 else vectors[0]


def plain(value):
    """Numbers instead of tensors, at any depth; and whether each can be differentiated."""
    if isinstance(value, tuple):
        return [plain(entry) for entry in value]
    return {"values": value.tolist(), "requires_grad": value.requires_grad}


def outcome(torch, case: Case):
    """What the call gives, as data."""
    inputs = tuple(
        torch.tensor(values, dtype=torch.float64, requires_grad=True) for values in POINTS[case.at]
    )
    function = FUNCTIONS[case.function](torch)
    extra = dict(case.options)
    try:
        if case.v is not None:
            extra["v"] = _v(torch, case, inputs)
        call = getattr(torch.autograd.functional, case.call)
        return {"result": plain(call(function, inputs if len(inputs) > 1 else inputs[0], **extra))}
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)}
