"""Custom functions: forward and backward written by the user.

`Function.apply` runs forward without recording and hangs one node on its outputs, whose backward is
the user's. `ctx` is that node, as in PyTorch.
"""

import functools
import warnings

from flambeau._layout import dense_layout
from flambeau._tensor import Tensor, View, make_tensor
from flambeau.autograd import views
from flambeau.autograd.grad_mode import modes, no_grad
from flambeau.autograd.node import (
    FREED,
    Node,
    edge_of,
    init_node,
    save_input,
    save_output,
    unpack,
)
from flambeau.eager.copying import filled
from flambeau.interposing import offer


class FunctionCtx:
    """What forward tells backward."""

    def save_for_backward(self, *tensors):
        """Keep tensors for backward; each is checked for in-place changes when it is used."""
        for k, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {k} is of type "
                    f"{type(t).__name__}"
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors):
        self.saved_for_forward = tensors

    def mark_dirty(self, *args):
        """These inputs were changed in place."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args):
        """These outputs have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value):
        """Should missing gradients arrive as zeros (True, the default) or as None?"""
        self.materialize_grads = value


class FunctionNode(Node, FunctionCtx):
    """The node of a custom function; backward sees it as ctx."""

    custom = True
    _function: "type[Function]"
    runs_undefined = True

    def __init__(self):
        self.edges, self.saved, self.hooks, self.outputs = (), (), None, 1
        self.seq = 0
        self.to_save, self.dirty_tensors, self.non_differentiable = (), (), ()
        self.materialize_grads = True
        self.needs_input_grad = ()

    @property
    def saved_tensors(self):
        if self.saved is None:
            raise RuntimeError(FREED)
        return tuple(unpack(item, self) for item in self.saved)

    saved_variables = saved_tensors

    def apply(self, grads, create_graph):
        if self.materialize_grads:
            like = next((g for g in grads if g is not None), None)
            grads = [
                layout_zeros(layout, like) if g is None and layout is not None else g
                for g, layout in zip(grads, self.out_layouts)
            ]
        results = self._function.backward(self, *grads)
        results = results if isinstance(results, tuple) else (results,)
        slots = self.slots
        if len(results) > len(slots) and all(r is None for r in results[len(slots) :]):
            results = results[: len(slots)]
        if len(results) != len(slots):
            raise RuntimeError(
                f"function {type(self).__name__} returned an incorrect number of gradients "
                f"(expected {len(slots)}, got {len(results)})"
            )
        for k, (r, is_tensor) in enumerate(zip(results, slots)):
            if r is None:
                continue
            if not is_tensor:
                raise RuntimeError(
                    f"function {type(self).__name__} returned a gradient different than None at "
                    f"position {k + 1}, but the corresponding forward input was not a Variable"
                )
            if not isinstance(r, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(r).__name__})")
        found = [r for r, is_tensor in zip(results, slots) if is_tensor]
        return [
            None if r is None or edge is None else self._fit(k, r, layout)
            for k, (r, layout, edge) in enumerate(zip(found, self.in_layouts, self.edges))
        ]

    def _fit(self, k, grad, layout):
        """A gradient from the user in the shape and dtype of the argument."""
        if grad._layout.shape != layout.shape:
            try:
                grad = grad.sum_to_size(layout.shape)
            except RuntimeError:
                raise RuntimeError(
                    f"Function {type(self).__name__} returned an invalid gradient at index {k} - "
                    f"got {list(grad.shape)} but expected shape compatible with "
                    f"{list(layout.shape)}"
                ) from None
        if grad._layout.dtype is not layout.dtype:
            if grad._layout.dtype.is_complex and not layout.dtype.is_complex:
                grad = grad.real
            grad = grad.to(layout.dtype)
        if grad._layout.device is not layout.device:
            grad = grad.to(layout.device)
        return grad


def layout_zeros(layout, like=None):
    if like is not None and type(like) is not Tensor:  # one of a transform
        return like.new_zeros(layout.shape, dtype=layout.dtype)
    return filled(dense_layout(layout.shape, layout.dtype, layout.device), 0)


_node_classes: dict = {}


def _node_class(function):
    found = _node_classes.get(function)
    if found is None:
        found = _node_classes[function] = type(
            f"{function.__name__}Backward", (FunctionNode,), {"_function": function}
        )
    return found


