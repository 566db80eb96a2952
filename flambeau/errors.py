"""Exceptions and the phrasing of messages.

Messages open with PyTorch's own first sentence, because people search for it and programs match on
it; a hint of ours may follow after a semicolon or on a new line. What many ops say in the same
words is here.
"""

import warnings

LARGEST = 2**63 - 1  # number that native code holds


class OutOfMemoryError(RuntimeError):
    """No memory block of the wanted size could be had."""


class AcceleratorError(RuntimeError):
    """A GPU, or its driver, refused something."""


class _LinAlgError(RuntimeError):
    """A matrix that cannot be inverted, factored or decomposed (torch.linalg.LinAlgError)."""


LinAlgError = _LinAlgError


class _Said:
    """Warnings that a program hears only once, unless it wants to hear them always."""

    always = False
    texts: set = set()


def warn_once(text, stacklevel=4):
    """Warn the first time, as PyTorch does for deprecated functions."""
    if _Said.always or text not in _Said.texts:
        _Said.texts.add(text)
        warnings.warn(text, UserWarning, stacklevel=stacklevel)


def warn_always(mode):
    """Let warnings that come once come every time, or not."""
    _Said.always = mode


def warns_always():
    return _Said.always


def kind_name(value):
    """The name of a value's type as C code knows it: NumPy's carry their package."""
    kind = type(value)
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


def dimension_out_of_range(dim, ndim):
    low, high = (-ndim, ndim - 1) if ndim else (-1, 0)
    return IndexError(
        f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})"
    )


def no_dimensions(dim):
    return IndexError(f"Dimension specified as {dim} but tensor has no dimensions")


def negative_dimension(sizes):
    first = next(s for s in sizes if s < 0)
    return RuntimeError(f"Trying to create tensor with negative dimension {first}: {list(sizes)}")


def storage_overflow(sizes, strides=None):
    """More bytes than there are addresses."""
    where = "" if strides is None else f" and strides={list(strides)}"
    return RuntimeError(f"Storage size calculation overflowed with sizes={list(sizes)}{where}")


def not_broadcastable(a, b, dim):
    return RuntimeError(
        f"The size of tensor a ({a}) must match the size of tensor b ({b}) "
        f"at non-singleton dimension {dim}"
    )


def complex_order(name):
    return RuntimeError(f"{name}: Expected a non-complex scalar as the order of norm.")


def not_differentiable(function, argument):
    return RuntimeError(
        f"The function '{function}' is not differentiable with respect to argument '{argument}'. "
        "This input cannot have requires_grad True."
    )


def combination(name, given, forms, **named):
    """No overload takes these arguments; forms: those there are."""
    kinds = [kind_name(x) for x in given] + [f"{k}={kind_name(v)}" for k, v in named.items()]
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({', '.join(kinds)}), but "
        "expected one of:\n" + "".join(f" * ({form})\n" for form in forms)
    )


def not_exact_out(wanted, got, text=True):
    """For ops that do not cast into out=; some have words of their own for it."""
    if callable(text):
        return RuntimeError(text(wanted, got))
    if text is True:
        text = "Expected out tensor to have dtype {wanted.cpp_name}, but got {got.cpp_name} instead"
    return RuntimeError(text.format(wanted=wanted, got=got))


def cannot_cast(source, target):
    return RuntimeError(
        f"result type {source.scalar_name} can't be cast to the desired output type "
        f"{target.scalar_name}"
    )


def out_requires_grad(name):
    return RuntimeError(
        f"{name}(): functions with out=... arguments don't support automatic differentiation, but "
        "one of the arguments requires grad."
    )


def not_implemented(op, dtype):
    return NotImplementedError(f"\"{op}\" not implemented for '{dtype.scalar_name}'")


def different_devices(first, other):
    """Tensors that an op wants on one device are on two."""
    for a, b in ((first, other), (other, first)):
        if a.type == "meta":
            return RuntimeError(f"Tensor on device {a} is not on the expected device {b}!")
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{first} and {other}!"
    )


class RefusedBlock:
    """What a `with` of something that is not here gets: its error on the way in."""

    def __init__(self, error):
        self.error = error

    def __enter__(self):
        raise self.error

    def __exit__(self, *error): ...
