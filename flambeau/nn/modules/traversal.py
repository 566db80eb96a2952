"""Walking a module: its parameters, buffers and modules, and functions applied to all of them."""

import warnings
from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Any

from flambeau import __future__ as future
from flambeau import _device
from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.eager import creation
from flambeau.eager.signatures import Overloads
from flambeau.nn.parameter import Parameter, forget_gradients, is_lazy
from flambeau.utils.swapping import swap_tensors


def _parameters_of(module):
    return module._parameters.items()


def _buffers_of(module):
    return module._buffers.items()


def _convert(parameters, name, fn):
    """A parameter and its gradient hold fn of what they held, or others take their places.

    There are others where torch.__future__ says so, and where strided memory cannot hold it.
    """
    param = parameters[name]
    grad, value = param.grad, fn(param)
    if future.is_asked() or value.layout is not param.layout:
        new = Parameter(value, param.requires_grad)
        if grad is not None:
            new.grad = fn(grad).requires_grad_(grad.requires_grad)
        if future.get_swap_module_params_on_conversion():
            swap_tensors(param, new)
        else:
            parameters[name] = new
        return
    param.data = value
    if grad is not None:
        param._grad = fn(grad).requires_grad_(grad.requires_grad)


def _to_floats(name, doc):
    """A method that converts all floating point numbers by the tensors' method of that name."""

    def convert(self) -> Any:
        change = methodcaller(name)
        return self._apply(lambda t: change(t) if t.is_floating_point() else t)

    convert.__name__, convert.__qualname__, convert.__doc__ = name, f"Module.{name}", doc
    return convert


