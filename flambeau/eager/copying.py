"""Moving values: copy_, clone, casts and fills.

A copy is a pointwise kernel whose body is its argument; half types of equal dtype move as integers,
so that their bits survive. Fills are kernels without inputs.
"""

from flambeau import _dtype, errors
from flambeau._layout import (
    broadcast_shape,
    dense_layout,
    make_layout,
    ordered_strides,
)
from flambeau._tensor import Tensor, empty_like_layout
from flambeau.autograd import views
from flambeau.autograd.engine import set_ones
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, edge_of, init_node
from flambeau.codegen import scalar
from flambeau.eager.binding import check_overlap, launches, ranges_meet
from flambeau.eager.plan import MAX_PLANS, output_layout, plan_nest, scalar_kinds
from flambeau.eager.variants import fit

_copies: dict = {}  # (layout of the target, of the source) -> kernel, description, its owner
_checked: dict = {}  # those of them that copy_ has found nothing wrong with
_BITS = {"f16": _dtype.int16, "bf16": _dtype.int16}


def as_bits(layout):
    """The same layout with integer elements, for dtypes that a copy must not look into."""
    stand_in = _BITS.get(layout.dtype.code)
    if stand_in is None:
        return layout
    return make_layout(layout.shape, layout.strides, stand_in, layout.device)


def copy_into(target, source):
    """target[...] = source on memory alone: casts and broadcasts, knows nothing of autograd."""
    key = (target._layout, source._layout)
    found = _copies.get(key)
    if found is None:
        if len(_copies) > 4096:
            _copies.clear()
        found = _copies[key] = _plan_copy(*key)
    kernel, desc = found[0], found[1]
    kernel(desc, target._storage.pointer + target._offset, source._storage.pointer + source._offset)


def _plan_copy(target, source):
    if target.dtype is source.dtype:
        target, source = as_bits(target), as_bits(source)
    if "meta" in (target.device.type, source.device.type):
        return lambda *args: None, 0, None
    code = source.dtype.code
    _, kernel, desc, owner = plan_nest(
        ("copy", code), lambda x: (x,), [source], "", (target.dtype,), (target,), target.shape
    )
    return kernel, desc, owner


def _check_broadcast(shape, wanted):
    """Complain unless shape broadcasts to exactly wanted."""
    if len(shape) > len(wanted):
        if _differ(shape, wanted):
            last = wanted[-1] if wanted else 1
            raise errors.not_broadcastable(last, shape[-1], len(wanted) - 1)
        raise RuntimeError(
            f"output with shape {list(wanted)} doesn't match the broadcast shape {list(shape)}"
        )
    found = broadcast_shape(wanted, shape)
    if found != wanted:
        raise RuntimeError(
            f"output with shape {list(wanted)} doesn't match the broadcast shape {list(found)}"
        )


def _differ(a, b):
    """Can shapes a and b not be broadcast together?"""
    try:
        broadcast_shape(a, b)
    except RuntimeError:
        return True
    return False


class CopyBackwards(Node):
    """History of target.copy_(source): the target's old value is gone."""

    __slots__ = ("target_layout", "source_layout")

    def name(self):
        return "torch::autograd::CopyBackwards"

    short_name = name

    def apply(self, grads, create_graph):
        g = grads[0]
        own = g.new_zeros(self.target_layout.shape) if self.edges[0] is not None else None
        return own, fit(g, self.source_layout) if self.edges[1] is not None else None


def copy_(input, src, non_blocking=False):
    """Copy the elements of src into this tensor, casting and broadcasting, and return it."""
    if isinstance(src, Tensor):
        found = _checked.get((input._layout, src._layout))
        st = input._storage
        if (
            found is not None
            and st.pointer != src._storage.pointer
            and not ((input._requires_grad or src._requires_grad) and modes.grad)
        ):
            found[0](found[1], st.pointer + input._offset, src._storage.pointer + src._offset)
            st.version += 1
            return input
    else:
        if getattr(src, "shape", None) == () and hasattr(src, "item"):
            src = src.item()  # a NumPy number
        if type(src) not in (int, float, bool, complex):
            raise TypeError(
                "copy_(): argument 'other' (position 1) must be Tensor, not "
                f"{errors.kind_name(src)}"
            )
        return input.fill_(src)
    if src is input:
        input._storage.version += 1
        return input
    target_layout, source_layout = input._layout, src._layout
    if source_layout.shape != target_layout.shape:
        _check_broadcast(source_layout.shape, target_layout.shape)
    if src._storage.pointer == input._storage.pointer and (
        src._offset != input._offset or source_layout is not target_layout
    ):
        check_overlap(input, (src,))
        src = src.clone() if ranges_meet(input, src) else src
    check_overlap(input, ())
    recording = (
        modes.grad
        and (input._requires_grad or src._requires_grad)
        and target_layout.dtype.category >= 2
    )
    if recording:
        views.check_inplace(input)
        node = object.__new__(CopyBackwards)
        node.target_layout, node.source_layout = target_layout, source_layout
        edges = (
            edge_of(input) if input._requires_grad else None,
            edge_of(src) if src._requires_grad else None,
        )
        init_node(node, edges, ())
    copy_into(input, src)
    input._storage.version += 1
    if recording:
        st = None  # rebase counts who knows the storage, and a local would look like a view
        views.rebase(input, node)
    if len(_checked) > MAX_PLANS:
        _checked.clear()
    key = input._layout, src._layout
    _checked[key] = _copies[key]
    return input


