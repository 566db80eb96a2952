"""Tensor: its fields and what follows from them alone.

A tensor is a layout (shape, strides, dtype, device), a storage (memory) and an offset in bytes,
plus what autograd keeps. Operators and methods come from the op table (`eager/methods.py`); methods
that are not ops (item, numpy, backward, ...) are in the files beside this one.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flambeau._dtype import BY_CODE
from flambeau._layout import dense_layout
from flambeau.runtime.touching import told
from flambeau.storage import INSIDE, LENT, Storage, beginning, is_uncounted, new_storage, nothing

_new = object.__new__


class Tensor:
    """A multi-dimensional array of one dtype that remembers how it was computed."""

    # Note [Fields of a tensor] _view is None, or a View for a tensor that shares its base's memory;
    # _extra is None or an Extra with what few tensors have (hooks, retained gradients). _offset
    # counts bytes.
    __slots__ = (
        "_layout",
        "_storage",
        "_offset",
        "_requires_grad",
        "_grad",
        "_grad_fn",
        "_output_nr",
        "_view",
        "_extra",
        "__weakref__",
        "__dict__",
    )

    __hash__ = object.__hash__
    __array_priority__ = 1000

    @property
    def shape(self):
        return self._layout.shape

    @property
    def dtype(self):
        return self._layout.dtype

    @property
    def device(self):
        return self._layout.device

    @property
    def ndim(self):
        return self._layout.ndim

    @property
    def is_leaf(self):
        return not self._requires_grad or self.grad_fn is None

    @property
    def output_nr(self):
        return self._output_nr

    @property
    def itemsize(self):
        return self._layout.itemsize

    @property
    def nbytes(self):
        return self._layout.nbytes

    @property
    def _version(self):
        if is_uncounted(self._storage):
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._storage.version

    @property
    def _base(self):
        return self._view.base if self._is_view() else None

    def _is_view(self):
        return self._view is not None and not is_uncounted(self._storage)

    def data_ptr(self):
        return self._storage.pointer + self._offset if self._layout.numel else 0

    def storage_offset(self):
        return self._offset // self._layout.itemsize

    def numel(self):
        return self._layout.numel

    if TYPE_CHECKING:
        # Methods come from the op table and are attached later; this is all a type checker sees.
        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> "Tensor": ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator["Tensor"]: ...
        def __bool__(self) -> bool: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __neg__(self) -> "Tensor": ...
        def __invert__(self) -> "Tensor": ...
        def __lt__(self, other: Any) -> "Tensor": ...
        def __le__(self, other: Any) -> "Tensor": ...
        def __gt__(self, other: Any) -> "Tensor": ...
        def __ge__(self, other: Any) -> "Tensor": ...
        def __add__(self, other: Any) -> "Tensor": ...
        def __radd__(self, other: Any) -> "Tensor": ...
        def __sub__(self, other: Any) -> "Tensor": ...
        def __rsub__(self, other: Any) -> "Tensor": ...
        def __mul__(self, other: Any) -> "Tensor": ...
        def __rmul__(self, other: Any) -> "Tensor": ...
        def __truediv__(self, other: Any) -> "Tensor": ...
        def __rtruediv__(self, other: Any) -> "Tensor": ...
        def __floordiv__(self, other: Any) -> "Tensor": ...
        def __rfloordiv__(self, other: Any) -> "Tensor": ...
        def __mod__(self, other: Any) -> "Tensor": ...
        def __rmod__(self, other: Any) -> "Tensor": ...
        def __pow__(self, other: Any) -> "Tensor": ...
        def __rpow__(self, other: Any) -> "Tensor": ...
        def __matmul__(self, other: Any) -> "Tensor": ...
        def __rmatmul__(self, other: Any) -> "Tensor": ...
        def __and__(self, other: Any) -> "Tensor": ...
        def __or__(self, other: Any) -> "Tensor": ...
        def __xor__(self, other: Any) -> "Tensor": ...
        def __lshift__(self, other: Any) -> "Tensor": ...
        def __rshift__(self, other: Any) -> "Tensor": ...
        def __iadd__(self, other: Any) -> "Tensor": ...
        def __isub__(self, other: Any) -> "Tensor": ...
        def __imul__(self, other: Any) -> "Tensor": ...
        def __itruediv__(self, other: Any) -> "Tensor": ...

    nelement = numel

    def dim(self):
        return self._layout.ndim

    ndimension = dim

    def element_size(self):
        return self._layout.itemsize


class View:
    """Why a tensor is a view: its base, and the version its grad_fn was made for.

    kind: "plain", "multi" (one of several outputs of one op) or, if it was made while not
    recording, "no_grad" or "inference".
    """

    __slots__ = ("base", "version", "kind", "node_name")

    def __init__(self, base, version, kind, node_name):
        self.base, self.version, self.kind, self.node_name = base, version, kind, node_name


class Extra:
    """What few tensors have: hooks, retained gradients, the accumulator node."""

    __slots__ = ("hooks", "post_hooks", "retains_grad", "accumulator", "name")

    def __init__(self):
        self.hooks = self.post_hooks = self.accumulator = self.name = None
        self.retains_grad = False


def extra_of(t):
    if t._extra is None:
        t._extra = Extra()
    return t._extra


def make_tensor(layout, storage, offset, cls=Tensor):
    """A tensor over existing memory, unknown to autograd."""
    t = _new(cls)
    t._layout, t._storage, t._offset = layout, storage, offset
    t._requires_grad = False
    t._grad = t._grad_fn = t._view = t._extra = None
    t._output_nr = 0
    return t


# Note [Native makers] Tensors and views come from native code (codegen/templates/objects.py) as
# soon as there is some. What it leaves to Python is done here and in eager.


_MANY = 200  # tensors in plain words, after which native code is worth loading without a kernel
_plain: list | None = []
start_makers: Any = None  # loads it (eager/kernels.py)


def made_plainly():
    """A tensor is made in plain words."""
    if _plain is not None:
        _plain.append(None)
        if len(_plain) == _MANY:
            start_makers()


def new_tensor(layout):
    """A new tensor with uninitialised memory for a layout, in plain words."""
    if _plain is not None:
        made_plainly()
    pool = layout.pool
    try:
        pointer = pool.pop()
    except IndexError:
        pointer = pool.grow()
    storage = _new(Storage)
    storage.pointer, storage.give = pointer, pool.give
    storage.version, storage.nbytes = beginning.version, layout.nbytes
    return make_tensor(layout, storage, 0)


def new_view(input, layout, offset, recording, *arguments):
    """A tensor over the memory of input, without history; offset in bytes.

    None where arguments of a call would be taken for others: True or 1.0 for 1.
    """
    if arguments and are_odd(arguments):
        return None
    out = make_tensor(layout, input._storage, offset)
    above = input._view
    kind = "plain" if above is None else above.kind
    if kind == "plain" and not recording:
        kind = beginning.view_kind
    out._view = View(input if above is None else above.base, input._storage.version, kind, None)
    return out


def are_odd(arguments):
    """Is there a bool or a float, or a tuple that begins with a bool or holds a float?"""
    for a in arguments:
        if isinstance(a, (bool, float)):
            return True
        if type(a) is tuple and a:
            kinds = list(map(type, a))
            if kinds[0] is bool or float in kinds or (tuple in kinds and are_odd(a)):
                return True
    return False


def new_reduced(layout, args, kwargs):
    """A new tensor for the result of a reduction; None where a dim is odd or keepdim an int.

    Without a layout, for results of another kind, it is only True.
    """
    dim = args[0] if args else kwargs.get("dim")
    keepdim = args[1] if len(args) > 1 else kwargs.get("keepdim")
    if are_odd((dim,)) or type(keepdim) is int:
        return None
    return layout is None or new_tensor(layout)


def are_integers(items):
    """Is this a tuple of nothing but integers? True is none, though it is equal to 1."""
    return isinstance(items, tuple) and _INT.issuperset(map(type, items))


def are_even(*values):
    """Is none of these odd?"""
    return not are_odd(values)


_INT = frozenset((int,))


def not_yet(*args):
    """What native code does is not done, for want of it."""


MAKERS = {
    "_fresh": new_tensor,
    "_share": new_view,
    "_reduced": new_reduced,
    "_integers": are_integers,
    "_even": are_even,
    "_subscript": not_yet,  # (input, key, recording)
    "_reshaped": not_yet,  # (input, sizes, recording)
    "_turned": not_yet,  # (input, dim0, dim1, recording)
    "_permuted": not_yet,  # (input, dims, recording)
    "_unsqueezed": not_yet,  # (input, dim, recording)
    "_expanded": not_yet,  # (input, sizes, recording)
    "_sized": not_yet,  # (sizes, dtype, device)
    "_joined": not_yet,  # (tensors, stacked)
    "_from_array": not_yet,  # (array)
}
"""What tensors are made with; see Note [Native makers]. Those not_yet there answer None."""
ARRAYS: dict = {}
"""dtype -> NumPy's, and back; None -> the address of its table of functions; once it is met."""
NEEDED = {
    "Tensor": Tensor,
    "View": View,
    "Storage": Storage,
    "new_tensor": new_tensor,
    "plain": "plain",
    "no_grad": "no_grad",
    "inside": INSIDE,
    "beginning": beginning,
    "version": "version",
    "view_kind": "view_kind",
    "dim": "dim",
    "keepdim": "keepdim",
    "told": told,
    "lent": LENT,
    "nothing": nothing,
    "arrays": ARRAYS,
    **{code: BY_CODE[code] for code in "f32 f64 i64 bool i32 bf16 f16 u8 i8 i16".split()},
}


def empty_like_layout(layout):
    """A new tensor with uninitialised memory for a dense layout (in any order of dimensions)."""
    return _fresh(layout)


_fresh = new_tensor


def make_natively(made):
    """Let native functions make tensors and views."""
    global _fresh, _plain
    _plain = None
    MAKERS.update({f"_{name}": function for name, function in made.items()})
    _fresh = made["fresh"]


def empty_tensor(shape, dtype, device):
    """A new dense tensor with uninitialised memory."""
    return empty_like_layout(dense_layout(shape, dtype, device))


HUGE = 1 << 34  # bytes of a result that may not be had


def check_room(layout):
    """Say now that there is no memory for a result, before anything else is done for it."""
    if layout.nbytes >= HUGE:
        new_storage(layout.nbytes, layout.device)


def alias(t, layout, offset):
    """Another tensor over the same memory, unknown to autograd. offset in bytes."""
    return make_tensor(layout, t._storage, offset)
