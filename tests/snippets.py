"""Short programs run under PyTorch and under flambeau, and what came of them as plain text.

A snippet is a line of Python (statements separated by `;` or newlines, the last one an expression)
that says `torch`. `outcome` runs it with either package and describes the value: numbers to the
last bit, dtypes, shapes, strides, or the exception with the first sentence of its message.
"""

import ast
import contextlib
import copy
import io
import math
import pickle
import re
import warnings

import numpy as np

# of a process, so only the first who asks hears it
_SAID_ONCE = re.compile(
    "TypedStorage is deprecated|ComplexHalf support is experimental|index_reduce.* is in beta"
    "|quantized tensor creation functions|Sparse invariant checks|unspecified requires_grad"
    "|list of numpy.ndarrays|Sparse CSR tensor support"
)


def describe(value, torch):
    """A value as text that says everything that must agree."""
    if isinstance(value, torch.Tensor):
        return _tensor(value, torch)
    if isinstance(value, torch.Size):
        return repr(value)
    if isinstance(value, np.ndarray):
        flags = "" if value.flags.writeable else " read-only"
        return f"array {value.dtype} {value.shape} {value.strides}{flags} {value.tolist()}"
    if isinstance(value, np.generic):
        return f"numpy {value.dtype} {value!r}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(describe(v, torch) for v in value)
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {describe(v, torch)}" for k, v in value.items()) + "}"
    if isinstance(value, type):
        return value.__name__
    return repr(value)


def _tensor(t, torch):
    words = [f"tensor {t.dtype} {tuple(t.shape)} {tuple(t.stride())}"]
    if str(t.device) != "cpu":
        words.append(f"on {t.device}")
    if t.requires_grad:
        words.append("requires grad" if t.grad_fn is None else "has history")
    if type(t) is not torch.Tensor:
        words.append(type(t).__name__)
    if t.device.type != "meta":
        words.append(repr(t.detach().tolist()))
    return " ".join(words)


def sentence(text):
    """The first sentence of a message, without what PyTorch's C++ appends to it."""
    text = re.split(r"\n|(?<=[a-z)\]'\"])\. |; ", str(text).strip(), maxsplit=1)[0]
    # which overloads were tried is PyTorch's own business
    text = re.sub(r"(invalid combination of arguments) - got.*", r"\1", text)
    return text.rstrip(". ")


def run(torch, snippet):
    """The value of the last expression."""
    tree = ast.parse(snippet)
    last = tree.body.pop()
    space = {"torch": torch, "np": np, "copy": copy, "pickle": pickle, "math": math, "io": io}
    exec(compile(tree, "<snippet>", "exec"), space)
    return eval(compile(ast.Expression(last.value), "<snippet>", "eval"), space)


@contextlib.contextmanager
def defaults(torch):
    """Put back what a snippet may have changed for everybody."""
    dtype = torch.get_default_dtype()
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_default_device(None)


def outcome(torch, snippet):
    """What a snippet gives, as text; warnings come first."""
    with defaults(torch), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            text = describe(run(torch, snippet), torch)
        except Exception as error:
            kind = type(error)
            # a subclass of ours stands for PyTorch's own class of the same purpose
            name = kind.__name__ if kind.__module__ == "builtins" else kind.__mro__[1].__name__
            text = f"{name}: {sentence(error)}"
    # deprecations are NumPy's and Python's remarks on PyTorch's own methods
    told = {
        f"warns {w.category.__name__}: {sentence(w.message)}"
        for w in seen
        if w.category is UserWarning and not _SAID_ONCE.search(str(w.message))
    }
    return " | ".join([*sorted(told), text])
