"""Optimizer: parameter groups, state, hooks and saving, without any mathematics.

The interface is PyTorch's, and so is the form of `state_dict`, so that saved optimizers can be
exchanged. Optimizers whose step is an update rule build on `ruled.py`.
"""

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from flambeau._dtype import float32
from flambeau._tensor import Tensor
from flambeau._tensor.questions import typename
from flambeau.autograd.node import RemovableHandle
from flambeau.interposing import offer
from flambeau.nn.parameter import forget_gradients

_before_every_step: dict = OrderedDict()
_after_every_step: dict = OrderedDict()


class _Required:
    """The default of an option that every group has to name."""

    def __repr__(self):
        return "<required parameter>"


required = _Required()

# what an optimizer is made for: tensors, groups of options, or tensors with their names
ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
_params_t = ParamsT


def _register(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """hook(optimizer, args, kwargs) runs before every step of every optimizer."""
    return _register(_before_every_step, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """hook(optimizer, args, kwargs) runs after every step of every optimizer."""
    return _register(_after_every_step, hook)


_HOOKS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def _step_name(args, kwargs):
    name = type(args[0]).__name__
    return f"Optimizer.step#{name}.step"


class Optimizer:
    """Base class of all optimizers: parameters in groups, each with its options."""

    # annotations only: the attributes are set in __init__ and __setstate__
    state: dict[Any, Any]
    param_groups: list[dict[str, Any]]
    defaults: dict[str, Any]
    _optimizer_step_pre_hooks: Any
    _optimizer_step_post_hooks: Any
    _optimizer_state_dict_pre_hooks: Any
    _optimizer_state_dict_post_hooks: Any
    _optimizer_load_state_dict_pre_hooks: Any
    _optimizer_load_state_dict_post_hooks: Any

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                "but got " + typename(params)
            )
        self.defaults = defaults
        for name in _HOOKS:
            setattr(self, name, OrderedDict())
        self._patch_step_function()
        self.state = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __getstate__(self):
        return {name: getattr(self, name) for name in ("defaults", "state", "param_groups")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in _HOOKS:
            self.__dict__.setdefault(name, OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self):
        lines = [self.__class__.__name__ + " ("]
        for number, group in enumerate(self.param_groups):
            lines += [""] * (number > 0) + [f"Parameter Group {number}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # -- groups ------------------------------------------------------------------------------
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimize more parameters, with options of their own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        names, params = _named(param_group["params"])
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for param in params:
            self._check_param(param)
        absent = {k: v for k, v in self.defaults.items() if k not in param_group}
        for name, default in absent.items():
            if default is required:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
        param_group.update(absent)
        if len({*params}) < len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information",
                stacklevel=3,
            )
        self._check_against_others(param_group)
        self.param_groups.append(param_group)

    def _check_param(self, param):
        if not isinstance(param, Tensor):
            raise TypeError(
                f"optimizer can only optimize Tensors, but one of the params is {typename(param)}"
            )
        leaf = param.is_leaf or param.retains_grad
        if not (leaf or self.defaults.get("differentiable")):
            raise ValueError("can't optimize a non-leaf Tensor")

    def _check_against_others(self, param_group):
        known = set()
        for group in self.param_groups:
            known.update(group["params"])
            if ("param_names" in param_group) != ("param_names" in group):
                kind = "with" if "param_names" in param_group else "without"
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {kind} names to the optimizer"
                )
        if not known.isdisjoint(param_group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros."""
        forget_gradients(_all_params(self.param_groups), set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of optimization; closure computes the loss anew, if the method needs it."""
        raise NotImplementedError

    # -- hooks -------------------------------------------------------------------------------
    def _patch_step_function(self):
        """Steps of every class, users' included, run the hooks."""
        cls = self.__class__
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)
            cls.step.hooked = True

    @staticmethod
    def profile_hook_step(func: Callable) -> Callable:
        """func, with the hooks of steps around it."""

        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            self = args[0]
            before, after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
            if before or _before_every_step:
                hooks = (*_before_every_step.values(), *before.values())
                args, kwargs = _run_pre_hooks(func, hooks, args, kwargs)
            found = func(*args, **kwargs)
            if after or _after_every_step:
                for hook in (*after.values(), *_after_every_step.values()):
                    hook(self, args, kwargs)
            return found

        offer(wrapper, _step_name, "optimizer")
        return wrapper

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable, prepend: bool = False
    ) -> RemovableHandle:
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable, prepend: bool = False
    ) -> RemovableHandle:
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable, prepend: bool = False
    ) -> RemovableHandle:
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable, prepend: bool = False
    ) -> RemovableHandle:
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # -- saving ------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """State and options; parameters are numbers in the order of the groups."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        for place, param in enumerate(_all_params(self.param_groups)):
            numbers.setdefault(id(param), place)
        groups = [dict(group) for group in self.param_groups]
        for group in groups:  # the numbers come last, as in files of PyTorch
            group["params"] = [numbers[id(param)] for param in group.pop("params")]
        state = {}
        for key, value in self.state.items():
            state[numbers[id(key)] if isinstance(key, Tensor) else key] = value
        found: Any = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            found = _or_else(hook(self, found), found)
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave, matching parameters by their order."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = _or_else(hook(self, state_dict), state_dict)
        saved = deepcopy(state_dict["param_groups"])
        self._check_sizes(saved)
        owners = dict(zip(_all_params(saved), _all_params(self.param_groups)))
        single = {k for s in saved if s.get("capturable") or s.get("fused") for k in s["params"]}
        state: dict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            owner = owners.get(key)
            if owner is None:
                state[key] = value
            else:
                state[owner] = _cast(owner, value, key in single)
        for old, new in zip(self.param_groups, saved):
            names = {"param_names": old["param_names"]} if "param_names" in old else {}
            new.update(names | new, params=old["params"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _check_sizes(self, saved):
        """Do saved groups fit those of this optimizer?"""
        own, theirs = ([len(g["params"]) for g in groups] for groups in (self.param_groups, saved))
        if len(own) != len(theirs):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if own != theirs:
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )


def _or_else(found, usual):
    """What a hook gave, or what there was before it."""
    return usual if found is None else found


def _all_params(groups):
    """The parameters of all groups, one after the other."""
    return chain.from_iterable(group["params"] for group in groups)


def _named(given):
    """(names, parameters) of what a group lists; no names if they are told without."""
    if isinstance(given, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of "
            "tensors in sets will change between runs. Please use a list instead."
        )
    listed = [given] if isinstance(given, Tensor) else list(given)
    named = [item for item in listed if isinstance(item, tuple)]
    if not named:
        return [], listed
    if len(named) < len(listed):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    return [name for name, _ in named], [param for _, param in named]


def _run_pre_hooks(func, hooks, args, kwargs):
    """The arguments of a step after hooks that may replace them."""
    for hook in hooks:
        changed = hook(args[0], args, kwargs)
        if changed is not None:
            if not isinstance(changed, tuple) or len(changed) != 2:
                raise RuntimeError(
                    f"{func} must return None or a tuple of (new_args, new_kwargs), but got "
                    f"{changed}."
                )
            args, kwargs = changed
    return args, kwargs


def _cast(param, value, single, key=None):
    """A saved value for a parameter: tensors get its dtype and device, counts of steps do not."""
    if isinstance(value, Tensor):
        if key == "step":
            return value.to(dtype=float32, device=param.device) if single else value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {k: _cast(param, v, single, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return type(value)(_cast(param, v, single) for v in value)
    return value
