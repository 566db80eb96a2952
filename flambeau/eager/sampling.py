"""Filling tensors with random numbers: what may be asked, which kernel, over which memory.

PyTorch fills a tensor in the order its elements lie in memory, whatever its shape says; a tensor
with gaps is therefore drawn side by side into a scratch block first, and copied. Launchers check
their arguments as PyTorch does. Kernels are written by `codegen/templates/sampling.py` and
`rejection.py`; the rows are in `ops/sampling.py`; integers, new tensors and draws from tensors of
parameters are in the files beside this one.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau._device import cpu
from flambeau._layout import is_dense_in_some_order, make_layout, memory_order, overlaps_itself
from flambeau._tensor import Tensor, alias, empty_tensor
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, edge_of, init_node
from flambeau.eager.copying import copy_into
from flambeau.eager.launching import launches
from flambeau.eager.rows import is_computed
from flambeau.random import Generator, default_generator

_REJECTING = frozenset("poisson gamma normalize binomial rrelu multinomial".split())
HALF_AND_UP = frozenset((d.float16, d.bfloat16, d.float32, d.float64))
# what most kernels are made for
COMMON = HALF_AND_UP | {d.uint8, d.int8, d.int16, d.int32, d.int64}
_LARGEST = {t: d.finfo(t).max for t in HALF_AND_UP}


# -- kernels and memory ----------------------------------------------------------------------------


def kernel(name, *facts, device=cpu):
    """The kernel that `build_<name>(*facts)` of the templates describes."""
    if device.type == "cuda":
        return gpu_draws().kernel(name, facts, device)
    file = "rejection" if name in _REJECTING else "sampling"
    return device.runtime.kernel(name, f"{file}:build_{name}", *facts)


def gpu_draws():
    """How GPUs draw; it loads with their first numbers."""
    from flambeau.eager import cuda_sampling

    return cuda_sampling


def stream(generator):
    """The address of a generator's block; None stands for the default generator."""
    return default_generator.pointer if generator is None else generator.pointer


def check_generator(op, generator, device=None):
    if generator is not None and not isinstance(generator, Generator):
        kind = type(generator).__name__
        raise TypeError(f"{op}(): argument 'generator' must be torch.Generator, not {kind}")
    if generator is not None and device is not None and device.type != generator.device.type:
        raise RuntimeError(
            f"Expected a '{device.type}' device type for generator but found "
            f"'{generator.device.type}'"
        )


def fill(out, name, facts, generator, *parameters):
    """Fill a tensor's memory, in the order of that memory."""
    layout = out._layout
    if not is_computed(out):
        return
    if not layout.is_contiguous and overlaps_itself(layout):
        raise overlapping()
    run = kernel(name, *facts, device=layout.device)
    if layout.is_contiguous or is_dense_in_some_order(layout):
        run(stream(generator), out.data_ptr(), layout.numel, *parameters)
        return
    view = in_memory_order(out)
    scratch = empty_tensor(view.shape, view.dtype, view.device)
    run(stream(generator), scratch.data_ptr(), layout.numel, *parameters)
    copy_into(view, scratch)


def overlapping():
    return RuntimeError(
        "unsupported operation: more than one element of the written-to tensor refers to a single "
        "memory location. Please clone() the tensor before performing the operation."
    )


def check_overlap(out):
    if is_computed(out) and overlaps_itself(out._layout):
        raise overlapping()


def in_memory_order(t):
    """A view of a tensor whose row-major order is the order of its memory."""
    order = memory_order(t._layout.sizes, t._layout.strides)
    return turned(t, order)


def turned(t, order):
    """A view with the dimensions in another order, unknown to autograd."""
    shape, strides = t._layout.shape, t._layout.strides
    facts = tuple(shape[k] for k in order), tuple(strides[k] for k in order)
    return alias(t, make_layout(*facts, t.dtype, t.device), t._offset)


def real_view(t):
    """A complex tensor as pairs of real numbers."""
    layout = t._layout
    strides = (*(2 * s for s in layout.strides), 1)
    return alias(
        t, make_layout((*layout.shape, 2), strides, t.dtype.to_real(), t.device), t._offset
    )


def side_by_side(t, shape=None):
    """A contiguous tensor with the values of t, spread over a larger shape if one is given."""
    layout = t._layout
    if shape is None or layout.shape == shape:
        if layout.is_contiguous:
            return t
        shape = layout.shape
    missing = len(shape) - layout.ndim
    pairs = zip(layout.shape, layout.strides, shape[missing:])
    strides = (0,) * missing + tuple(0 if s == 1 and n != 1 else st for s, st, n in pairs)
    out = empty_tensor(shape, t.dtype, t.device)
    copy_into(out, alias(t, make_layout(shape, strides, t.dtype, t.device), t._offset))
    return out


# -- history ---------------------------------------------------------------------------------------


class Overwritten(Node):
    """History of a tensor that was filled: nothing flows back to what it was before."""

    __slots__ = ()

    def apply(self, grads, create_graph):
        return (grads[0].new_zeros(grads[0].shape),)


