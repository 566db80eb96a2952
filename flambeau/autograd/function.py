"""Custom functions: forward and backward written by the user.

`Function.apply` runs forward without recording and hangs one node on its outputs, whose backward is the
user's. `ctx` is that node, as in PyTorch.
"""

import functools

from flambeau._tensor import Tensor, make_tensor
from flambeau.autograd.grad_mode import modes, no_grad
from flambeau.autograd.node import FREED, Node, edge_of, init_node, save_input, unpack


class FunctionCtx:
    """What forward tells backward."""

    def save_for_backward(self, *tensors):
        """Keep tensors for backward; each is checked for in-place changes when it is used."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument is of type {type(t).__name__}"
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

    _function: type = None  # type: ignore[assignment]
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
            grads = [
                g if g is not None else layout_zeros(layout)
                for g, layout in zip(grads, self.out_layouts)
            ]
        results = self._function.backward(self, *grads)
        results = results if isinstance(results, (tuple, list)) else (results,)
        if len(results) > len(self.slots) and all(r is None for r in results[len(self.slots) :]):
            results = results[: len(self.slots)]
        if len(results) != len(self.slots):
            raise RuntimeError(
                f"function {type(self).__name__} returned an incorrect number of gradients "
                f"(expected {len(self.slots)}, got {len(results)})"
            )
        found = [r for r, is_tensor in zip(results, self.slots) if is_tensor]
        for k, (r, layout) in enumerate(zip(found, self.in_layouts)):
            if r is not None and self.edges[k] is not None and r.shape != layout.shape:
                try:
                    found[k] = r.sum_to_size(layout.shape)
                except RuntimeError:
                    raise RuntimeError(
                        f"Function {type(self).__name__} returned an invalid gradient at index {k} - got {list(r.shape)} but "
                        f"expected shape compatible with {list(layout.shape)}"
                    ) from None
        return found


def layout_zeros(layout):
    from flambeau._layout import dense_layout
    from flambeau.eager.copying import filled

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
    """Base of custom differentiable functions: static forward(ctx, ...) and backward(ctx, *grads)."""

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
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
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
    for t in node.dirty_tensors:
        t._storage.version += 1
    if not recording:
        node.saved = tuple(t for t in node.to_save)
        return outs
    node.slots = tuple(isinstance(a, Tensor) for a in args)
    node.in_layouts = tuple(t._layout for t in tensors)
    edges = tuple(edge_of(t) if t._requires_grad else None for t in tensors)
    fresh = []
    for o in outs:
        # an input handed straight back becomes a view of itself, so that it can have this history
        if isinstance(o, Tensor) and id(o) not in dirty and any(o is t for t in tensors):
            o = make_tensor(o._layout, o._storage, o._offset)
        fresh.append(o)
    tensor_outs = [o for o in fresh if isinstance(o, Tensor)]
    node.out_layouts = tuple(o._layout for o in tensor_outs)
    init_node(node, edges, (), max(1, len(tensor_outs)))
    for k, (o, original) in enumerate(zip(tensor_outs, [x for x in outs if isinstance(x, Tensor)])):
        if id(original) in blocked or o._layout.dtype.category < 2:
            continue
        o._grad_fn, o._output_nr, o._requires_grad = node, k, True
    node.saved = tuple(None if t is None else _save(t, node, tensor_outs) for t in node.to_save)
    node.to_save = ()
    return tuple(fresh)


def _save(t, node, outs):
    from flambeau.autograd.node import save_output

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
        node = init_node(
            object.__new__(_Once),
            tuple(edge_of(g) for g in grads if g is not None and g._requires_grad),
            (),
            len(many),
        )
        found = []
        for k, r in enumerate(many):
            if r is not None:
                r = r.detach()
                r._grad_fn, r._output_nr, r._requires_grad = node, k, True
            found.append(r)
        return tuple(found) if isinstance(results, tuple) else found[0]

    return wrapper


class _Once(Node):
    __slots__ = ()

    def apply(self, grads, create_graph):
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
