"""Moving values: copy_, clone, casts and fills.

A copy is a pointwise kernel whose body is its argument; half types of equal dtype move as integers,
so that their bits survive. Fills are kernels without inputs.
"""

from flambeau import _dtype, errors
from flambeau._device import cpu
from flambeau._layout import (
    broadcast_shape,
    dense_layout,
    make_layout,
    ordered_strides,
    overlaps_itself,
    same_layout,
)
from flambeau._tensor import Tensor, empty_like_layout
from flambeau.autograd import views
from flambeau.autograd.engine import set_ones
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, edge_of, init_node
from flambeau.codegen import scalar
from flambeau.eager.arguments import argument
from flambeau.eager.kernels import pool
from flambeau.eager.launching import launches
from flambeau.eager.overlaps import check_overlap, ranges_meet
from flambeau.eager.plan import (
    NO_WORK,
    describe_run,
    nest_kernel,
    output_layout,
    plan_nest,
    scalar_kinds,
)
from flambeau.eager.plans import Plans
from flambeau.eager.variants import fit
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed

_BITS = {"f16": _dtype.int16, "bf16": _dtype.int16, "c32": _dtype.int32}
_BITS |= {d.code: _dtype.uint8 for d in _dtype.FLOAT8.values()}


def as_bits(layout):
    """The same layout with integer elements, for dtypes that a copy must not look into."""
    stand_in = _BITS.get(layout.dtype.code)
    if stand_in is None:
        return layout
    return make_layout(layout.shape, layout.strides, stand_in, layout.device)


def copy_into(target, source):
    """target[...] = source on memory alone: casts and broadcasts, knows nothing of autograd."""
    kernel, desc = COPIES[target._layout, source._layout]
    kernel(desc, target._storage.pointer + target._offset, source._storage.pointer + source._offset)


def _plan_copy(key):
    """(kernel, description) that copies from one layout to another."""
    target, source = key
    if not target.device.runtime.computes:
        return nothing, NO_WORK
    if target.device is not source.device:
        return _crossing(target, source), NO_WORK
    if target.dtype is source.dtype:
        target, source = as_bits(target), as_bits(source)
    key = ("copy", source.dtype.code)
    if target.is_dense and source.is_dense and source.shape == target.shape and target.numel:
        steps = target.itemsize, source.itemsize
        outputs, inputs = ((target.dtype.code, "c"),), ((source.dtype.code, "c"),)
        runtime = target.device.runtime
        kernel, chunk = nest_kernel(runtime, key, _itself, outputs, inputs, "", 0)
        return kernel, describe_run(target.numel, chunk, steps)
    _, kernel, desc = plan_nest(
        key, _itself, [source], "", (target.dtype,), (target,), target.shape, target.device
    )
    return kernel, desc


def _itself(x):
    return (x,)


COPIES = Plans(_plan_copy, mixed=True)


def _crossing(target, source):
    """A kernel, so to speak, that copies between devices by way of the host.

    Elements are laid side by side and cast where they are, moved, and spread where they arrive;
    what lies side by side at either end needs no room in between.
    """
    if not source.device.runtime.computes:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    read, write = source.device.runtime.read, target.device.runtime.write
    sent, held, landed = [
        dense_layout(source.shape, target.dtype, device)
        for device in (source.device, cpu, target.device)
    ]
    leaves = source.is_contiguous and source.dtype is target.dtype
    lands = target.is_contiguous and target.shape == source.shape

    def run(_, to, start):
        room = []  # held until all is done

        def block(layout):
            room.append(empty_like_layout(layout))
            return room[-1]._storage.pointer

        at = start if leaves else block(sent)
        if not leaves:
            kernel, description = COPIES[sent, source]
            kernel(description, at, start)
        arrived = to if lands else block(landed)
        if source.device.type == "cpu":
            write(arrived, at, held.nbytes)
        elif target.device.type == "cpu":
            read(arrived, at, held.nbytes)
        else:
            between = block(held)
            read(between, at, held.nbytes)
            write(arrived, between, held.nbytes)
        if not lands:
            kernel, description = COPIES[target, landed]
            kernel(description, to, arrived)

    return run


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
    if non_blocking is not False:
        argument("copy_", "non_blocking", 2, "bool", non_blocking)
    if isinstance(src, Tensor):
        st = input._storage
        found = _CHECKED[input._layout, src._layout]
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
    elsewhere = src._offset != input._offset or not same_layout(source_layout, target_layout)
    if src._storage.pointer == input._storage.pointer and not elsewhere:
        if not ((input._requires_grad or src._requires_grad) and modes.grad):
            input._storage.version += 1
            return input
    elif src._storage.pointer == input._storage.pointer:
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
    return input