class Function:
    """Base of custom functions: static forward(ctx, ...) and backward(ctx, *grads)."""

    generate_vmap_rule = False

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    def __init__(self, *args, **kwargs):
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "vjp" in cls.__dict__ and "backward" not in cls.__dict__:
            cls.backward = cls.__dict__["vjp"]

    @classmethod
    def apply(cls, *args, **kwargs):
        """Run forward and record the function."""
        node = _node_class(cls)()
        tensors = [a for a in args if isinstance(a, Tensor)]
        recording = modes.grad and any(t._requires_grad for t in tensors)
        node.needs_input_grad = tuple(isinstance(a, Tensor) and a._requires_grad for a in args)
        separate = cls.setup_context is not Function.setup_context
        with no_grad():
            result = (
                cls.forward(*args, **kwargs) if separate else cls.forward(node, *args, **kwargs)
            )
            if separate:
                cls.setup_context(node, args, result)
        outs = result if isinstance(result, tuple) else (result,)
        outs = _finish(node, args, tensors, outs, recording)
        return outs if isinstance(result, tuple) else outs[0]


def _finish(node, args, tensors, outs, recording):
    dirty = set(map(id, node.dirty_tensors))
    blocked = set(map(id, node.non_differentiable))
    returned = set(map(id, outs))
    for t in node.dirty_tensors:
        t._storage.version += 1
        if id(t) not in returned:
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function."
            )
    if not recording:
        node.saved = node.to_save
        return outs
    edges = tuple(edge_of(t) if t._requires_grad else None for t in tensors)
    node.slots = tuple(isinstance(a, Tensor) for a in args)
    node.in_layouts = tuple(t._layout for t in tensors)
    given = set(map(id, tensors))
    fresh = tuple(_alias(o) if id(o) in given and id(o) not in dirty else o for o in outs)
    node.out_layouts = tuple(o._layout if isinstance(o, Tensor) else None for o in fresh)
    init_node(node, edges, (), len(outs))
    for k, (o, original) in enumerate(zip(fresh, outs)):
        if not isinstance(o, Tensor) or id(original) in blocked or o._layout.dtype.category < 2:
            continue
        if id(o) in dirty:
            _rewritten(o, node, k)
            continue
        if o._view is not None:
            o._view.kind = "custom"
        o._grad_fn, o._output_nr, o._requires_grad = node, k, True
    node.saved = tuple(None if t is None else _save(t, node, fresh) for t in node.to_save)
    node.to_save = ()
    return fresh


def _alias(t):
    """An input handed straight back becomes a view of itself, so that it can have a history."""
    out = make_tensor(t._layout, t._storage, t._offset)
    out._view = View(t._view.base if t._view is not None else t, t._storage.version, "custom", None)
    return out


def _rewritten(t, node, k):
    """An input that forward changed in place gets the function as its history."""
    if t._requires_grad and t._grad_fn is None:
        raise RuntimeError(
            "a leaf Variable that requires grad has been used in an in-place operation."
        )
    if t._view is not None:
        if t._view.kind != "plain":
            views.check_inplace(t)
        if node.outputs > 1:
            raise RuntimeError(
                "If your Function modifies inplace an input that is a view of another Tensor, your "
                "Function cannot return more than one Tensor. This is not supported by the current "
                "autograd engine. You should either make sure the input is not a view (using "
                ".clone() for example) or make your Function only return one Tensor (potentially "
                "splitting it into two Functions: one doing the inplace that returns a single "
                "Tensor and a second one that does the other operations)."
            )
        views.rebase(t, node)
        return
    t._grad_fn, t._output_nr, t._requires_grad = node, k, True


def _save(t, node, outs):
    for k, o in enumerate(outs):
        if o is t:
            return save_output(o, k)
    return save_input(t)


def once_differentiable(function):
    """A backward that must not be differentiated again."""

    @functools.wraps(function)
    def wrapper(ctx, *grads):
        with no_grad():
            results = function(ctx, *grads)
        if not modes.grad or not any(isinstance(g, Tensor) and g._requires_grad for g in grads):
            return results
        many = results if isinstance(results, tuple) else (results,)
        # the complaint waits in a node of its own, above nothing: only backward() gets there
        ends = [None if r is None else r.detach().requires_grad_() for r in many]
        edges = tuple(None if r is None else edge_of(r) for r in ends)
        node = init_node(object.__new__(_Once), edges, (), len(many))
        found = [None if r is None else r.detach() for r in many]
        for k, r in enumerate(found):
            if r is not None:
                r._grad_fn, r._output_nr, r._requires_grad = node, k, True
        return tuple(found) if isinstance(results, tuple) else found[0]

    return wrapper


class InplaceFunction(Function):
    """A custom function that may be told to write its input; `inplace` says so."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace


FunctionMeta = type(Function)
BackwardCFunction = FunctionNode  # what ctx and grad_fn of custom functions are


class _Once(Node):
    __slots__ = ()

    def apply(self, grads, create_graph):
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


# custom functions as calls that handlers may stand around, under the names of their classes
offer(
    Function.__dict__["apply"].__func__,
    lambda args, kwargs: args[0].__name__,
    "function",
    key="Function.apply",
)
