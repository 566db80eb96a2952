"""Activation checkpointing as a wrapper of modules, beside FSDP."""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any

from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.utils.checkpoint import checkpoint

__all__ = [
    "CheckpointImpl",
    "CheckpointWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
]

INSIDE = "_checkpoint_wrapped_module"


class CheckpointImpl(Enum):
    """By a nested backward, or by hooks on what is saved."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class CheckpointWrapper(Module):
    """A module that is run once more in backward instead of keeping what it computed.

    Names of parameters and of states are those of the module inside.
    """

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.checkpoint_impl = checkpoint_impl
        again = checkpoint_impl is CheckpointImpl.REENTRANT
        options = {} if checkpoint_fn is not None else {"use_reentrant": again}
        self.__dict__["_call"] = checkpoint_fn or checkpoint
        self.__dict__["_options"] = {**options, **checkpoint_fn_kwargs}
        self._register_state_dict_hook(_shortened)
        self.register_load_state_dict_pre_hook(_lengthened)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == INSIDE:
                raise
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        inside: Any = self._checkpoint_wrapped_module
        return inside[key]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        """Names and parameters of the module inside."""
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(INSIDE + ".", ""), p

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(self._checkpoint_wrapped_module, *args, **self._options, **kwargs)


def _shortened(module, state, prefix, about):
    for key in [k for k in state if k.startswith(f"{prefix}{INSIDE}.")]:
        state[prefix + key[len(prefix) + len(INSIDE) + 1 :]] = state.pop(key)


def _lengthened(module, state, prefix, *rest):
    inner = f"{prefix}{INSIDE}."
    for key in [k for k in state if k.startswith(prefix) and not k.startswith(inner)]:
        state[inner + key[len(prefix) :]] = state.pop(key)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """A module that keeps its inputs alone, and runs again in backward."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable | None = None,
) -> None:
    """Wrap parts of a model, in place: those that check_fn, or a policy of wrapping, chooses."""
    for part in list(model.modules()):
        for name, child in list(part.named_children()):
            if isinstance(part, CheckpointWrapper) or isinstance(child, CheckpointWrapper):
                continue
            if auto_wrap_policy is not None:
                count = sum(p.numel() for p in child.parameters())
                chosen = auto_wrap_policy(module=child, recurse=False, nonwrapped_numel=count)
            else:
                chosen = check_fn(child)
            if chosen:
                part._modules[name] = checkpoint_wrapper_fn(child)
