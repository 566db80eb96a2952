"""Automatic differentiation: backward, grad, Function and the switches.

The graph is made of nodes (node.py), walked by the engine (engine.py), which gives leaves their
gradients (leaves.py) and runs hooks (hooks.py); views and in-place writes have their own rules
(views.py). gradcheck, functional and graph build on the public functions here.
"""

import importlib
import warnings

from flambeau._tensor import Tensor
from flambeau.autograd.anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from flambeau.autograd.engine import (
    GradientEdge,
    check_recorded,
    check_root,
    queue_callback,
    run_backward,
)
from flambeau.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_multithreading_enabled,
    modes,
    no_grad,
    saved_tensors_hooks,
    set_grad_enabled,
    set_multithreading_enabled,
)
from flambeau.autograd.node import SavedTensor as SavedTensor
from flambeau.errors import warn_once


def _tuple(value):
    return (value,) if isinstance(value, (Tensor, GradientEdge)) else tuple(value)


def _start(tensors, grads, batched=False):
    """The gradients that a pass starts with, one for each tensor."""
    grads = (None,) * len(tensors) if grads is None else _tuple(grads)
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    return [check_root(t, g, k, batched) for k, (t, g) in enumerate(zip(tensors, grads))]


_KEEPS_ITSELF = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter "
    "and its gradient which can cause a memory leak. We recommend using autograd.grad when "
    "creating the graph to avoid this. If you have to use this function, make sure to reset the "
    ".grad fields of your parameters to None after use to break the cycle and avoid the leak."
)


def backward(
    tensors,
    grad_tensors=None,
    retain_graph=None,
    create_graph=False,
    grad_variables=None,
    inputs=None,
):
    """Sum of gradients of tensors with respect to leaves, accumulated into their .grad."""
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        grad_tensors = grad_variables
    tensors = _tuple(tensors)
    if inputs is not None:
        inputs = _tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        for t in inputs:
            if type(t) is not GradientEdge:
                t.retain_grad()
    grads = _start(tensors, grad_tensors)
    if create_graph:
        warn_once(_KEEPS_ITSELF)
    keep = create_graph if retain_graph is None else retain_graph
    run_backward(tensors, grads, keep, create_graph, inputs)


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """Gradients of outputs with respect to inputs, returned and not accumulated."""
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    grads = _start(outputs, grad_outputs, is_grads_batched)
    for t in inputs:
        if isinstance(t, Tensor):
            if not t._requires_grad:
                check_recorded(outputs)
                raise RuntimeError("One of the differentiated Tensors does not require grad")
        elif type(t) is not GradientEdge:
            raise RuntimeError(
                f"all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}"
            )
    keep = create_graph if retain_graph is None else retain_graph
    allow_unused = bool(allow_unused) or materialize_grads
    if is_grads_batched:
        found = _batched(outputs, inputs, grads, keep, create_graph, allow_unused)
    else:
        found = run_backward(outputs, grads, keep, create_graph, inputs, False, allow_unused)
    if materialize_grads:
        for g, t in zip(found, inputs):
            if g is None and type(t) is GradientEdge:
                raise RuntimeError(
                    "materialize_grads cannot be used when the given input is a GradientEdge"
                )
        found = tuple(
            t.new_zeros(t.shape, requires_grad=create_graph) if g is None else g
            for g, t in zip(found, inputs)
        )
    return found


def _batched(outputs, inputs, grads, keep, create_graph, allow_unused):
    """One backward pass for all entries of the leading dimension of the gradients."""
    batching = importlib.import_module("flambeau._functorch.vmap")  # few programs need it
    places = [k for k, g in enumerate(grads) if g is not None]
    missing: list = []

    def pulled(*rows):
        given = list(grads)
        for k, row in zip(places, rows):
            given[k] = row
        found = run_backward(outputs, given, keep, create_graph, inputs, False, allow_unused)
        missing[:] = [g is None for g in found]
        return tuple(g for g in found if g is not None)

    with set_grad_enabled(create_graph):
        found = iter(batching.vmap(pulled)(*[grads[k] for k in places]))
    return tuple(None if gone else next(found) for gone in missing)


class _Engine:
    """The engine, as programs reach it that want to be called when a pass is over."""

    queue_callback = staticmethod(queue_callback)


class _Variable(type):
    """Tensors and variables are one: every tensor is an instance of Variable."""

    def __instancecheck__(cls, t):
        return isinstance(t, Tensor)


class Variable(metaclass=_Variable):
    """Variable(data, requires_grad=False): data as a tensor of its own outside the graph."""

    _execution_engine = _Engine()

    def __new__(cls, data, requires_grad=False, volatile=False):
        return data.detach().requires_grad_(requires_grad)


def variable(*args, **kwargs):
    """An old name, which says what to use."""
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


def __getattr__(name):
    if name in ("Function", "FunctionCtx", "function", "once_differentiable"):
        module = importlib.import_module("flambeau.autograd.function")
        return module if name == "function" else getattr(module, name)
    if name in ("gradcheck", "gradgradcheck", "GradcheckError"):
        # the function hides the module of the same name, as in PyTorch
        module = importlib.import_module("flambeau.autograd.gradcheck")
        value = globals()[name] = getattr(module, name)
        return value
    if name in ("forward_ad", "functional", "graph", "profiler", "profiler_util"):
        return importlib.import_module(f"flambeau.autograd.{name}")
    raise AttributeError(f"module 'flambeau.autograd' has no attribute '{name}'")


__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_multithreading_enabled",
    "modes",
    "no_grad",
    "saved_tensors_hooks",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