def preserved_layout(layout, dtype=None):
    """A dense layout with the order of dimensions of another."""
    return output_layout(layout.shape, [layout], dtype or layout.dtype, layout.device)


CHANNELS_LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def formatted_layout(layout, memory_format, dtype=None):
    """The layout of a new tensor for a memory format."""
    dtype = dtype or layout.dtype
    name = getattr(memory_format, "name", None)
    if memory_format is None or name == "preserve_format":
        return preserved_layout(layout, dtype)
    if name == "contiguous_format":
        return dense_layout(layout.shape, dtype, layout.device)
    rank = 4 if name == "channels_last" else 5
    if layout.ndim != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {name} format")
    strides = ordered_strides(layout.shape, CHANNELS_LAST[rank])
    return make_layout(layout.shape, strides, dtype, layout.device)


_clones: dict = {}  # (layout, memory format) -> layout of a clone


def cloned_layout(layout, memory_format):
    """The layout of a clone in a memory format."""
    found = _clones.get((layout, memory_format))
    if found is None:
        if len(_clones) > MAX_PLANS:
            _clones.clear()
        found = _clones[layout, memory_format] = formatted_layout(layout, memory_format)
    return found


@launches("clone")
def clone(input, memory_format):
    out = empty_like_layout(cloned_layout(input._layout, memory_format))
    copy_into(out, input)
    return out


_conversions: dict = {}  # (layout, dtype, device, memory format) -> layout and plan of a copy


@launches("to_copy")
def to_copy(input, dtype, device, memory_format):
    key = (input._layout, dtype, device, memory_format)
    found = _conversions.get(key)
    if found is None:
        layout = _converted_layout(input, dtype, device, memory_format)
        if len(_conversions) > MAX_PLANS:
            _conversions.clear()
        found = _conversions[key] = layout, *_plan_copy(layout, input._layout)
    layout, kernel, description, _ = found
    out = empty_like_layout(layout)
    kernel(description, out._storage.pointer, input._storage.pointer + input._offset)
    return out


def _converted_layout(input, dtype, device, memory_format):
    layout = formatted_layout(input._layout, memory_format, dtype)
    if device is not None and device is not layout.device:
        if layout.device.type == "meta":
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        layout = make_layout(layout.shape, layout.strides, layout.dtype, device)
    return layout


FILLS: dict = {}  # (layout, type of number) -> kernel, description, its owner


def fill_into(target, value):
    """Every element of target becomes value (a Python number), on memory alone."""
    found = FILLS.get((target._layout, type(value)))
    if found is None:
        found = fill_plan(target._layout, type(value))
    if type(value) is complex:
        found[0](found[1], target._storage.pointer + target._offset, value.real, value.imag)
    else:
        found[0](found[1], target._storage.pointer + target._offset, value)
    return target


def fill_plan(layout, kind):
    """(kernel, description, its owner) that fills a layout with a number of a type."""
    found = FILLS.get((layout, kind))
    if found is None:
        if len(FILLS) > MAX_PLANS:
            FILLS.clear()
        found = FILLS[layout, kind] = _plan_fill(layout, kind)
    return found


def _plan_fill(layout, kind):
    def trace(*numbers):
        return (scalar.Complex(*numbers) if len(numbers) == 2 else numbers[0],)

    _, kernel, desc, owner = plan_nest(
        ("fill", kind.__name__),
        trace,
        [],
        scalar_kinds(kind),
        (layout.dtype,),
        (layout,),
        layout.shape,
        layout.device,
    )
    return kernel, desc, owner


def filled(layout, value):
    """A new tensor of a dense layout, all elements value."""
    return fill_into(empty_like_layout(layout), value)


set_ones(filled)
