"""Nodes of the graph: what was computed, from what, and what its derivative needs.

An edge is (node or leaf tensor, output number); leaves stand for themselves until somebody looks at
`next_functions`, which shows PyTorch's AccumulateGrad. Saved values are packed so that a node never
holds a tensor that points back at it (see Note [No reference cycles]).
"""

import itertools
import traceback
import weakref
from collections import OrderedDict

from flambeau._tensor import Tensor, extra_of, make_tensor
from flambeau.autograd.grad_mode import modes

next_sequence = itertools.count(1).__next__

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


class Hooks:
    """Hooks of a node: on incoming gradients by output number, before and after it runs."""

    __slots__ = ("tensor", "retain", "pre", "post")

    def __init__(self):
        self.tensor, self.retain = {}, {}
        self.pre, self.post = OrderedDict(), OrderedDict()


class RemovableHandle:
    """Removes a hook."""

    _ids = itertools.count()

    def __init__(self, hooks):
        self.hooks_dict_ref, self.id = weakref.ref(hooks), next(RemovableHandle._ids)

    def remove(self):
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __getstate__(self):
        return {**self.__dict__, "hooks_dict_ref": self.hooks_dict_ref()}

    def __setstate__(self, state):
        """A copy removes from the copy of the dictionary; its number stays taken."""
        hooks = state["hooks_dict_ref"]
        hooks = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.__dict__.update(state, hooks_dict_ref=hooks)
        RemovableHandle._ids = itertools.count(max(next(RemovableHandle._ids), self.id + 1))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


_OUR_NAMES = {"self": "input", "result": "out", "sizes": "size"}  # of saved values


class Node:
    """An op in the graph. Subclasses implement apply(grads, create_graph)."""

    __slots__ = ("edges", "seq", "saved", "hooks", "outputs", "__weakref__", "__dict__")
    saved_names: tuple = ()
    frees = True  # does it save tensors, which a pass gives up unless told to keep them?
    custom = False  # written by a user? Then it runs without gradients, too
    releases_more = False  # does release() do more than forget `saved`?
    shown: tuple | None = None  # PyTorch's order of edges, -1 where it counts a number; None: ours

    def __call__(self, *grads):
        """The derivative alone, without hooks: what it makes of gradients of the outputs."""
        if len(grads) != self.outputs:
            raise TypeError(f"expected {self.outputs} arguments, got {len(grads)} instead")
        if self.saved is None:
            raise RuntimeError(FREED)
        results = list(self.apply(list(grads), modes.grad))
        if self.shown is not None:
            results = [None if k < 0 else results[k] for k in self.shown]
        return results[0] if len(results) == 1 else tuple(results)

    def name(self):
        return type(self).__name__

    def short_name(self):
        """The name in messages: what was computed."""
        return type(self).__name__.rstrip("0123456789").removesuffix("Backward")

    def __repr__(self):
        return f"<{type(self).__name__} object at {id(self):#x}>"

    @property
    def next_functions(self):
        shown = self.shown
        edges = self.edges if shown is None else [None if k < 0 else self.edges[k] for k in shown]
        return tuple(
            (None, 0)
            if e is None
            else (accumulator_of(e[0]) if isinstance(e[0], Tensor) else e[0], e[1])
            for e in edges
        )

    @property
    def metadata(self):
        return self.__dict__.setdefault("_metadata", {})

    def _sequence_nr(self):
        return self.seq

    def _hooks(self):
        if self.hooks is None:
            self.hooks = Hooks()
        return self.hooks

    def register_hook(self, hook):
        """hook(grad_inputs, grad_outputs) after this node has run; may replace grad_inputs."""
        return add_hook(self._hooks().post, hook)

    def register_prehook(self, hook):
        """hook(grad_outputs) before this node runs; may replace them."""
        return add_hook(self._hooks().pre, hook)

    def __getattr__(self, name):
        if name.startswith("_saved_"):
            return self._look_up_saved(name[7:])
        if name.startswith("_raw_saved_"):
            return self._raw(self._place_of_saved(name[11:]))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _place_of_saved(self, name):
        if name not in self.saved_names:
            name = _OUR_NAMES.get(name, name)
        if name not in self.saved_names:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '_saved_{name}'")
        return self.saved_names.index(name)

    def _look_up_saved(self, name):
        k = self._place_of_saved(name)
        if self.saved is None:
            raise RuntimeError(FREED)
        found = self.saved[k]
        if type(found) in (list, tuple):
            return tuple(unpack(item, self) for item in found)
        return unpack(found, self)

    def _raw(self, k):
        """A saved value as it lies, to give it hooks."""
        raw = object.__new__(SavedTensor)
        raw.node, raw.place = self, k
        return raw

    def __dir__(self):
        return [*object.__dir__(self), *(f"_saved_{n}" for n in self.saved_names)]

    def narrow(self, edges):
        """Let only these edges want gradients (None: nobody asks)."""
        self.edges = edges

    def release(self):
        """Forget saved values, so that their memory can go."""
        self.saved = None

    def apply(self, grads, create_graph):
        raise NotImplementedError


