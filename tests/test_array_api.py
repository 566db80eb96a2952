"""Names that only the array API standard has: values by NumPy, and what the standard asks of them.

The public suite is run from outside (docs/array_api.md says how, and what of it fails for which
reason); this keeps the names that were added for it.
"""

import numpy as np
import pytest

import flambeau
from flambeau import tensor

X = tensor([[3, 1, 2], [1, 3, 3]])
C = tensor([1 + 2j, 1 + 2j, 0.5j, 1 - 2j])
NAN = tensor([float("nan"), 1.0, float("nan"), 1.0])


def same(ours, theirs):
    if isinstance(theirs, (tuple, list)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return np.array_equal(ours.numpy(), theirs, equal_nan=True)


def numpy(t):
    return t.numpy()


# name: (what is called, what NumPy gives)
CASES = {
    "astype": (lambda xp, x: xp.astype(x, xp.float32), lambda: numpy(X).astype(np.float32)),
    "permute_dims": (lambda xp, x: xp.permute_dims(x, (1, 0)), lambda: numpy(X).T),
    "expand_dims": (lambda xp, x: xp.expand_dims(x, axis=-1), lambda: numpy(X)[..., None]),
    "expand_dims several": (
        lambda xp, x: xp.expand_dims(x, axis=(0, -1)),
        lambda: numpy(X)[None, ..., None],
    ),
    "matrix_transpose": (lambda xp, x: xp.matrix_transpose(x), lambda: numpy(X).T),
    "unstack": (lambda xp, x: xp.unstack(x, axis=1), lambda: list(numpy(X).T)),
    "broadcast_arrays": (
        lambda xp, x: xp.broadcast_arrays(x, x[0]),
        lambda: np.broadcast_arrays(numpy(X), numpy(X)[0]),
    ),
    "repeat": (lambda xp, x: xp.repeat(x, 2), lambda: np.repeat(numpy(X), 2)),
    "repeat several": (
        lambda xp, x: xp.repeat(x, tensor([1, 2], dtype=xp.int8), axis=0),
        lambda: np.repeat(numpy(X), [1, 2], axis=0),
    ),
    "bitwise_invert": (lambda xp, x: xp.bitwise_invert(x), lambda: ~numpy(X)),
    "take_along_axis": (
        lambda xp, x: xp.take_along_axis(x, xp.argsort(x), axis=-1),
        lambda: np.sort(numpy(X)),
    ),
    "vecdot": (lambda xp, x: xp.vecdot(x, x), lambda: np.vecdot(numpy(X), numpy(X))),
    "vecdot complex": (lambda xp, x: xp.vecdot(C, C), lambda: np.vecdot(numpy(C), numpy(C))),
    "vecdot promoted": (
        lambda xp, x: xp.vecdot(x.to(xp.float32), x.to(xp.float64), axis=0),
        lambda: (numpy(X) ** 2).sum(0).astype(np.float64),
    ),
    "cumulative_sum": (
        lambda xp, x: xp.cumulative_sum(x, axis=1, include_initial=True),
        lambda: np.cumulative_sum(numpy(X), axis=1, include_initial=True),
    ),
    "cumulative_sum of bytes": (
        lambda xp, x: xp.cumulative_sum(x.to(xp.uint8), axis=0),
        lambda: np.cumsum(numpy(X), axis=0).astype(np.uint64),
    ),
    "cumulative_prod": (
        lambda xp, x: xp.cumulative_prod(x, axis=-1),
        lambda: np.cumprod(numpy(X), axis=-1),
    ),
    "unique_values": (lambda xp, x: xp.unique_values(x), lambda: np.unique(numpy(X))),
    "unique_counts": (lambda xp, x: xp.unique_counts(x), lambda: np.unique_counts(numpy(X))),
    "unique_inverse": (lambda xp, x: xp.unique_inverse(x), lambda: np.unique_inverse(numpy(X))),
    "unique_all": (lambda xp, x: xp.unique_all(x), lambda: np.unique_all(numpy(X))),
    "unique_all complex": (lambda xp, x: xp.unique_all(C), lambda: np.unique_all(numpy(C))),
    "linalg.trace": (lambda xp, x: xp.linalg.trace(x), lambda: np.trace(numpy(X))),
    "linalg.outer": (
        lambda xp, x: xp.linalg.outer(x[0], x[1]),
        lambda: np.outer(numpy(X)[0], numpy(X)[1]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_numpy(name):
    ours, theirs = CASES[name]
    found = ours(flambeau, X)
    assert same(found, theirs())
    if isinstance(found, flambeau.Tensor):
        assert str(found.dtype).removeprefix("torch.") == str(theirs().dtype)


def test_each_nan_is_unique():
    values, counts = flambeau.unique_counts(NAN)
    assert same(values, np.array([1, np.nan, np.nan], np.float32)) and counts.tolist() == [2, 1, 1]


@pytest.mark.parametrize(
    "kind, names",
    [
        ("bool", "bool"),
        ("signed integer", "int8 int64"),
        ("unsigned integer", "uint8 uint16"),
        ("integral", "int8 int64 uint8 uint16"),
        ("real floating", "float32 float16 bfloat16"),
        ("complex floating", "complex64"),
        ("numeric", "int8 int64 uint8 uint16 float32 float16 bfloat16 complex64"),
        (("bool", flambeau.int8), "bool int8"),
    ],
)
def test_kinds_of_dtypes(kind, names):
    every = "bool int8 int64 uint8 uint16 float32 float16 bfloat16 complex64".split()
    found = [name for name in every if flambeau.isdtype(getattr(flambeau, name), kind)]
    assert found == names.split() or set(found) == set(names.split())


def test_the_namespace_tells_of_itself():
    info = flambeau.__array_namespace_info__()
    assert info.default_device() == flambeau.device("cpu") and info.devices()[0].type == "cpu"
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert info.default_dtypes()["real floating"] is flambeau.get_default_dtype()
    assert info.capabilities()["boolean indexing"] is True
    assert X.__array_namespace__(api_version=flambeau.__array_api_version__) is flambeau
    assert X.to_device("cpu") is X


@pytest.mark.parametrize(
    "call, kind",
    [
        (lambda: flambeau.isdtype(flambeau.int8, "whole"), ValueError),
        (lambda: flambeau.cumulative_sum(X), ValueError),
        (lambda: flambeau.expand_dims(X, axis=4), IndexError),
        (lambda: flambeau.expand_dims(X, axis=(0, 0)), ValueError),
        (lambda: flambeau.vecdot(X[0], X[0, :1]), ValueError),
        (lambda: X.__array_namespace__(api_version="1999.01"), ValueError),
        (lambda: X.to_device("cpu", stream=1), ValueError),
    ],
)
def test_refusals(call, kind):
    with pytest.raises(kind):
        call()


def test_names_of_pytorch_do_as_before():
    assert not isinstance(flambeau.sort(X), flambeau.Tensor)  # values and indices
    assert flambeau.equal(X, X) is True
    assert X.repeat(2, 1).shape == (4, 3)
