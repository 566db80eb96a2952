"""Functions to run `gradcheck` and `gradgradcheck` on, right and wrong ones, as data.

`outcome(torch, case)` runs one check with the given package and returns True, False or the type and
the first lines of the exception, so that recordings and live comparisons see the same.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple


class Case(NamedTuple):
    """`check` on FUNCTIONS[function] at POINTS[at]."""

    check: str
    function: str
    at: str
    options: dict[str, Any]

    @property
    def name(self) -> str:
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.check}-{self.function}-{self.at}-{options}"


def _with_backward(torch, forward, backward):
    """A custom Function of one tensor from a value and a (perhaps wrong) derivative."""

    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return backward(g, x)

    return Custom.apply


def _counting(torch):
    calls = [0]

    def backward(g, x):
        calls[0] += 1
        return g * 2 * x + 1e-7 * calls[0]

    return _with_backward(torch, lambda x: x * x, backward)


def _refusing(torch):
    """Two outputs; backward does not accept that one of them has no gradient."""

    class Refusing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            if g is None or h is None:
                raise RuntimeError("both, please")
            return g * 2 + h * 3

    return Refusing.apply


def _needing(torch):
    """One output, whose backward does not accept that its gradient is missing."""

    class Needing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if g is None:
                raise RuntimeError("a gradient, please")
            return g * 2

    return Needing.apply


FUNCTIONS = {
    "sin": lambda t: lambda x: x.sin(),
    "pair": lambda t: lambda x: (x * x, x.exp().sum()),
    "product": lambda t: lambda x, y: x * y,
    "matmul": lambda t: lambda x, y: x @ y.t(),
    "unused": lambda t: lambda x, y: x * 2,
    "linear": lambda t: lambda x: 3 * x,
    "indices": lambda t: lambda x: x.argmax(),
    "with_indices": lambda t: lambda x: (x * 2, x.argmax()),
    "detached": lambda t: lambda x: x.detach() * 2,
    "detached_constant": lambda t: lambda x: x.detach() * 0,
    "half_detached": lambda t: lambda x: x * x.detach(),
    "real": lambda t: lambda x: x.abs(),
    "turned": lambda t: lambda x: x * (1 + 2j),
    "turned_half_detached": lambda t: lambda x: x * x.detach() * 1j,
    "wrong": lambda t: _with_backward(t, lambda x: x * x, lambda g, x: g * x),
    "wrong_second": lambda t: _with_backward(t, lambda x: x**3, lambda g, x: 3 * g * x * x.data),
    "wrong_size": lambda t: _with_backward(t, lambda x: x * x, lambda g, x: (2 * g * x).sum()),
    "right": lambda t: _with_backward(t, lambda x: x * x, lambda g, x: 2 * g * x),
    "constant_gradient": lambda t: _with_backward(t, lambda x: x * 2, lambda g, x: 2 + 0 * g),
    "counting": _counting,
    "refusing": _refusing,
    "needing": _needing,
}  # fmt: skip


def _points(torch):
    def real(values, grad=True, dtype="float64"):
        return torch.tensor(values, dtype=getattr(torch, dtype), requires_grad=grad)

    matrix = [[0.5, 1.0, -0.25], [-1.0, 2.0, 0.75]]
    return {
        "matrix": lambda: (real(matrix),),
        "scalar": lambda: (real(0.3),),
        "empty": lambda: (real([]),),
        "list": lambda: [real(matrix)],
        "bare": lambda: real(matrix),
        "transposed": lambda: (real(matrix).detach().t().requires_grad_(),),
        "two": lambda: (real(matrix), real([[1.5, -0.5, 1.0], [0.25, 1.0, 2.0]])),
        "second_fixed": lambda: (real(matrix), real([[1.5, -0.5, 1.0], [0.25, 1.0, 2.0]], False)),
        "complex": lambda: (real([0.5 + 1j, -1 + 0.25j], dtype="complex128"),),
        "fixed": lambda: (real(matrix, False),),
        "expanded": lambda: (real([1.0]).detach().expand(3).requires_grad_(),),
        "single": lambda: (real(matrix, dtype="float32"),),
    }


_ONE = ("sin", "pair", "linear", "indices", "with_indices", "detached", "detached_constant",
        "half_detached", "real", "wrong", "wrong_second", "wrong_size", "right",
        "constant_gradient", "counting", "refusing", "needing")  # fmt: skip


def cases() -> list[Case]:
    """Every function where it makes sense, slow and fast, raising and not."""
    made = []
    for check in ("gradcheck", "gradgradcheck"):
        # PyTorch's gradgradcheck calls the function without arguments when nothing has a gradient.
        dull = ("indices", "detached", "detached_constant") if check == "gradgradcheck" else ()
        pairs = [(f, "matrix") for f in _ONE if f not in dull]
        pairs += [(f, at) for f in ("sin", "pair") for at in ("scalar", "list", "bare")]
        pairs += [("sin", "transposed"), ("sin", "fixed"), ("sin", "expanded"), ("sin", "single")]
        pairs += [
            (f, at) for f in ("product", "matmul", "unused") for at in ("two", "second_fixed")
        ]
        pairs += [(f, "complex") for f in ("sin", "real", "turned", "turned_half_detached")]
        pairs += [("turned", "scalar"), ("turned_half_detached", "scalar")]
        for function, at in pairs:
            for fast in (False, True):
                made.append(Case(check, function, at, {"fast_mode": fast}))
            made.append(Case(check, function, at, {"raise_exception": False}))
        made.append(Case(check, "sin", "empty", {}))
        made.append(Case(check, "counting", "matrix", {"nondet_tol": 1e-3}))
        made.append(Case(check, "refusing", "matrix", {"check_undefined_grad": False}))
        made.append(Case(check, "wrong", "matrix", {"atol": 10.0}))
        made.append(Case(check, "sin", "single", {"eps": 1e-2, "atol": 1e-2}))
        made.append(Case(check, "sin", "matrix", {"check_grad_dtypes": True}))
    made.append(Case("gradcheck", "sin", "matrix", {"check_backward_ad": False}))
    made.append(
        Case("gradcheck", "sin", "matrix", {"check_backward_ad": False, "check_batched_grad": True})
    )
    made.append(Case("gradcheck", "sin", "matrix", {"check_batched_forward_grad": True}))
    made.append(Case("gradgradcheck", "sin", "matrix", {"check_rev_over_rev": False}))
    made.append(Case("gradgradcheck", "sin", "matrix", {"gen_non_contig_grad_outputs": True}))
    return made


def outcome(torch, case: Case):
    """What the check says, as data; of a message the sentence that people match on."""
    function = FUNCTIONS[case.function](torch)
    check = getattr(torch.autograd, case.check)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            torch.manual_seed(0)
            result = check(function, _points(torch)[case.at](), **case.options)
        except Exception as error:
            text = str(error).split("\n")[0].split(". ")[0]
            result = {"error": type(error).__name__, "text": text}
    return {"result": result, "warnings": sorted({str(w.message)[:60] for w in seen})}