def _plan_checked(key):
    """The plan of a copy that nothing is wrong with, whatever the memory; else None."""
    target, source = key
    if overlaps_itself(target):
        return None
    if source.shape != target.shape:
        try:
            _check_broadcast(source.shape, target.shape)
        except RuntimeError:
            return None
    return COPIES[key]


_CHECKED = Plans(_plan_checked, mixed=True)


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


@launches("clone")
def clone(input, memory_format):
    return to_copy(input, None, None, memory_format)


@launches("to_copy")
def to_copy(input, dtype, device, memory_format):
    layout, kernel, description = _CONVERSIONS[input._layout, dtype, device, memory_format]
    out = empty_like_layout(layout)
    kernel(description, out._storage.pointer, input._storage.pointer + input._offset)
    return out


def _plan_conversion(key):
    """(layout of a copy in another dtype, device or memory format, kernel, description)."""
    source, dtype, device, memory_format = key
    layout = _converted_layout(source, dtype, device, memory_format)
    return layout, *COPIES[layout, source]


_CONVERSIONS = Plans(_plan_conversion)


def _converted_layout(source, dtype, device, memory_format):
    layout = formatted_layout(source, memory_format, dtype)
    if device is not None and device is not layout.device:
        layout = make_layout(layout.shape, layout.strides, layout.dtype, device)
    return layout


def fill_into(target, value):
    """Every element of target becomes value (a Python number), on memory alone."""
    layout, place = target._layout, target._storage.pointer + target._offset
    if layout.sort is not None and type(value) is not complex:
        kernel, description = WHOLE[layout.sort, type(value)]
        kernel(description, place, value, layout.numel)
    elif type(value) is complex:
        kernel, description = FILLS[layout, complex]
        kernel(description, place, value.real, value.imag)
    else:
        kernel, description = FILLS[layout, type(value)]
        kernel(description, place, value)
    return target


def plan_fill(layout, kind):
    """(kernel, description) that fills a layout with a number of a type."""
    name, scalars, dtype = ("fill", kind.__name__), scalar_kinds(kind), layout.dtype
    place = (layout,), layout.shape, layout.device
    return plan_nest(name, _number, [], scalars, (dtype,), *place)[1:]


def _plan_whole(key):
    """(kernel, description) that fills memory without gaps, told last how many elements it has."""
    sort, kind = key
    dtype, device = sort.dtype, sort.device
    if not device.runtime.computes:
        return nothing, NO_WORK
    name, scalars, outputs = ("fill", kind.__name__), scalar_kinds(kind), ((dtype.code, "c"),)
    kernel, chunk = nest_kernel(device.runtime, name, _number, outputs, (), scalars, 0)
    pool().ensure_workers()
    return kernel, packed((0, chunk, dtype.itemsize))


WHOLE = Plans(_plan_whole, by_default=False, mixed=True)


def _number(*numbers):
    return (scalar.Complex(*numbers) if len(numbers) == 2 else numbers[0],)


FILLS = Plans(lambda key: plan_fill(*key), mixed=True)


def filled(layout, value):
    """A new tensor of a dense layout, all elements value."""
    return fill_into(empty_like_layout(layout), value)


set_ones(filled)
