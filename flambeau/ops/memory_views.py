"""Views that look at the storage: bytes as another dtype, parts of complex numbers, any strides.

as_strided may name any place of the storage, so its derivative works on flat memory; the others
change what an element is. Views that only change the shape are in views.py.
"""

from flambeau import _dtype as d
from flambeau._layout import maybe_overlaps
from flambeau.ops import table
from flambeau.ops.table import IntList, composite, public
from flambeau.ops.views import ints

# -- any strides -----------------------------------------------------------------------------------


def as_strided_backward(g, layout, size, stride, offset, origin):
    """Gradient of a tensor (layout, at element `origin` of its storage) from that of a strided "
    "view of it."""
    dims = [k for k, (n, s) in enumerate(zip(size, stride)) if s == 0 and n > 1]
    if dims:  # repeated elements: their gradients add up
        g = g.sum(dims, keepdim=True)
        size = tuple(g.shape)
    low = min(offset, origin)
    end = max(_end(size, stride, offset), _end(layout.shape, layout.strides, origin)) - low
    if maybe_overlaps(size, stride):
        where = (
            public("arange")(end, device=g.device)
            .as_strided(size, stride, offset - low)
            .reshape(-1)
        )
        flat = g.new_zeros((end,)).index_add(0, where, g.reshape(-1))
    else:
        flat = g.new_zeros((end,))
        if g.numel():
            flat.as_strided(size, stride, offset - low).copy_(g)
    if maybe_overlaps(layout.shape, layout.strides):
        # several elements of the input are one in memory: each gets its share
        where = (
            public("arange")(end, device=g.device)
            .as_strided(layout.shape, layout.strides, origin - low)
            .reshape(-1)
        )
        ones = g.new_ones((where.numel(),))
        flat = flat / g.new_zeros((end,)).index_add(0, where, ones)
    return flat.as_strided(layout.shape, layout.strides, origin - low)


def _end(shape, strides, start):
    return start + (1 + sum((n - 1) * s for n, s in zip(shape, strides)) if all(shape) else 0)


@table.view(
    grad=lambda g, input_layout, size, stride, storage_offset, origin: as_strided_backward(
        g, input_layout, size, stride, storage_offset, origin
    ),
    variants="function method inplace",
    absolute=True,
)
def as_strided(input, size: IntList, stride: IntList, storage_offset: int = None):
    """Any view of the storage; storage_offset counts from its start."""
    for place, (name, value) in enumerate((("size", size), ("stride", stride)), 2):
        if isinstance(value, int):
            raise TypeError(
                f"as_strided(): argument '{name}' (position {place}) must be tuple of ints, not "
                f"{type(value).__name__}"
            )
    size, stride = ints("as_strided", "size", size), ints("as_strided", "stride", stride)
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in stride):
        raise RuntimeError(
            "as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(stride)}"
        )
    if any(n < 0 for n in size):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(size)} and "
            f"strides={list(stride)}"
        )
    if storage_offset is not None and storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    return size, stride, storage_offset


# -- complex numbers ------------------------------------------------------------------------------


@table.view(grad=lambda g: view_as_complex(g.contiguous()), variants="function")
def view_as_real(input):
    """A complex tensor as pairs of real numbers, in a last dimension of size two."""
    if not input.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return (*input.shape, 2), (*[2 * s for s in input.strides], 1), 0, input.dtype.to_real()


@table.view(
    grad=lambda g: view_as_real(g),
    variants="function",
    aligned=lambda input, layout: RuntimeError("Tensor must have a storage_offset divisible by 2"),
)
def view_as_complex(input):
    """Pairs of real numbers in the last dimension as complex numbers."""
    if input.dtype not in (d.float32, d.float64, d.float16):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a "
            "tensor of scalar type: " + input.dtype.scalar_name
        )
    if not input.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if input.strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % 2 for s in input.strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    return input.shape[:-1], [s // 2 for s in input.strides[:-1]], 0, input.dtype.to_complex()


@composite(variants="function property")
def real(input):
    """The real parts, sharing memory."""
    return view_as_real(input).select(input.ndim, 0) if input.dtype.is_complex else input


@composite(variants="function property")
def imag(input):
    """The imaginary parts, sharing memory."""
    if not input.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return view_as_real(input).select(input.ndim, 1)


# -- another dtype ---------------------------------------------------------------------------------


def _misaligned(input, layout):
    source, target = input.dtype, layout.dtype
    return RuntimeError(
        f"self.storage_offset() must be divisible by {target.itemsize // source.itemsize} to view "
        f"{source.scalar_name} as {target.scalar_name} (different element sizes), but got "
        f"{input.storage_offset()}"
    )


@table.view(variants="", fresh=True, aligned=_misaligned)
def _view_dtype(input, dtype: object):
    """The same bytes read as another dtype."""
    old, new = input.dtype.itemsize, dtype.itemsize
    if old == new:
        return input.shape, input.strides, 0, dtype
    names = f"to view {input.dtype.scalar_name} as {dtype.scalar_name} (different element sizes)"
    if input.ndim == 0:
        raise RuntimeError(f"self.dim() cannot be 0 {names}")
    n = max(old, new) // min(old, new)
    if old < new and input.shape[-1] % n:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {n} {names}, but got {input.shape[-1]}"
        )
    if input.strides[-1] != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 {names}, but got {input.strides[-1]}")
    if old > new:
        return (
            (*input.shape[:-1], input.shape[-1] * n),
            (*[s * n for s in input.strides[:-1]], 1),
            0,
            dtype,
        )
    for k, s in enumerate(input.strides[:-1]):
        if s % n:
            raise RuntimeError(f"self.stride({k}) must be divisible by {n} {names}, but got {s}")
    return (
        (*input.shape[:-1], input.shape[-1] // n),
        (*[s // n for s in input.strides[:-1]], 1),
        0,
        dtype,
    )
