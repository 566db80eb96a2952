"""Custom functions: forward and backward written by the user.

`Function.apply` runs forward without recording and hangs one node on its outputs, whose backward is
the user's. `ctx` is that node, as in PyTorch.
"""

import functools
import inspect
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
    _forward_cls: "type[Function]"
    runs_undefined = True
    _materialize_non_diff_grads = True  # do outputs marked so get zeros?

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

    @property
    def _raw_saved_tensors(self):
        if self.saved is None:
            raise RuntimeError(FREED)
        return tuple(map(self._raw, range(len(self.saved))))

    @property
    def saved_variables(self):
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    def apply(self, grads, create_graph):
        cls = self._forward_cls
        if self.materialize_grads:
            like = next((g for g in grads if g is not None), None)
            grads = [
                layout_zeros(layout, like) if g is None and layout is not None else g
                for g, layout in zip(grads, self.out_layouts)
            ]
        backward = cls.backward
        if cls.vjp is not Function.vjp:
            if backward is not Function.backward:
                raise RuntimeError(
                    "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. "
                    "You should only implement one of them."
                )
            backward = cls.vjp
        results = backward(self, *grads)
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


class Function:
    """Base of custom functions: static forward(ctx, ...) and backward(ctx, *grads)."""

    generate_vmap_rule = False
    _backward_cls: "type[FunctionNode]"

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

    vjp = backward  # another name: a function has one of the two

    @staticmethod
    def jvp(ctx, *grad_inputs):
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info, in_dims, *args):
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod "
            "or set generate_vmap_rule=True."
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
        _give_node(cls)

    @classmethod
    def apply(cls, *args, **kwargs):
        """Run forward and record the function."""
        return run(cls, args, kwargs)[1]


def _give_node(cls):
    cls._backward_cls = type(f"{cls.__name__}Backward", (FunctionNode,), {"_forward_cls": cls})


_give_node(Function)


def run(cls, args, kwargs):
    """The node of a call, which is nobody's history if nothing is recorded, and its results."""
    node = cls._backward_cls()
    tensors = [a for a in args if isinstance(a, Tensor)]
    recording = modes.grad and any(t._requires_grad for t in tensors)
    node.needs_input_grad = tuple(isinstance(a, Tensor) and a._requires_grad for a in args)
    separate = cls.setup_context is not Function.setup_context
    with no_grad():
        if separate:
            result = cls.forward(*args, **kwargs)
            cls.setup_context(node, _all_arguments(cls.forward, args, kwargs), result)
        else:
            result = cls.forward(node, *args, **kwargs)
    outs = result if isinstance(result, tuple) else (result,)
    outs = _finish(node, args, tensors, outs, recording)
    return node, outs if isinstance(result, tuple) else outs[0]


def _all_arguments(forward, args, kwargs):
    """Arguments with those that were left out."""
    if not kwargs and not getattr(forward, "__defaults__", None):
        return args
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def _finish(node, args, tensors, outs, recording):
    dirty = set(map(id, node.dirty_tensors))
    blocked = set(map(id, node.non_differentiable))
    returned = set(map(id, outs))
    given = set(map(id, tensors))
    for t in node.dirty_tensors:
        t._storage.version += 1
        if id(t) not in returned:
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function."
            )
        if id(t) not in given:
            _complain_of_stranger(t)
    fresh = tuple(_alias(o) if id(o) in given and id(o) not in dirty else o for o in outs)
    for o in fresh:
        if isinstance(o, Tensor) and o._view is not None and id(o) not in dirty:
            o._view.kind = "custom"
    if not recording:
        node.saved, node.to_save = node.to_save, ()
        return fresh
    edges = tuple(edge_of(t) if t._requires_grad else None for t in tensors)
    node.slots = tuple(isinstance(a, Tensor) for a in args)
    node.in_layouts = tuple(t._layout for t in tensors)
    node.out_layouts = tuple(
        o._layout
        if isinstance(o, Tensor) and (node._materialize_non_diff_grads or id(given) not in blocked)
        else None
        for o, given in zip(fresh, outs)
    )
    init_node(node, edges, (), len(outs))
    for k, (o, original) in enumerate(zip(fresh, outs)):
        if not isinstance(o, Tensor) or id(original) in blocked or o._layout.dtype.category < 2:
            continue
        if id(o) in dirty:
            _rewritten(o, node, k)
        else:
            o._grad_fn, o._output_nr, o._requires_grad = node, k, True
    node.saved = tuple(None if t is None else _save(t, node, fresh) for t in node.to_save)
    node.to_save = ()
    return fresh


_STRANGER = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been "
    "mutated should be passed to ctx.mark_dirty()."
)


def _complain_of_stranger(t):
    """Something else than an input was marked as written."""
    if t._view is not None:
        raise RuntimeError(_STRANGER)
    warnings.warn(_STRANGER, stacklevel=5)


def _alias(t):
    """An input handed straight back becomes a view of itself, so that it can have a history."""
    if type(t) is not Tensor:
        with no_grad():
            return t.view_as(t)
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
        node = init_node(object.__new__(Error), edges, (), len(many))
        found = [None if r is None else r.detach() for r in many]
        for k, r in enumerate(found):
            if r is not None:
                r._grad_fn, r._output_nr, r._requires_grad = node, k, True
        return tuple(found) if isinstance(results, tuple) else found[0]

    return wrapper


class UndefinedGrad(Function):
    """Hands its input on, and no gradient back."""

    @staticmethod
    def forward(ctx, input):
        return input.view_as(input)

    @staticmethod
    def backward(ctx, grad):
        return None


class InplaceFunction(Function):
    """A custom function that may be told to write its input; `inplace` says so."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace


FunctionMeta = type(Function)
BackwardCFunction = FunctionNode  # what ctx and grad_fn of custom functions are


class Error(Node):
    """Stands above what must not be differentiated; named as PyTorch's."""

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
