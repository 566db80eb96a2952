"""How a function of v2 finds what to do with an input: by its kind.

`operation` makes a public function; `kernel` registers what it does with tensors of given kinds,
whose results are wrapped again like the input, `pil_kernel` what it does with PIL images. Kinds are
looked up along the classes of the input. What is registered for plain tensors does not serve those
that say what they are: a transform leaves them alone, a function refuses them.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from flambeau import Tensor
from flambeau.vision import tv_tensors
from flambeau.vision.tv_tensors import TVTensor

_kernels: dict[Callable, dict[Any, Callable]] = {}
_PIL = "PIL.Image.Image"  # by name, so that Pillow is not imported for it
_BUILTIN = {
    kind
    for kind in vars(tv_tensors).values()
    if isinstance(kind, type) and issubclass(kind, TVTensor)
}


def is_pure_tensor(inpt: Any) -> bool:
    """Whether an input is a tensor that does not say what it is."""
    return isinstance(inpt, Tensor) and not isinstance(inpt, TVTensor)


def operation(signature: Callable) -> Any:
    """A public function with this signature, which does what is registered for its input."""

    names = signature.__code__.co_varnames[1 : signature.__code__.co_argcount]

    @functools.wraps(signature)
    def call(inpt, *args, **kwargs):
        if args:  # kernels may have them in another order
            if len(args) > len(names) or not kwargs.keys().isdisjoint(names[: len(args)]):
                inspect.signature(signature).bind(inpt, *args, **kwargs)
            kwargs.update(zip(names, args))
        return _get_kernel(call, type(inpt))(inpt, **kwargs)

    _kernels[call] = {}
    return call


def _rewrapping(function: Callable) -> Callable:
    @functools.wraps(function)
    def run(inpt, *args, **kwargs):
        out = function(inpt.as_subclass(Tensor), *args, **kwargs)
        if isinstance(out, tuple):
            return tuple(tv_tensors.wrap(part, like=inpt) for part in out)
        return tv_tensors.wrap(out, like=inpt)

    return run


def kernel(functional: Callable, *kinds: Any, wrapped: bool = True) -> Callable:
    """Register what a function does with inputs of these kinds.

    wrapped: whether to take wrappings off before, and put them on again after.
    """

    def register(function: Callable) -> Callable:
        for kind in kinds:
            again = wrapped and isinstance(kind, type) and issubclass(kind, TVTensor)
            _kernels[functional][kind] = _rewrapping(function) if again else function
        return function

    return register


def pil_kernel(functional: Callable) -> Callable:
    """Register what a function does with PIL images."""
    return kernel(functional, _PIL)


def register_kernel(functional: Any, tv_tensor_cls: type) -> Callable:
    """Register what a function does with tensors of a class of one's own.

    Example:
        >>> from flambeau.vision import tv_tensors
        >>> from flambeau.vision.transforms import v2
        >>> class Depth(tv_tensors.TVTensor):
        ...     pass
        >>> @v2.functional.register_kernel("hflip", Depth)
        ... def flip_depth(depth):
        ...     return tv_tensors.wrap(depth.flip(-1), like=depth)
        >>> v2.functional.hflip(flambeau.arange(3).as_subclass(Depth))
        Depth([2, 1, 0])
    """
    if isinstance(functional, str):
        from flambeau.vision.transforms.v2 import functional as functions

        found = getattr(functions, functional, None)
        if found is None:
            raise ValueError(
                f"Could not find functional with name '{functional}' in "
                "torchvision.transforms.v2.functional."
            )
        functional = found
    elif functional not in _kernels:
        raise ValueError(
            "Kernels can only be registered on functionals from the "
            f"torchvision.transforms.v2.functional namespace, but got {functional}."
        )
    if not (isinstance(tv_tensor_cls, type) and issubclass(tv_tensor_cls, TVTensor)):
        raise ValueError(
            "Kernels can only be registered for subclasses of torchvision.tv_tensors.TVTensor, "
            f"but got {tv_tensor_cls}."
        )
    if tv_tensor_cls in _BUILTIN:
        raise ValueError(
            "Kernels cannot be registered for the builtin tv_tensor classes, "
            f"but got {tv_tensor_cls}"
        )
    if tv_tensor_cls in _kernels[functional]:
        raise ValueError(
            f"Functional {functional} already has a kernel registered for type {tv_tensor_cls}."
        )
    return kernel(functional, tv_tensor_cls, wrapped=False)


def _left_alone(inpt: Any, *args: Any, **kwargs: Any) -> Any:
    return inpt


def _get_kernel(functional: Any, input_type: type, *, allow_passthrough: bool = False) -> Callable:
    registry = _kernels.get(functional)
    if not registry:
        raise ValueError(f"No kernel registered for functional {functional.__name__}.")
    found = registry.get(input_type)
    if found is not None:
        return found
    for kind in input_type.__mro__:
        if kind in registry:
            return registry[kind]
        if kind is TVTensor:
            break
        if kind.__name__ == "Image" and kind.__module__ == "PIL.Image" and _PIL in registry:
            return registry[_PIL]
    if allow_passthrough:
        return _left_alone
    raise TypeError(
        f"Functional F.{functional.__name__} supports inputs of type {registry.keys()}, "
        f"but got {input_type} instead."
    )
