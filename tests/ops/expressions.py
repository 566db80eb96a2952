"""One expression, two libraries: what came of it, and where the outcomes differ.

An expression says `torch` and `X(dtype, *shape, seed=0)`, which draws the same numbers for both.
What must agree: values, dtypes, shapes, strides, names of nodes, warnings, and of exceptions the
type and the first sentence. Nothing here imports PyTorch; the libraries are arguments.
"""

import re
import warnings
from math import inf, nan

import numpy as np

TOLERANCE = {
    "float16": 2e-3, "bfloat16": 1.6e-2, "float32": 3e-6, "float64": 2e-13, "complex64": 6e-6,
    "complex128": 2e-13,
}  # fmt: skip


def numbers(dtype, shape, seed):
    """Small numbers that half types hold exactly; some of them equal."""
    rng = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("complex"):
        return (rng.integers(-8, 9, shape) / 4 + 1j * rng.integers(-8, 9, shape) / 4).astype(dtype)
    if dtype in ("float32", "float64"):
        return rng.standard_normal(shape).astype(dtype)
    if "float" in dtype:
        return (np.round(4 * rng.standard_normal(shape)) / 4).astype("float32")
    low = 0 if dtype.startswith("u") else -5
    return rng.integers(low, 9, shape).astype(dtype)


def drawing(lib):
    def draw(dtype, *shape, seed=0):
        t = lib.from_numpy(np.array(numbers(dtype, shape, seed)))
        return t.to(getattr(lib, dtype)) if dtype in ("float16", "bfloat16") else t

    return draw


def outcome(lib, text):
    """(value or exception, warnings); a program of several lines leaves its value in r."""
    space = {"torch": lib, "X": drawing(lib), "nan": nan, "inf": inf}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if "\n" in text:
                exec(text, space)
                value = space["r"]
            else:
                value = eval(text, space)
        except Exception as error:  # which one, and its words, is what is compared
            value = error
    return value, [sentence(w.message) for w in caught]


def sentence(text):
    """The first sentence; of calls that fit no overload only that much."""
    text = re.split(r"(?<=[a-z\])])\. |\n|; | \(Triggered", str(text))[0].rstrip(".")
    text = re.sub(r"(invalid combination of arguments) - got.*", r"\1", text)
    return re.sub(r" \(position \d+\)", "", text)


def difference(got, want):
    """Where two outcomes differ, or None."""
    if isinstance(want, Exception) or isinstance(got, Exception):
        mine, theirs = (
            f"{type(v).__name__}: {sentence(v)}" if isinstance(v, Exception) else "a value"
            for v in (got, want)
        )
        return None if mine == theirs else f"{mine}\ninstead of\n{theirs}"
    if isinstance(want, (tuple, list)):
        if type(got).__name__ != type(want).__name__ or len(got) != len(want):
            return f"{type(got).__name__} instead of {type(want).__name__}"
        found = [difference(g, w) for g, w in zip(got, want)]
        return next((f"item {k}: {f}" for k, f in enumerate(found) if f), None)
    if hasattr(want, "dtype"):
        return _tensors(got, want)
    return None if got == want or (got != got and want != want) else f"{got!r} instead of {want!r}"


def _facts(t):
    node = type(t.grad_fn).__name__
    return str(t.dtype), tuple(t.shape), tuple(t.stride()), t.device.type, t.requires_grad, node


def _tensors(got, want):
    if _facts(got) != _facts(want):
        return f"{_facts(got)} instead of {_facts(want)}"
    if want.device.type == "meta":
        return None
    name = str(want.dtype).removeprefix("torch.")
    if hasattr(want, "_is_zerotensor") and want._is_zerotensor():
        want = want + 0
    if name == "bfloat16":
        got, want = got.float(), want.float()
    a, b = got.detach().numpy(), want.detach().resolve_conj().numpy()
    if name not in TOLERANCE:
        same = np.array_equal(a, b)
    else:
        size = np.abs(b)
        scale = 0.2 * size[np.isfinite(size)].max(initial=0.0)
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= TOLERANCE[name] * (1e-2 + size + scale)
        same = (near | (a == b) | (np.isnan(a) & np.isnan(b))).all()
    return None if same else f"{a.ravel()[:6]} instead of {b.ravel()[:6]}"


def compare(ours, theirs, texts):
    """Run all expressions with both libraries; a report of what differs."""
    bad = []
    for text in texts:
        (got, said), (want, heard) = outcome(ours, text), outcome(theirs, text)
        found = difference(got, want)
        if found is None and said != heard:
            found = f"warnings {said} instead of {heard}"
        if found is not None:
            bad.append(f"{text}\n{found}")
    return "\n\n".join(bad[:10])


# A weighted sum of an expression's results, its gradient and the gradient of that.
_SECOND = """
{setup}
y = {text}
y = list(y) if isinstance(y, tuple) else [y]
y = [t for t in y if t.dtype.is_floating_point or t.dtype.is_complex]
s = sum((t * X("{dtype}" if t.dtype.is_complex else "float64", *t.shape, seed=3)).sum() for t in y)
inputs = [{names}]
first = torch.autograd.grad(s.real if s.dtype.is_complex else s, inputs, create_graph=True)
s = sum((g * g.conj() * X("float64", *g.shape, seed=5)).sum() for g in first)
s = s.real if s.dtype.is_complex else s
second = torch.autograd.grad(s, inputs, allow_unused=True) if s.requires_grad else ()
plain = [t.detach().clone() for t in first]
more = [t.detach().clone() for t in second if t is not None]
r = [[type(t.grad_fn).__name__ for t in y]]
r += [[t.reshape(-1) for t in found] for found in (plain, more)]
"""


def with_gradients(text, *shapes, dtype="float64"):
    """A program that gives nodes, gradients and second gradients of an expression in a, b, c."""
    names = "abc"[: len(shapes)]
    setup = "\n".join(
        f"{n} = X('{dtype}', *{s}, seed={k}).requires_grad_()"
        for k, (n, s) in enumerate(zip(names, shapes))
    )
    return _SECOND.format(setup=setup, text=text, names=", ".join(names) + ",", dtype=dtype)
