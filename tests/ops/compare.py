"""The same tensors in flambeau and in PyTorch, and what counts as the same result.

Nothing here imports PyTorch: the library to build with is an argument, so that tests which need no
oracle share the code.
"""

import numpy as np

from tests.ops.samples import B, T, W

DTYPES = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16".split()
DTYPES += "float32 float64 complex64 complex128".split()
TOLERANCE = {  # relative, absolute; PyTorch itself is off by a few units in the last place
    "float16": (2e-3, 1e-6), "bfloat16": (1.6e-2, 1e-6), "float32": (1e-5, 1e-6),
    "float64": (1e-11, 1e-12),
    "complex64": (2e-5, 2e-6), "complex128": (1e-11, 1e-12),
}  # fmt: skip


def tensor(lib, values, dtype):
    """A tensor from a NumPy array, through a dtype that NumPy has."""
    if dtype == "bfloat16":
        return lib.from_numpy(values.astype("float32")).to(lib.bfloat16)
    return lib.from_numpy(np.array(values.astype(dtype)))


def build(lib, call, values, dtype):
    """Arguments of a call, with tensors in place of T, B and W; values: one array per T."""
    given = iter(values)
    shape = values[0].shape if values else (3,)

    def one(a):
        if a is T:
            return tensor(lib, next(given), dtype)
        if a is B:
            mask = (
                np.resize([True, False, False], max(1, int(np.prod(shape)))).reshape(shape)
                if shape
                else np.array(True)
            )
            return lib.from_numpy(np.array(mask))
        return tensor(lib, np.array([0.25]), dtype) if a is W else a

    return [one(a) for a in call.args], {k: one(v) for k, v in call.kwargs.items()}


def tensor_count(call):
    return sum(a is T for a in (*call.args, *call.kwargs.values()))


def outcome(function, args, kwargs):
    """What a call gives, or the exception it raises."""
    try:
        return function(*args, **kwargs)
    except Exception as error:  # which one, and its words, is what tests compare
        return error


def numbers(t):
    """A tensor as a NumPy array, half types widened."""
    if str(t.dtype).endswith("bfloat16"):
        t = t.float()
    if hasattr(t, "_is_zerotensor") and t._is_zerotensor():  # PyTorch's gradient that is nowhere
        t = t + 0
    if t.dtype.is_complex:
        t = t.resolve_conj()
    return t.detach().numpy()


def differences(got, want, dtype, zeros=False, tolerance=None):
    """Where two arrays differ; nan equals nan, and with zeros=True the sign of zero counts."""
    if want.dtype.kind in "biu":
        return got != want
    relative, absolute = map(max, TOLERANCE[dtype], tolerance or (0, 0))
    kind = "complex128" if want.dtype.kind == "c" else "float64"
    got, want = got.astype(kind), want.astype(kind)
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= absolute + relative * np.abs(want)
    same = near | (got == want) | (np.isnan(got) & np.isnan(want))
    if zeros and kind == "float64":
        same &= ~((got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want)))
    return ~same


def describe(bad, values, got, want):
    """The first few differences, readable."""
    lines = []
    for k in np.flatnonzero(bad)[:3]:
        at = tuple(v.ravel()[k].item() for v in values if v.size == bad.size)
        lines.append(f"{at}: {got.ravel()[k].item()} instead of {want.ravel()[k].item()}")
    return f"{int(bad.sum())} of {bad.size} differ, " + "; ".join(lines)
