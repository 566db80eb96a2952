"""Pruning: setting the least wanted weights of a module to zero, and keeping them there.

A pruned parameter `weight` is stored as `weight_orig` (still a parameter) and `weight_mask` (a
buffer); a hook multiplies them before every forward, so training moves only what was kept. A method
says which elements go: `compute_mask(t, default_mask)`. Methods applied one after another to the
same parameter share a PruningContainer, and each sees only what its predecessors left.
"""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.nn.utils.convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def _pruning_hooks(module, name=None):
    """(number, method) of the pruning hooks of a module, of all parameters or of one."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and name in (None, hook._tensor_name):
            yield number, hook


class BasePruningMethod(ABC):
    """A way to choose what is pruned. Subclasses define PRUNING_TYPE and compute_mask."""

    _tensor_name: Any
    PRUNING_TYPE: str

    def __call__(self, module, inputs):
        """The hook: the parameter is made anew before every forward."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """A mask of the shape of t: zero where default_mask is zero or the method prunes."""

    def apply_mask(self, module):
        """The pruned parameter: original times mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prune one parameter of a module, on top of earlier prunings of it."""
        method = _joined_with_earlier(module, name, cls(*args, **kwargs))
        tensor = getattr(module, name)
        scores = _scores(importance_scores, tensor, f"parameter {name} of {module}")
        again = isinstance(method, PruningContainer)
        if again:
            so_far = getattr(module, name + "_mask").detach().clone()
        else:
            so_far = flambeau.ones_like(tensor)
        mask = method.compute_mask(scores, default_mask=so_far)  # may refuse: nothing is done yet
        if not again:
            module._parameters.pop(name)
            module.register_parameter(name + "_orig", tensor)
        module.register_buffer(name + "_mask", mask)
        method(module, None)
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """A pruned copy of a tensor, whatever module it may belong to."""
        scores = _scores(importance_scores, t, "tensor t")
        so_far = flambeau.ones_like(t) if default_mask is None else default_mask
        return self.compute_mask(scores, default_mask=so_far) * t

    def remove(self, module):
        """Make pruning permanent: the parameter gets its old name and its zeros for good."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _scores(given, tensor, what):
    """By what elements are judged: by themselves unless told otherwise."""
    if given is not None and given.shape != tensor.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {given.shape} vs "
            f"{tensor.shape}"
        )
    return tensor if given is None else given


def _joined_with_earlier(module, name, method):
    """The method, or a container of it and what pruned the same parameter before."""
    method._tensor_name = name
    earlier = list(_pruning_hooks(module, name))
    if len(earlier) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
            "Use a PruningContainer."
        )
    for number, before in earlier:
        del module._forward_pre_hooks[number]
        container = before if isinstance(before, PruningContainer) else PruningContainer(before)
        container.add_pruning_method(method)
        return container
    return method


class PruningContainer(BasePruningMethod):
    """Prunings of one parameter, in the order in which they were asked for."""

    def __init__(self, *args):
        self._pruning_methods: tuple = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """One more; it must act on the same parameter."""
        if method is not None:
            if not isinstance(method, BasePruningMethod):
                raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
            if self._tensor_name != method._tensor_name:
                raise ValueError(
                    "Can only add pruning methods acting on the parameter named "
                    f"'{self._tensor_name}' to PruningContainer {self}. Found "
                    f"'{method._tensor_name}'"
                )
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def compute_mask(self, t, default_mask):
        """The mask after the latest method, which sees only what is not pruned yet."""
        method = self._pruning_methods[-1]
        left = _part_left(method, t, default_mask)
        mask = default_mask.to(dtype=t.dtype)
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(mask.dtype)
        return mask


def _part_left(method, t, mask):
    """An index of the elements that the method may still choose from."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    everything = [slice(None)] * t.dim()
    if method.PRUNING_TYPE == "structured":
        if not hasattr(method, "dim"):
            raise AttributeError(
                'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` '
                "defined."
            )
        dim = method.dim if method.dim >= 0 else method.dim + t.dim()
        if dim < 0:
            raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
        everything[dim] = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
    elif method.PRUNING_TYPE != "global":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    return tuple(everything)


# -- how much -------------------------------------------------------------------------------------


def _check_amount(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if amount < 0 or (not whole and not amount <= 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _count(amount, size):
    """How many of size: a number is meant as it is, a fraction is rounded."""
    count = amount if isinstance(amount, numbers.Integral) else round(amount * size)
    if count > size:
        raise ValueError(
            f"amount={count} should be smaller than the number of parameters to prune={size}"
        )
    return count


def _channels(t, dim):
    """The number of channels along dim of a tensor that has channels."""
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.dim()} dims"
        )
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
    return t.shape[dim]


def _channel_mask(t, dim, kept, default_mask):
    """Ones in the kept channels, where default_mask has ones too."""
    mask = flambeau.zeros_like(t)
    place: list = [slice(None)] * t.dim()
    place[dim] = kept
    mask[tuple(place)] = 1
    mask *= default_mask.to(dtype=mask.dtype)
    return mask


# -- the methods ----------------------------------------------------------------------------------


class Identity(BasePruningMethod):
    """Prunes nothing, but stores original and mask as all methods do."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask

    @classmethod
    def apply(cls, module, name):
        return super().apply(module, name)