class Traversal:
    """Iteration, conversion, modes."""

    _modules: dict[str, Any]
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    training: bool

    # -- iteration ---------------------------------------------------------------------------
    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        """(path, member) of this module and those below it."""
        places: Any = ((prefix, self),)
        if recurse:
            places = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        done: set = set()
        for path, module in places:
            start = path + "." if path else ""
            for name, member in get_members_fn(module):
                if member is None or member in done:
                    continue
                if remove_duplicate:
                    done.add(member)
                yield start + name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once."""
        return (found for _, found in self.named_parameters(recurse=recurse))

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their paths."""
        return self._named_members(_parameters_of, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        return (found for _, found in self.named_buffers(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their paths."""
        return self._named_members(_buffers_of, prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Any]:
        """The modules right below this one, each once."""
        return (module for _, module in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The modules right below this one, with their names."""
        done = set()
        for name, module in self._modules.items():
            if module is not None and module not in done:
                done.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """This module and all below it."""
        return (found for _, found in self.named_modules(remove_duplicate=remove_duplicate))

    def named_modules(
        self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and all below it, with their paths."""
        if memo is None:
            memo = set()
        elif self in memo:
            return
        yield prefix, self
        if remove_duplicate:
            memo.add(self)
        if not self._modules:
            return
        start = prefix + "." if prefix else ""
        for name, child in list(self._modules.items()):  # a program may change them meanwhile
            if child is not None:
                yield from child.named_modules(memo, start + name, remove_duplicate)

    def apply(self, fn: Callable[[Any], None]) -> Any:
        """fn(module) for every module, from the leaves up."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # -- modes -------------------------------------------------------------------------------
    def train(self, mode: bool = True) -> Any:
        """Training mode for all modules, or evaluation."""
        if mode is not True and mode is not False:
            raise ValueError("training mode is expected to be boolean")
        for child in self.children():
            child.train(mode)
        self.training = mode
        return self

    def eval(self) -> Any:
        """Evaluation mode for all modules."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Whether parameters get gradients."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros."""
        if getattr(self, "_is_replica", False):
            warnings.warn(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no effect. "
                "The parameters are copied (in a differentiable manner) from the original module. "
                "This means they are not leaf nodes in autograd and so don't accumulate gradients. "
                "If you need gradients in your forward method, consider using autograd.grad "
                "instead.",
                stacklevel=2,
            )
        forget_gradients(self.parameters(), set_to_none)

    def share_memory(self) -> Any:
        """Move parameters and buffers to memory that processes share."""
        for tensor in (*self.parameters(), *self.buffers()):
            if is_lazy(tensor):
                tensor.share_memory_()  # which says why it cannot
        return self._apply(methodcaller("share_memory_"))

    # -- conversion --------------------------------------------------------------------------
    def _apply(self, fn, recurse=True):
        """Replace what parameters and buffers hold by fn of it; they stay the same objects."""
        for child in self.children() if recurse else ():
            child._apply(fn)
        with no_grad():
            for name, param in self._parameters.items():
                if is_lazy(param):
                    _convert_lazy(param, fn)
                elif param is not None:
                    _convert(self._parameters, name, fn)
        for name, buffer in self._buffers.items():
            if is_lazy(buffer):
                _convert_lazy(buffer, fn)
            elif buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """to(device), to(dtype), to(tensor), to(memory_format=...): convert all of the module."""
        device, dtype, blocking, format = _parse_to(*args, **kwargs)
        _check_new_dtype(dtype)

        def convert(t):
            new = dtype if t.is_floating_point() or t.is_complex() else None
            given = {} if format is None or t.dim() not in (4, 5) else {"memory_format": format}
            try:
                return t.to(device=device, dtype=new, non_blocking=blocking, **given)
            except NotImplementedError as error:
                if str(error) != "Cannot copy out of meta tensor; no data!":
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different device."
                ) from None

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Move to a device without copying what is there."""
        return self._apply(lambda t: creation.empty_like(t, device=device), recurse)

    def cpu(self) -> Any:
        """Move to the processor's memory."""
        return self._apply(methodcaller("cpu"))

    def cuda(self, device: Any = None) -> Any:
        """Move to a GPU."""
        return self._apply(methodcaller("cuda", device))

    def type(self, dst_type: Any) -> Any:
        """Convert all parameters and buffers to one dtype."""
        return self._apply(methodcaller("type", dst_type))

    float = _to_floats("float", "Floating point numbers of 32 bits.")
    double = _to_floats("double", "Floating point numbers of 64 bits.")
    half = _to_floats("half", "Floating point numbers of 16 bits.")
    bfloat16 = _to_floats("bfloat16", "Floating point numbers of 16 bits with the range of 32.")


def _check_new_dtype(dtype):
    """What learns is no whole number; complex numbers come with a warning."""
    if dtype is None or dtype.is_floating_point:
        return
    if not dtype.is_complex:
        raise TypeError(
            "nn.Module.to only accepts floating point or complex dtypes, but got desired "
            f"dtype={dtype}"
        )
    warnings.warn(
        "Complex modules are a new feature under active development whose design may change, and "
        "some modules might not work as expected when using complex tensors as parameters or "
        "buffers. Please file an issue at "
        "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a complex module "
        "does not work as expected.",
        stacklevel=3,
    )


def _convert_lazy(tensor, fn):
    """A tensor without a shape only takes on another dtype and device."""
    layout = tensor._layout
    probe = creation.empty(0, dtype=layout.dtype, device=layout.device)
    tensor._layout = fn(probe)._layout


_TO = Overloads(
    "to",
    [
        f"{what}, bool non_blocking=False, bool copy=False, *, memory_format? memory_format=None"
        for what in ("device? device=None, dtype? dtype=None", "dtype dtype", "Tensor tensor")
    ],
)


def _parse_to(*args, **kwargs):
    """(device, dtype, non_blocking, memory_format) of a call of Module.to."""
    which, given = _TO.choose(args, kwargs)
    if given["copy"]:
        raise RuntimeError(".to() does not accept copy argument")
    device, dtype = given.get("device"), given.get("dtype")
    if which == 2:
        device, dtype = given["tensor"].device, given["tensor"].dtype
    elif device is not None:
        device = _device.resolve(device)
    return device, dtype, given["non_blocking"], given["memory_format"]
