"""Launching the sampling kernels: which one, on which generator, over which memory.

PyTorch fills a tensor in the order its elements lie in memory, whatever its shape says; a tensor
with gaps is therefore drawn side by side into a scratch block first, and copied. Kernels are
written by `codegen/templates/sampling.py` and `rejection.py`; the public functions are rows of
`ops/sampling.py`.
"""

from flambeau._layout import is_dense_in_some_order, make_layout, memory_order
from flambeau._tensor import alias, empty_tensor
from flambeau.eager.kernels import load_kernel
from flambeau.eager.plan import plan_nest
from flambeau.random import Generator, default_generator

_kernels: dict = {}


def kernel(name, *facts):
    """The kernel that `build_<name>(*facts)` of the templates describes."""
    found = _kernels.get((name, *facts))
    if found is None:
        from flambeau.codegen.templates import rejection, sampling  # with llvmlite, on first need

        build = getattr(sampling, "build_" + name, None) or getattr(rejection, "build_" + name)
        found = _kernels[name, *facts] = load_kernel(build(*facts), name)
    return found


def stream(generator, op="random_"):
    """The address of a generator's block; None stands for the default generator."""
    if generator is None:
        return default_generator.pointer
    if not isinstance(generator, Generator):
        kind = type(generator).__name__
        raise TypeError(f"{op}(): argument 'generator' must be torch.Generator, not {kind}")
    return generator.pointer


def fill(out, name, facts, generator, *parameters):
    """Fill a tensor's memory, in the order of that memory; returns the kernel's status."""
    layout = out._layout
    if layout.numel == 0 or layout.device.type != "cpu":
        return None
    run = kernel(name, *facts)
    if layout.is_contiguous or is_dense_in_some_order(layout):
        return run(stream(generator), out.data_ptr(), layout.numel, *parameters)
    view = in_memory_order(out)
    scratch = empty_tensor(view.shape, view.dtype, view.device)
    status = run(stream(generator), scratch.data_ptr(), layout.numel, *parameters)
    copy_into(view, scratch)
    return status


def in_memory_order(t):
    """A view of a tensor whose row-major order is the order of its memory."""
    shape, strides = t._layout.shape, t._layout.strides
    order = memory_order(shape, [strides])
    turned = tuple(shape[d] for d in order), tuple(strides[d] for d in order)
    return alias(t, make_layout(*turned, t.dtype, t.device), t._offset)


def copy_into(target, source):
    """Copy between tensors of one shape and dtype, unknown to autograd."""
    _, run, description, owner = plan_nest(
        "scatter_samples", lambda x: (x,), [source._layout], "", None, outs=(target._layout,)
    )
    run(description, target.data_ptr(), source.data_ptr())
    del owner  # the description lived until here