def fills(row):
    """Register a function as the launcher of a row that overwrites its tensor."""
    node_class = type(row.strip("_").title().replace("_", "") + "Backward0", (Overwritten,), {})

    def register(function):
        @launches(row)
        def launch(target, *arguments):
            check_generator(row, arguments[-1], target._layout.device)
            recording = modes.grad and target._requires_grad
            if recording:
                views.check_inplace(target)
            edge = edge_of(target) if recording else None
            function(target, *arguments)
            target._storage.version += 1
            if recording:
                node = init_node(object.__new__(node_class), (edge,), ())
                views.rebase(target, node)
            return target

        return function

    return register


# -- fills -----------------------------------------------------------------------------------------


def require(dtype, supported, kernel_name):
    if dtype not in supported:
        raise errors.not_implemented(kernel_name, dtype)


@fills("uniform_")
def uniform_(out, low, high, generator):
    if not out.device.runtime.computes:
        return
    if out.dtype.is_complex:
        out = real_view(out)
        if out.numel() == 0:
            return
    dtype = out.dtype
    require(dtype, HALF_AND_UP, "check_uniform_bounds")
    top = _LARGEST[dtype]
    for value, name in ((low, "from"), (high, "to")):
        if not -top <= value <= top:
            raise RuntimeError(f"{name} is out of bounds for {dtype.cpp_name}")
    if not low <= high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    if not high - low <= top:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{dtype.scalar_name}>::max(), "
            f"but found to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )
    fill(out, "uniform", (dtype.code,), generator, low, high)


@fills("normal_")
def normal_(out, mean, std, generator):
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if not is_computed(out):
        return
    if out.dtype.is_complex:
        out, std = real_view(out), std / math.sqrt(2)
    require(out.dtype, HALF_AND_UP, "normal_kernel_cpu")
    if out.numel() >= 16 and out._layout.is_contiguous:
        fill(out, "normal", (out.dtype.code,), generator, mean, std)
    else:
        fill(out, "fill", ("normal_pairs", out.dtype.code), generator, mean, std)


@fills("log_normal_")
def log_normal_(out, mean, std, generator):
    if out.device.runtime.computes and not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    check_overlap(out)
    _fill_through_libm(out, "log_normal", "log_normal_cpu", HALF_AND_UP, generator, mean, std)


@fills("cauchy_")
def cauchy_(out, median, sigma, generator):
    if out.device.runtime.computes:
        if not sigma > 0:
            raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
        if not out.dtype.is_floating_point:
            raise _continuous("Cauchy", out.dtype.cpp_name)
    _fill_through_libm(out, "cauchy", "cauchy_cpu", HALF_AND_UP, generator, median, sigma)


@fills("exponential_")
def exponential_(out, lambd, generator):
    if out.device.runtime.computes and not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    if is_computed(out) and not out.dtype.is_floating_point:
        check_overlap(out)
        raise _continuous("Exponential", out.dtype.scalar_name)
    _fill_through_libm(out, "exponential", "exponential_cpu", HALF_AND_UP, generator, lambd)


@fills("geometric_")
def geometric_(out, p, generator):
    if out.device.runtime.computes and not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    check_overlap(out)
    _fill_through_libm(out, "geometric", "geometric_cpu", COMMON, generator, p)


def _continuous(name, dtype):
    return RuntimeError(
        f"{name} distribution is a continuous probability distribution. "
        f"dtype must be a floating point but you specified {dtype}"
    )


def _fill_through_libm(out, name, kernel_name, supported, generator, *parameters):
    if is_computed(out):
        require(out.dtype, supported, kernel_name)
        fill(out, "fill", (name, out.dtype.code), generator, *parameters)


@fills("bernoulli_")
def bernoulli_(out, p, generator):
    """p: a probability for all elements, or a tensor of them that broadcasts."""
    if isinstance(p, Tensor):
        bernoulli_from(out, p if p.shape == out.shape else p.expand(out.shape), generator)
        return
    p = float(p)
    if out.device.runtime.computes and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    if is_computed(out):
        check_overlap(out)
        require(out.dtype, COMMON | {d.bool_}, "bernoulli_scalar_cpu_")
        fill(out, "bernoulli", (out.dtype.code,), generator, p)


def bernoulli_from(out, p, generator):
    """p: a tensor of probabilities, already in the shape of out."""
    if not is_computed(out):
        return
    if overlaps_itself(out._layout):
        raise overlapping()
    require(out.dtype, COMMON | {d.bool_}, "bernoulli_tensor_cpu_self_")
    require(p.dtype, HALF_AND_UP, "bernoulli_tensor_cpu_p_")
    order = memory_order(out._layout.sizes, (*out._layout.strides, *p._layout.strides))
    out, p = turned(out, order), side_by_side(turned(p, order))
    whole = out._layout.is_contiguous
    scratch = out if whole else empty_tensor(out.shape, out.dtype, out.device)
    run = kernel("bernoulli_from", out.dtype.code, p.dtype.code, device=out.device)
    status = run(stream(generator), scratch.data_ptr(), p.data_ptr(), out.numel())
    if not whole:
        copy_into(out, scratch)
    if status is not None:
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
