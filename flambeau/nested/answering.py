"""What both kinds of nested tensors share: facts they take from a tensor that holds values."""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.ops.table import TABLE

# functions that take every element, or every vector of the last dimensions, by itself
_LOCAL = frozenset(
    """
    linear layer_norm rms_norm dropout embedding gelu silu relu softplus hardswish leaky_relu elu
    selu celu mish hardtanh relu6 sigmoid tanh logsigmoid to float double half bfloat16 int long
    bool detach clone contiguous cpu cuda ones_like zeros_like empty_like rand_like randn_like
    full_like type_as masked_fill where alpha_dropout native_dropout native_layer_norm isclose
    nan_to_num cos sin functional_embedding functional_dropout functional_layer_norm
    """.split()
)
_OPERATORS = "__rsub__ __rtruediv__ __rpow__ __floordiv__ __eq__ __neg__ __invert__".split()


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

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int):
            return self.unbind()[index]
        if isinstance(index, tuple) and index and isinstance(index[0], int):
            return self.unbind()[index[0]][index[1:]]
        raise NotImplementedError("a nested tensor is indexed by the number of a piece")

    def select(self, dim: int, index: int) -> Tensor:
        if dim % self.dim():
            raise RuntimeError("select(): only supported for NestedTensor on dim=0")
        return self.unbind()[index]

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
        raise NotImplementedError(f"{name}: not there for nested tensors ({first.layout})")


def _first(args: tuple, kwargs: dict) -> Any:
    for value in (*args, *kwargs.values()):
        if isinstance(value, Nested):
            return value
        if isinstance(value, (list, tuple)):
            found = _first(tuple(value), {})
            if found is not None:
                return found
    return None


def made(cls: Any) -> Any:
    """An instance whose values others hold."""
    base: Any = Tensor
    return base._make_wrapper_subclass(cls, (0,), dtype=flambeau.float32)
