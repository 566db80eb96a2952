"""Putting tensors together: cat, stack and their kin, grids and products of vectors.

`cat` copies each input into its place of the output (eager/joining.py); most others are cat of
views.
"""

import itertools
import warnings

from flambeau import errors
from flambeau.ops.table import Tensors, composite, public, template

MOST_DIMS = 64
_CAT_OUT = "torch.cat()"  # who speaks when out= cannot hold the result


def _cat_backward(g, layouts, dim):
    found, start = [], 0
    for layout in layouts:
        shape = tuple(layout.shape)
        if shape == (0,) and g.ndim != 1:  # a legacy empty tensor, which cat skipped
            found.append(g.new_zeros((0,)))
            continue
        found.append(g.narrow(dim, start, shape[dim]))
        start += shape[dim]
    return found


@template(
    "cat",
    linear="tensors",
    grad=dict(tensors=lambda g, tensors_layout, dim: _cat_backward(g, tensors_layout, dim)),
    variants="function out",
    castable_out=_CAT_OUT,
    aliases="concat concatenate",
    apart="tensors",
)
def cat(tensors: Tensors, dim: int = 0):
    """The tensors one after the other along dim."""


@template(
    "stack",
    linear="tensors",
    grad=dict(tensors=lambda g, dim: g.unbind(dim)),
    variants="function out",
    castable_out=_CAT_OUT,
    apart="tensors",
)
def stack(tensors: Tensors, dim: int = 0):
    """Tensors of one shape along a new dimension."""


def _sequences(g, layouts, batch_first, padding_side):
    """The part of a padded batch that each sequence is."""
    found, steps = [], g.shape[1 if batch_first else 0]
    for k, layout in enumerate(layouts):
        length = layout.shape[0]
        start = steps - length if padding_side == "left" else 0
        found.append(g.select(0 if batch_first else 1, k).narrow(0, start, length))
    return found


@template(
    "pad_sequence",
    linear="tensors padding_value",
    grad=dict(
        tensors=lambda g, tensors_layout, batch_first, padding_side: _sequences(
            g, tensors_layout, batch_first, padding_side
        )
    ),
    variants="",
)
def pad_sequence(
    tensors: Tensors,
    batch_first: bool = False,
    padding_value: object = 0.0,
    padding_side: str = "right",
):
    """Tensors (L, *) of several lengths as one (T, B, *), or (B, T, *) with batch_first."""


def _not_empty(tensors, name):
    if not len(tensors):
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return list(tensors)


@composite(variants="function out", castable_out=_CAT_OUT)
def hstack(tensors: Tensors):
    """cat along the second dimension (the first of vectors)."""
    tensors = [t.reshape(1) if t.ndim == 0 else t for t in _not_empty(tensors, "hstack")]
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@composite(variants="function out", aliases="row_stack", castable_out=_CAT_OUT)
def vstack(tensors: Tensors):
    """cat along the first dimension; vectors are rows."""
    return cat(list(public("atleast_2d")(_not_empty(tensors, "vstack"))), 0)


@composite(variants="function out", castable_out=_CAT_OUT)
def dstack(tensors: Tensors):
    """cat along the third dimension."""
    return cat(list(public("atleast_3d")(_not_empty(tensors, "dstack"))), 2)


@composite(variants="function out", castable_out=_CAT_OUT)
def column_stack(tensors: Tensors):
    """cat along the second dimension; vectors are columns."""
    columns = [
        t.reshape(t.numel(), 1) if t.ndim < 2 else t for t in _not_empty(tensors, "column_stack")
    ]
    return cat(columns, 1)


def _block_diag_backward(g, layouts):
    found, row, column = [], 0, 0
    for layout in layouts:
        height, width = _block(layout.shape)
        found.append(g.narrow(0, row, height).narrow(1, column, width).reshape(layout.shape))
        row, column = row + height, column + width
    return found


def _block(shape):
    return (1,) * (2 - len(shape)) + tuple(shape)


@template(
    "block_diag",
    linear="tensors",
    grad=dict(tensors=lambda g, tensors_layout: _block_diag_backward(g, tensors_layout)),
    variants="function",
    varargs="tensors",
)
def block_diag(tensors: Tensors):
    """A matrix with the tensors along its diagonal and zeros elsewhere."""


@composite(variants="function", varargs="tensors", lone_list=True)
def meshgrid(tensors: Tensors, *, indexing: str = None):
    """Coordinates of a grid: each vector spread over the grid's shape."""
    tensors = [tensors] if hasattr(tensors, "_layout") else list(tensors)
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = list(tensors[0])
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for t in tensors:
        if t.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t}"
            )
        if t.dtype is not tensors[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
        if t.device != tensors[0].device:
            raise RuntimeError("meshgrid expects all tensors to have the same device")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    if indexing is None:
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
            "argument.",
            stacklevel=3,
        )
    swapped = indexing == "xy" and len(tensors) > 1
    if swapped:
        tensors[0], tensors[1] = tensors[1], tensors[0]
    shape = tuple(t.numel() for t in tensors)
    ranks = range(len(tensors))
    grids = [
        t.view(tuple(-1 if k == n else 1 for k in ranks)).expand(shape)
        for n, t in enumerate(tensors)
    ]
    if swapped:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def _check_vector(t):
    if t.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.shape)}")


@composite(variants="function", varargs="tensors")
def cartesian_prod(tensors: Tensors):
    """All ways of taking one element from each vector, one per row."""
    tensors = [tensors] if hasattr(tensors, "_layout") else list(tensors)
    for t in tensors:
        _check_vector(t)
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.flatten() for g in meshgrid(*tensors, indexing="ij")], 1)


@composite(variants="function")
def combinations(input, r: int = 2, with_replacement: bool = False):
    """All subsets of r elements of a vector, one per row, in order."""
    _check_vector(input)
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty((0,))
    if r > MOST_DIMS or input.numel() ** r > errors.LARGEST:
        raise RuntimeError("numel: integer multiplication overflow")
    grids = meshgrid(*[input] * r, indexing="ij")
    places = public("arange")(input.numel(), device=input.device)
    indices = meshgrid(*[places] * r, indexing="ij")
    wanted = indices[0] >= 0
    for a, b in itertools.pairwise(indices):
        wanted = wanted & (a <= b if with_replacement else a < b)
    return stack([g.masked_select(wanted) for g in grids], 1)