class _Elements(BasePruningMethod):
    """Elements anywhere. amount: a fraction, or a number of elements."""

    PRUNING_TYPE = "unstructured"
    _largest: bool  # whether the first ones in the ranking go, or the last

    def __init__(self, amount):
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t, default_mask):
        count = _count(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=flambeau.contiguous_format)
        if count:
            chosen = self._ranked(t).view(-1).topk(count, largest=self._largest)
            mask.view(-1)[chosen.indices] = 0
        return mask


class RandomUnstructured(_Elements):
    """Elements anywhere, at random."""

    _largest = True

    def _ranked(self, t):
        return flambeau.rand_like(t)

    @classmethod
    def apply(cls, module, name, amount):
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Elements):
    """The elements of smallest magnitude (or score), wherever they are."""

    _largest = False

    def _ranked(self, t):
        return t.abs()

    @classmethod
    def apply(cls, module, name, amount, importance_scores=None):
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Whole channels along dim, at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t, default_mask):
        size = _channels(t, self.dim)
        count = _count(self.amount, size)
        if not count:
            return default_mask
        drawn = flambeau.rand(size)
        limit = flambeau.kthvalue(drawn, k=count).values
        return _channel_mask(t, self.dim, drawn > limit, default_mask)

    @classmethod
    def apply(cls, module, name, amount, dim=-1):
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """The channels along dim whose n-norm is smallest."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, n, dim=-1):
        _check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t, default_mask):
        size = _channels(t, self.dim)
        count = _count(self.amount, size)
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        norms = flambeau.norm(t, p=self.n, dim=others)
        if not count:
            return default_mask
        kept = flambeau.topk(norms, k=size - count).indices
        return _channel_mask(t, self.dim, kept, default_mask)

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """What a given mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module, name, mask):
        return super().apply(module, name, mask=mask)


# -- functions that prune a module and give it back -----------------------------------------------


def _pruned(module, method, *args, **kwargs):
    method.apply(module, *args, **kwargs)
    return module


def identity(module, name):
    """Store a parameter as original and mask without pruning anything."""
    return _pruned(module, Identity, name)


def random_unstructured(module, name, amount):
    """Prune random elements of a parameter."""
    return _pruned(module, RandomUnstructured, name, amount)


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prune the elements of smallest magnitude of a parameter."""
    return _pruned(module, L1Unstructured, name, amount, importance_scores)


def random_structured(module, name, amount, dim):
    """Prune random channels of a parameter."""
    return _pruned(module, RandomStructured, name, amount, dim)


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prune the channels of smallest n-norm of a parameter."""
    return _pruned(module, LnStructured, name, amount, n, dim, importance_scores)


def custom_from_mask(module, name, mask):
    """Prune a parameter where mask is zero."""
    return _pruned(module, CustomFromMask, name, mask)


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prune several parameters, given as (module, name), as if they were one vector."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    values = [getattr(module, name) for module, name in parameters]
    pairs = list(zip(parameters, values, strict=True))
    all_scores = parameters_to_vector([scores.get(place, value) for place, value in pairs])
    all_masks = parameters_to_vector(
        [getattr(m, name + "_mask", flambeau.ones_like(value)) for (m, name), value in pairs]
    )
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "temp"
    mask = PruningContainer(method).compute_mask(all_scores, all_masks)
    start = 0
    for (module, name), value in pairs:
        end = start + value.numel()
        custom_from_mask(module, name, mask=mask[start:end].view_as(value))
        start = end


def remove(module, name):
    """Make the pruning of a parameter permanent; original, mask and hook go."""
    for number, method in _pruning_hooks(module, name):
        method.remove(module)
        del module._forward_pre_hooks[number]
        return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module) -> bool:
    """Is a parameter of the module, or of one below it, pruned?"""
    return any(True for below in module.modules() for _ in _pruning_hooks(below))
