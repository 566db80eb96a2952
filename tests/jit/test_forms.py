"""Functions that are compiled from one of several forms: by types, or by flags that are written."""

import functools
import io
from typing import List, Tuple  # noqa: UP035

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

# ruff: noqa: UP006

X = torch.sin(torch.arange(16.0)).reshape(4, 4)
IMAGE = X.reshape(1, 1, 4, 4)
NUMBERS = torch.tensor([3, 1, 1, 2, 3])


def contracted(x):
    one = torch.tensordot(x, x, 1)
    two = torch.tensordot(x, x)
    pair = torch.tensordot(x, x, ([1], [0]))
    lists = torch.tensordot(x, x, dims=[[0], [1]])
    return one, two, pair, lists


def contracted_by(x, dims: Tuple[List[int], List[int]], number: int):
    return torch.tensordot(x, x, dims), torch.tensordot(x, x, ([number], [0]))


def contracted_by_tensor(x, dims):
    return torch.tensordot(x, x, dims)


def norms(x):
    return torch.norm(x), torch.norm(x, p="fro", dim=1), torch.norm(x, 3.0), torch.norm(x, p="nuc")


def found(x):
    a = torch.unique(x)
    b, c = torch.unique(x, return_inverse=True)
    d, e, f = torch.unique(x, True, True, True)
    g = torch.unique_consecutive(x)
    h, i = torch.unique_consecutive(x, return_counts=True)
    return a, b, c, d, e, f, g, h, i


def pooled(x):
    a, b = F.max_pool2d(x, 2, return_indices=True)
    c, d = F.adaptive_max_pool2d(x, [2, None], True)
    return a, b, c, d, F.max_pool2d(x, 2), F.adaptive_max_pool2d(x, 2)


def spectrum(x):
    window = torch.ones(8)
    padded = torch.stft(x.flatten(), 8, window=window, return_complex=True)
    bare = torch.stft(x.flatten(), 8, window=window, center=False, return_complex=True)
    return torch.view_as_real(padded), torch.view_as_real(bare)


def numbers(x):
    flat: List[float] = x.flatten().tolist()
    rows = torch.jit.annotate(List[List[float]], x.tolist())
    return flat, rows


squared = functools.partial(torch.pow, exponent=2)


def partially(x):
    return squared(x) + 1


CASES = [
    (contracted, (X,)),
    (contracted_by, (X, ([1], [0]), 1)),
    (contracted_by_tensor, (X, torch.tensor([[0], [1]]))),
    (contracted_by_tensor, (X, torch.tensor(1))),
    (norms, (X,)),
    (found, (NUMBERS,)),
    (pooled, (IMAGE,)),
    (spectrum, (X,)),
    (numbers, (X,)),
    (partially, (X,)),
]


@pytest.mark.parametrize(("function", "inputs"), CASES)
def test_the_form_that_fits_computes_what_python_computes(function, inputs):
    script = torch.jit.script(function)
    torch.testing.assert_close(script(*inputs), function(*inputs))
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    torch.testing.assert_close(torch.jit.load(file)(*inputs), function(*inputs))


@pytest.mark.parametrize(
    "layer", [nn.MaxPool2d(2, return_indices=True), nn.AdaptiveMaxPool2d(2, return_indices=True)]
)
def test_pooling_layers_tell_places(layer):
    places = torch.jit.script(layer)(IMAGE)
    torch.testing.assert_close(places, layer(IMAGE))
    assert len(places) == 2 and places[1].dtype == torch.int64


def unknown_flag(x, flag: bool):
    return torch.unique(x, return_inverse=flag)


def no_such_kind(x):
    return torch.tensordot(x, x, "ij")


def no_type(x):
    return x.tolist()


def whole_numbers(x) -> List[int]:
    return x.tolist()


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (unknown_flag, "'return_inverse' for boolean dispatch at position was not constant"),
        (no_such_kind, "Arguments for call are not valid."),
        (no_type, "Expected type hint for result of tolist()"),
    ],
)
def test_what_fits_no_form_is_refused(function, text):
    with pytest.raises(RuntimeError) as caught:
        torch.jit.script(function)
    assert text in str(caught.value)


def test_numbers_of_another_type_or_depth_are_refused():
    script = torch.jit.script(whole_numbers)
    assert script(NUMBERS) == [3, 1, 1, 2, 3]
    with pytest.raises(RuntimeError, match="element type must match for tolist"):
        script(torch.ones(2))
    with pytest.raises(RuntimeError, match="list dimension and runtime tensor dimension"):
        script(NUMBERS.reshape(1, 5))


def kinds_of(x, y):
    plain = x.layout == torch.strided and x.dtype == torch.float32
    same = x.layout == y.layout or y.layout != torch.sparse_coo
    wide = torch.promote_types(x.dtype, torch.float64) == torch.float64
    return plain, same, wide, torch.result_type(x, 2.0) == torch.float32, x.layout, y.layout


def test_layouts_and_dtypes_are_numbers_that_compare():
    found = torch.jit.script(kinds_of)(X, X.to_sparse())
    assert found == (True, False, True, True, 0, 1)
    assert torch.jit.script(kinds_of)(X, X)[1]


def compressed(x):
    rows = x.to_sparse_csr()
    places = torch.stack([torch.arange(4), torch.arange(4)])
    made = torch.sparse_coo_tensor(places, rows.values()[:4], (4, 4)).coalesce()
    return rows.crow_indices(), rows.col_indices(), rows.values(), made.indices(), made.to_dense()


def test_parts_of_sparse_tensors():
    torch.testing.assert_close(torch.jit.script(compressed)(X), compressed(X))


def of_another_type(n: int):
    found: List[int] = []
    for k in range(n):
        found.append(k)
    found = torch.tensor(found)
    return found


def in_a_branch(n: int):
    x: int = 3
    if n > 2:
        x = "a"
    return x


def test_variables_change_their_type_where_they_were_declared():
    assert torch.jit.script(of_another_type)(3).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="Variable 'x' previously had type int but is now"):
        torch.jit.script(in_a_branch)
