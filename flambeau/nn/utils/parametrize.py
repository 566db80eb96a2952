"""Parameters that are computed from others: symmetric, orthogonal, normalised, of low rank, ...

`register_parametrization(module, "weight", P)` moves the weight to
`module.parametrizations.weight.original` and turns `module.weight` into a property that gives
`P(original)`. The property lives on a class made for this one module, so that other modules of the
same kind are untouched. Ready-made parametrizations are in parametrizations.py.
"""

import copy
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.nn.modules.container import ModuleDict, ModuleList
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache: dict = {}  # (id of a module, name of a tensor) -> its value, inside cached()
_cache_depth = 0


@contextmanager
def cached():
    """Inside, each parametrized tensor is computed when first read and then kept."""
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if not _cache_depth:
            _cache.clear()


def _register(module, name, tensor):
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _check_same(given, found, text, names, unless):
    """A parametrization keeps dtype and shape."""
    for fact in ("dtype", "shape"):
        before, after = getattr(given, fact), getattr(found, fact)
        if before != after:
            raise ValueError(
                f"{text.format(fact)}, unless {unless} is enabled.\n"
                f"{names[0].format(fact)}: {before}\n{names[1].format(fact)}: {after}"
            )


def _check_tensor(found, text):
    if not isinstance(found, Tensor):
        raise ValueError(f"{text} {type(found).__name__}")


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and what they start from.

    The start is called `original`; if right_inverse gives several tensors, `original0`, ...
    """

    original: Tensor
    unsafe: bool

    def __init__(
        self, modules: Sequence[Module], original: Tensor | Parameter, unsafe: bool = False
    ) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = original.detach()  # dtype and shape, whatever happens to the original
        start: Any = original
        with no_grad():
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):  # that is the same as having none
                        start = module.right_inverse(start)
        if not isinstance(start, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(start).__name__}"
            )
        self.is_tensor = isinstance(start, Tensor)
        self.ntensors = 1 if self.is_tensor else len(start)
        if self.is_tensor:
            self._start_from_one(original, start)
        else:
            self._start_from_several(original, start)
        if not unsafe:
            self._check(before)

    def _start_from_one(self, original, start):
        for fact in ("dtype", "device"):
            before, after = getattr(original, fact), getattr(start, fact)
            if before != after:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {fact}.\n"
                    f"original.{fact}: {before}\nright_inverse(original).{fact}: {after}"
                )
        # the same tensor object stays, since an optimizer may hold it
        with no_grad():
            original.set_(start)
        _register(self, "original", original)

    def _start_from_several(self, original, start):
        for k, tensor in enumerate(start):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                    f"tuple...). Got element {k} of the sequence with type "
                    f"{type(tensor).__name__}."
                )
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            tensor.requires_grad_(original.requires_grad)
            _register(self, f"original{k}", tensor)

    def _check(self, before):
        found = self()
        if not isinstance(found, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(found).__name__}.")
        _check_same(
            before,
            found,
            "Registering a parametrization may not change the {} of the tensor",
            ("unparametrized {}", "parametrized {}"),
            "`unsafe` flag",
        )

    def right_inverse(self, value: Tensor) -> None:
        """Store what makes the parametrized tensor equal to value."""
        with no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                self._store_one(value)
            else:
                self._store_several(value)

    def _store_one(self, value):
        if not isinstance(value, Tensor):
            raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
        if value.dtype != self.original.dtype:
            raise ValueError(
                f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` "
                f"has dtype {self.original.dtype}"
            )
        self.original.set_(value)

    def _store_several(self, value):
        if not isinstance(value, Sequence):
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}."
            )
        if len(value) != self.ntensors:
            raise ValueError(
                "'right_inverse' must return a sequence of tensors of length "
                f"{self.ntensors}. Got a sequence of length {len(value)}."
            )
        for k, tensor in enumerate(value):
            original = getattr(self, f"original{k}")
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors or reference-type opaques. "
                    f"Got element {k} of type {type(tensor).__name__}."
                )
            if original.dtype != tensor.dtype:
                raise ValueError(
                    f"Tensor {k} returned by `right_inverse` has dtype {tensor.dtype} while "
                    f"`original{k}` has dtype {original.dtype}"
                )
            original.set_(tensor)

    def forward(self) -> Tensor:
        """The parametrized tensor."""
        first, *rest = self._modules.values()
        if self.is_tensor:
            found = first(self.original)
        else:
            found = first(*(getattr(self, f"original{k}") for k in range(self.ntensors)))
        for module in rest:
            found = module(found)
        return found


# -- the class of a parametrized module -----------------------------------------------------------


def _deepcopy(self, memo):
    """A copy by fields: __getstate__ refuses, so the usual way is closed."""
    found = memo.get(id(self))
    if found is None:
        found = memo[id(self)] = self.__new__(type(self))
        found.__dict__ = copy.deepcopy(self.__dict__, memo)
    return found


def _getstate(self):
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _own_class(module):
    """Give a module a class of its own, on which properties can be put."""
    base = type(module)
    fields: dict = {"__getstate__": _getstate}
    if not hasattr(base, "__deepcopy__"):
        fields["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), fields)


def _add_property(module, name):
    if hasattr(module, name):
        raise AssertionError(f"Module already has an attribute named '{name}'")

    def read(self):
        compute = self.parametrizations[name]
        if not _cache_depth:
            return compute()
        key = id(self), name
        found = _cache.get(key)
        if found is None:
            found = _cache[key] = compute()
        return found

    def write(self, value):
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(read, write))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make module.tensor_name a function of itself; on top of earlier ones, if there are any.

    unsafe: dtype and shape may change and are not checked.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        chain = module.parametrizations[tensor_name]
        if unsafe:
            chain.unsafe = True
        else:
            _check_next(module, tensor_name, parametrization)
        chain.append(parametrization)
        return module
    held = {**module._parameters, **module._buffers}
    if tensor_name not in held:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    chain = ParametrizationList([parametrization], held[tensor_name], unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _own_class(module)
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = chain
    _add_property(module, tensor_name)
    return module


def _check_next(module, name, parametrization):
    """May it follow those that are there? It must keep dtype and shape, both ways."""
    before = getattr(module, name)
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    _check_same(
        before,
        after,
        "Registering a parametrization may not change the {} of the tensor",
        (f"module.{name}.{{}}", f"parametrization(module.{name}).{{}}"),
        "the `unsafe` flag",
    )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    _check_tensor(back, "parametrization.right_inverse must return a tensor. Got:")
    _check_same(
        before,
        back,
        f"The tensor returned by parametrization.right_inverse must have the same {{}} as "
        f"module.{name}",
        (f"module.{name}.{{}}", "returned {}"),
        "the `unsafe` flag",
    )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Is this tensor of the module parametrized; without a name: is any?"""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make the tensor an ordinary one again: with its present value, or with the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    left = _what_remains(module, tensor_name, leave_parametrized)
    module.parametrizations.pop(tensor_name)
    delattr(type(module), tensor_name)
    _register(module, tensor_name, left)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def _what_remains(module, name, parametrized):
    """The tensor without its parametrizations: its present value, or what it was made from."""
    chain = module.parametrizations[name]
    if not (parametrized or chain.is_tensor):
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    if not parametrized:
        return chain.original
    value = getattr(module, name)
    if not chain.is_tensor:
        return Parameter(value) if value.requires_grad else value
    with no_grad():  # the same tensor as before, since an optimizer may know it
        return chain.original.set_(value)


def type_before_parametrizations(module: Module) -> type:
    """The class the module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give to_module the parametrizations (and originals) of from_module."""
    if not is_parametrized(from_module):
        return to_module
    for name in from_module.parametrizations if tensor_name is None else [tensor_name]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):  # a new one may have tensors the old one had not
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        for tensor in list(source._parameters) + list(source._buffers):
            setattr(target, tensor, getattr(source, tensor))
    return to_module
