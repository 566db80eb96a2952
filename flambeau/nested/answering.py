"""What both kinds of nested tensors share: facts they take from a tensor that holds values."""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._sparse.tensors import recorded
from flambeau.ops.table import TABLE

# functions that take every element, or every vector of the last dimensions, by itself
_LOCAL = frozenset(
    """
    linear layer_norm rms_norm dropout embedding gelu silu relu softplus hardswish leaky_relu elu
    selu celu mish hardtanh relu6 sigmoid tanh logsigmoid to float double half bfloat16 int long
    bool detach clone contiguous cpu cuda ones_like zeros_like empty_like rand_like randn_like
    full_like randint_like type_as masked_fill where alpha_dropout native_dropout native_layer_norm
    isclose nan_to_num cos sin square zero copy
    functional_embedding functional_dropout functional_layer_norm
    """.split()
)
_OPERATORS = """
    __rsub__ __rtruediv__ __rpow__ __rmod__ __floordiv__ __eq__ __neg__ __invert__ __iadd__ __isub__
    __imul__ __itruediv__ __ipow__ __and__ __or__ __xor__ __rand__ __ror__ __rxor__ __iand__ __ior__
    __ixor__ __lshift__ __rshift__
""".split()


def is_local(name: str) -> bool:
    """Does a function of this name work element by element, or vector by vector?"""
    bare = name.rstrip("_") if not name.startswith("__") else name
    row = TABLE.get(bare)
    return bare in _LOCAL or name in _OPERATORS or (row is not None and row.kind == "pointwise")


class Nested(Tensor):
    """Facts and methods that follow from the values."""

    is_nested = property(lambda self: True)

    def _held(self) -> Tensor:
        """A tensor of the same dtype, device and history."""
        raise NotImplementedError

    dtype = property(lambda self: self._held().dtype)
    device = property(lambda self: self._held().device)
    requires_grad = property(lambda self: self._held().requires_grad)
    grad_fn = property(lambda self: self._held().grad_fn)
    is_leaf = property(lambda self: self._held().is_leaf)
    is_cuda = property(lambda self: self._held().is_cuda)
    is_sparse = property(lambda self: False)

    def element_size(self) -> int:
        return self._held().element_size()

    def is_floating_point(self) -> bool:
        return self._held().is_floating_point()

    def tolist(self) -> Any:
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got NestedTensor")

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def is_complex(self) -> bool:
        return self._held().is_complex()

    itemsize = property(lambda self: self.element_size())
    nbytes = property(lambda self: self.numel() * self.element_size())
    mT = property(lambda self: self.transpose(-2, -1))  # noqa: N815

    def storage_offset(self) -> int:
        return 0

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def is_shared(self) -> bool:
        return False

    def is_same_size(self, other: Any) -> bool:
        sizes = [[tuple(t.shape) for t in nested.unbind()] for nested in (self, other)]
        return sizes[0] == sizes[1]

    def answer_is_same_size(self, func: Any, args: tuple, kwargs: dict) -> bool:
        return args[0].is_same_size(args[1])

    def type(self, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        return self._held().type() if dtype is None else self.to(dtype)

    def item(self) -> Any:
        if self.numel() != 1:
            raise RuntimeError(
                f"a Tensor with {self.numel()} elements cannot be converted to Scalar"
            )
        return self.values().item()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.item())

    def pin_memory(self, device: Any = None) -> Any:
        raise RuntimeError("Cannot access accelerator device when none is available.")

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __getitem__(self, index: Any) -> Any:
        keys = index if isinstance(index, tuple) else (index,)
        if keys and keys[0] is None:
            raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
        if keys and isinstance(keys[0], int):
            piece = self.select(0, keys[0])
            return piece[keys[1:]] if keys[1:] else piece
        if not all(isinstance(k, (int, slice)) or k is Ellipsis for k in keys):
            raise NotImplementedError("a nested tensor is indexed by numbers and ranges")
        at = [k is Ellipsis for k in keys]
        if any(at):
            rest = self.dim() - len(keys) + 1
            place = at.index(True)
            keys = (*keys[:place], *[slice(None)] * rest, *keys[place + 1 :])
        found: Any = self
        dim = 0
        for key in keys:
            if isinstance(key, int):
                found = found.select(dim, key)
            else:
                found = found if key == slice(None) else found._range(dim, key)
                dim += 1
        return found

    def answer___get__(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """A fact that follows from the values, such as is_quantized."""
        found = func(self._held())
        if isinstance(found, Tensor):  # such as T
            raise NotImplementedError("this attribute is not supported for nested tensors")
        return found

    def _range(self, dim: int, key: slice) -> Any:
        raise NotImplementedError(f"slice(): not supported for nested tensors on dim={dim}")

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        first = _first(args, kwargs)
        own = getattr(type(first), "answer_" + name.removeprefix("functional_"), None)
        if own is not None:
            return own(first, func, args, kwargs)
        if is_local(name):
            return first.local(func, name, args, kwargs)
        if first.layout is flambeau.jagged:
            raise NotImplementedError(f"aten.{name}.default")
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'NestedTensorCPU' backend."
        )


def _first(args: tuple, kwargs: dict) -> Any:
    for value in (*args, *kwargs.values()):
        if isinstance(value, Nested):
            return value
        if isinstance(value, (list, tuple)):
            found = _first(tuple(value), {})
            if found is not None:
                return found
    return None


def called(t: Tensor, name: str) -> Tensor:
    """The same tensor, with a node of that name."""
    if not t.requires_grad:
        return t
    return recorded(name, t.detach(), (t,), lambda g, t: g)


def made(cls: Any) -> Any:
    """An instance whose values others hold."""
    base: Any = Tensor
    return base._make_wrapper_subclass(cls, (0,), dtype=flambeau.float32)
