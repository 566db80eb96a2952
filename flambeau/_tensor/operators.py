"""Methods of Tensor that compute but are not rows: reflected operators, matmul, small helpers."""

from flambeau import _dtype
from flambeau._tensor import Tensor, dlpack
from flambeau._tensor.attachment import METHODS, method
from flambeau._tensor.nested import from_numbers
from flambeau.autograd.grad_mode import modes
from flambeau.eager import creation
from flambeau.eager.binding import as_number
from flambeau.eager.copying import copy_
from flambeau.eager.launching import overwrite
from flambeau.eager.methods import function
from flambeau.eager.products import matmul_form, product
from flambeau.interposing.overriding import notice


@method
def apply_(self, f):
    """Apply a Python function to each element, in place (slow; CPU only)."""
    flat = [f(x) for x in self.flatten().tolist()]
    return copy_(self, from_numbers(flat, self.shape, self.dtype))


@method
def map_(self, other, f):
    """Combine two tensors elementwise by a Python function, in place (slow)."""
    pairs = zip(self.flatten().tolist(), other.expand(self.shape).flatten().tolist())
    return copy_(self, from_numbers([f(a, b) for a, b in pairs], self.shape, self.dtype))


@method
def fill_diagonal_(self, fill_value, wrap=False):
    """Write a value on the main diagonal."""
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    strides, shape = self._layout.strides, self.shape
    count = min(shape)
    step = sum(strides)
    self.as_strided((count,), (step,), self.storage_offset()).fill_(fill_value)
    if wrap and self.ndim == 2 and shape[0] > shape[1] + 1:
        width = shape[1]
        for start in range(width + 1, shape[0], width + 1):
            rest = min(width, shape[0] - start)
            self[start : start + rest].as_strided(
                (rest,), (step,), self.storage_offset() + start * strides[0]
            ).fill_(fill_value)
    return self


@method
def __reversed__(self):
    return self if self.ndim == 0 else self.flip(0)


@method
def const_data_ptr(self):
    return self.data_ptr()


@method
def __dlpack__(self, *, stream=-1, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule over the same memory."""
    return dlpack.export(self, stream, max_version, dl_device, copy)


@method
def __dlpack_device__(self):
    return dlpack.device_of(self)


def reflected(name, compute):
    """A method such as __rsub__: for numbers and tensors; strangers may try for themselves."""

    def operate(self, other):
        if not isinstance(other, (int, float, complex, Tensor)):
            other = as_number(other)
            if other is None:
                return NotImplemented
        return compute(self, other)

    operate.__name__ = operate.__qualname__ = name
    METHODS[name] = operate


def _tensor_of(number, like):
    return creation.tensor(number, device=like.device)


reflected("__rsub__", lambda self, x: function("rsub")(self, x))
reflected("__rtruediv__", lambda self, x: self.reciprocal() * x)
reflected("__rdiv__", lambda self, x: self.reciprocal() * x)
reflected("__rpow__", lambda self, x: function("pow")(x, self))
reflected("__rmod__", lambda self, x: function("remainder")(x, self))
reflected("__rfloordiv__", lambda self, x: function("floor_divide")(_tensor_of(x, self), self))
reflected("__rlshift__", lambda self, x: function("bitwise_left_shift")(_tensor_of(x, self), self))
reflected("__rrshift__", lambda self, x: function("bitwise_right_shift")(_tensor_of(x, self), self))


@method
def __matmul__(self, other):
    if not isinstance(other, Tensor):
        return Tensor.__matmul__(self, other) if notice(type(other)) else NotImplemented
    if not ((self._requires_grad or other._requires_grad) and modes.grad):
        found = product(self, other, matmul_form)
        if found is not None:
            return found
    return function("matmul")(self, other)


@method
def __rmatmul__(self, other):
    return function("matmul")(other, self) if isinstance(other, Tensor) else NotImplemented


@method
def __pos__(self):
    return self


@method
def sum_to_size(self, *size):
    """Sum over the dimensions in which this tensor is larger than size."""
    size = creation.size_from(size, "sum_to_size")
    shape = self.shape
    extra = len(shape) - len(size)
    if extra < 0 or any(n not in (1, s) for n, s in zip(size, shape[extra:])):
        raise RuntimeError(f"size {{{list(size)}}} is not expandable to size {{{list(shape)}}}.")
    if not size:  # also of a single bool, which then counts
        return self.sum()
    dims = list(range(extra)) + [
        extra + k for k, n in enumerate(size) if n == 1 and shape[extra + k] != 1
    ]
    if not dims:
        return self if not extra else self.reshape(size)
    summed = self.sum(dims, keepdim=True)
    return summed.view(size) if extra else summed


@method
def where(self, condition, other):
    """self where the condition holds, else other."""
    return function("where")(condition, self, other)


@method
def polygamma(self, n):
    """The n-th derivative of the digamma function."""
    return function("polygamma")(n, self)


@method
def polygamma_(self, n):
    """polygamma, in place."""
    return overwrite(self, lambda: function("polygamma")(n, self))


@method
def __invert__(self):
    if self._layout.dtype.category > _dtype.INTEGER:
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        )
    return function("bitwise_not")(self)