def add_hook(hooks, hook):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


class AccumulateGrad(Node):
    """Where a gradient reaches a leaf."""

    __slots__ = ("variable",)

    def __init__(self, variable):
        self.variable = variable
        self.edges, self.saved, self.hooks = (), (), None
        self.seq = 1 << 62
        self.outputs = 1

    def name(self):
        return "torch::autograd::AccumulateGrad"

    def _hooks(self):
        # a leaf forgets its accumulator when nobody looks at it, but not one with hooks
        extra_of(self.variable).accumulator = lambda: self
        return super()._hooks()


def accumulator_of(leaf):
    """The AccumulateGrad that stands for a leaf; the same object as long as somebody holds it."""
    extra = extra_of(leaf)
    node = extra.accumulator() if extra.accumulator is not None else None
    if node is None:
        node = AccumulateGrad(leaf)
        extra.accumulator = weakref.ref(node)
    return node


def edge_of(t):
    """Where a gradient of t goes."""
    fn = t._grad_fn if t._view is None else current_grad_fn(t)
    return (t if fn is None else fn, t._output_nr)


def current_grad_fn(t):
    """The grad_fn of a tensor; a view of a base that was written since gets a new one."""
    view = t._view
    if view is not None and view.version != t._storage.version:
        _regenerate(t, view)
    return t._grad_fn


_view_history = None  # set by autograd.views: (base, view tensor) -> node


def set_view_history(function):
    global _view_history
    _view_history = function


def _regenerate(t, view):
    base = view.base
    if base._requires_grad and base._grad_fn is not None:
        node = _view_history(base, t)
        if t._extra is not None and t._extra.retains_grad and t._grad_fn is not None:
            keep_retaining(t, node)
        t._grad_fn, t._output_nr, t._requires_grad = node, 0, True
    view.version = t._storage.version


def keep_retaining(t, node):
    """.grad belongs to the tensor as it is now: a retained gradient moves to its new history."""
    if t._grad_fn is not node and t._grad_fn.hooks is not None:
        t._grad_fn.hooks.retain.pop(t._output_nr, None)
    if node is not None:
        node._hooks().retain[0] = weakref.ref(t)


# Note [No reference cycles]
# An output that its own node saves is kept as memory, layout and version, without the tensor that
# points at the node. Inputs are kept as they are: they point only at earlier nodes.


class SavedOutput:
    """A result saved by its own node."""

    __slots__ = ("layout", "storage", "offset", "version", "output_nr")

    def __init__(self, t, output_nr=0):
        self.layout, self.storage, self.offset = t._layout, t._storage, t._offset
        self.version, self.output_nr = t._storage.version, output_nr


class SavedOfSubclass:
    """A result of a subclass of Tensor (or inside of a transform), saved by its own node."""

    __slots__ = ("kind", "own", "place", "version", "output_nr")

    def __init__(self, t, output_nr=0):
        self.place, self.kind, self.own = (t._layout, t._storage, t._offset), type(t), t.__dict__
        self.own = dict(self.own)
        self.version, self.output_nr = t._storage.version, output_nr

    def restore(self, node):
        layout, storage, _ = self.place
        if storage.version != self.version:
            raise RuntimeError(
                _modified(layout, storage.version, self.version, node, self.output_nr)
            )
        t = make_tensor(*self.place, self.kind)
        t.__dict__.update(self.own)
        if node is not None and layout.dtype.category >= 2:
            t._grad_fn, t._output_nr, t._requires_grad = node, self.output_nr, True
        return t


class SavedInput:
    """An argument saved by a node."""

    __slots__ = ("tensor", "version")

    def __init__(self, t):
        self.tensor, self.version = t, +t._storage.version


class TBackward0(Node):
    """What stands between a product and its transposed operand in PyTorch's graph; to look at."""

    __slots__ = ()

    def apply(self, grads, create_graph):
        return [grads[0].t()]


def transposed(function):
    """An entry of next_functions, seen through a transposition."""
    node, number = function
    if node is None:
        return function
    target = node.variable if hasattr(node, "variable") else node
    return init_node(object.__new__(TBackward0), ((target, number),), ()), 0


class Packed:
    """A saved value in the care of saved_tensors_hooks.

    edge: where gradients of the saved value go; None if it needs none or is an output of the node.
    """

    __slots__ = ("value", "unpack", "edge", "output_nr")

    def __init__(self, t, hooks, output_nr=None):
        pack, self.unpack = hooks
        self.output_nr = output_nr
        self.edge = edge_of(t) if output_nr is None and t._requires_grad else None
        version = +t._storage.version
        previous, modes.grad = modes.grad, False
        try:
            self.value = pack(t)
        finally:
            modes.grad = previous
        if t._storage.version != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as "
                "input to pack hook cannot be modified by in-place operations as "
                "this can lead to unexpected side-effects. Please open an issue if "
                "you need to perform in-place operations on the input to a pack hook."
            )

    def restore(self, node):
        """The saved value as a tensor with its place in the graph."""
        t = self.unpack(self.value)
        if not isinstance(t, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(t).__name__}"
            )
        edge = self.edge
        if self.output_nr is not None:
            edge = node, self.output_nr
        if edge is None or edge[0] is t or t._layout.dtype.category < 2:
            return t
        own = vars(t)
        t = make_tensor(t._layout, t._storage, t._offset, type(t))
        t.__dict__.update(own)
        target, number = edge
        if isinstance(target, Tensor):
            target, number = init_node(object.__new__(Same), (edge,), ()), 0
        t._grad_fn, t._output_nr, t._requires_grad = target, number, True
        return t


class Same(Node):
    """From what a hook unpacked to the leaf it stands for."""

    __slots__ = ()

    def apply(self, grads, create_graph):
        return grads


class SavedTensor:
    """A saved value of a node, whose hooks may be set once."""

    __slots__ = ("node", "place")

    def __init__(self):
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    def register_hooks(self, pack_hook=None, unpack_hook=None):
        """From now on the node keeps what pack_hook makes of the value, until it is needed."""
        if not (callable(pack_hook) and callable(unpack_hook)):
            raise TypeError("register_hooks(): incompatible function arguments.")
        node, k = self.node, self.place
        if node.saved is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. " + _AFTER
            )
        item = node.saved[k]
        if item is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor with value None is forbidden"
            )
        if type(item) is Packed:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: "
                "only one pair of hooks is allowed at a time."
            )
        t, number = unpack(item, node), getattr(item, "output_nr", None)
        if number is not None:
            t = t.detach()
        packed = Packed(t, (pack_hook, unpack_hook), number)
        node.saved = (*node.saved[:k], packed, *node.saved[k + 1 :])


_AFTER = (
    "Saved intermediate values of the graph are freed when you call .backward() or "
    "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second "
    "time or if you need to access saved variables after calling backward."
)


def save_input(t):
    """A tensor argument, ready to be saved."""
    if not isinstance(t, Tensor):
        return t
    if modes.saved_hooks:
        return Packed(t, modes.saved_hooks[-1])
    return SavedInput(t)


def save_output(t, output_nr=0):
    if modes.saved_hooks:
        bare = make_tensor(t._layout, t._storage, t._offset)
        return Packed(bare, modes.saved_hooks[-1], output_nr)
    return SavedOutput(t, output_nr) if type(t) is Tensor else SavedOfSubclass(t, output_nr)


def unpack(item, node):
    """A saved value as a tensor, after checking that nobody wrote to its memory."""
    kind = type(item)
    if kind is SavedInput:
        t = item.tensor
        if t._storage.version != item.version:
            writer = current_grad_fn(t)
            raise RuntimeError(
                _modified(t._layout, t._storage.version, item.version, writer, t._output_nr)
            )
        return t
    if kind is SavedOutput:
        if item.storage.version != item.version:
            raise RuntimeError(
                _modified(item.layout, item.storage.version, item.version, node, item.output_nr)
            )
        t = make_tensor(item.layout, item.storage, item.offset)
        if node is not None and item.layout.dtype.category >= 2:
            t._grad_fn, t._output_nr, t._requires_grad = node, item.output_nr, True
        return t
    if kind is Packed or kind is SavedOfSubclass:
        return item.restore(node)
    return item


def _modified(layout, version, expected, node, output_nr):
    kind = f"torch.{layout.dtype.scalar_name}Tensor {list(layout.shape)}"
    origin = f", which is output {output_nr} of {node.short_name()}," if node is not None else ""
    return (
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{kind}]{origin} is at version {version}; expected version {expected} "
        "instead. Hint: " + (_HINT_ANOMALY if not modes.anomaly else _HINT_BACKTRACE)
    )


_HINT_ANOMALY = (
    "enable anomaly detection to find the operation that failed to compute its gradient, "
    "with torch.autograd.set_detect_anomaly(True)."
)
_HINT_BACKTRACE = (
    "the backtrace further above shows the operation that failed to compute its gradient. "
    "The variable in question was changed in there or anywhere later. Good luck!"
)


def init_node(node, edges, saved, outputs=1):
    node.edges, node.saved, node.outputs = edges, saved, outputs
    node.seq, node.hooks = next_sequence(), None
    if modes.anomaly:
        node.metadata["traceback_"] = traceback.format_stack()[:-1]
        if modes.node is not None:
            node.metadata["parent_"] = modes.node
    return node


def attach(node, outs):
    """Make node the history of its outputs."""
    for k, out in enumerate(outs):
        out._grad_fn, out._output_nr, out._requires_grad = node, k, True
