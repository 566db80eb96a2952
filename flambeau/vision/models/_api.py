"""What weights are, and the register of models by name: torchvision.models._api.

A model function is written once, as `@builder(Some_Weights)` over a function that only builds; the
decorator adds `weights=`, `progress=` and the old `pretrained=`, loads what they ask for and
registers the name. Which weights were published is the table in `published`.
"""

import fnmatch
import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import ModuleType
from typing import Any, Optional, TypeVar, get_args

from flambeau import nn
from flambeau.hub import load_state_dict_from_url

__all__ = [
    "Weights",
    "WeightsEnum",
    "get_model",
    "get_model_builder",
    "get_model_weights",
    "get_weight",
    "list_models",
]

BUILTIN_MODELS: dict[str, Callable[..., nn.Module]] = {}
Builder = TypeVar("Builder", bound=Callable[..., Any])


@dataclass
class Weights:
    """Published weights: their address, how images are prepared for them, what is known of them."""

    url: str
    transforms: Callable[..., Any]
    meta: dict[str, Any]

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Weights):
            return NotImplemented
        # a copy of a partial is not equal to it, yet an enum must know its copied values again
        return (self.url, self.meta, _parts(self.transforms)) == (
            other.url,
            other.meta,
            _parts(other.transforms),
        )


def _parts(function: Callable[..., Any]) -> Any:
    if isinstance(function, partial):
        return function.func, function.args, function.keywords
    return function


class WeightsEnum(Enum):
    """All weights of one model; each value is a `Weights`."""

    @classmethod
    def verify(cls, obj: Any) -> Any:
        """A member of this class from itself, from its name, or None from None."""
        if isinstance(obj, str):
            return cls[obj.replace(cls.__name__ + ".", "")]
        if obj is not None and not isinstance(obj, cls):
            raise TypeError(
                f"Invalid Weight class provided; expected {cls.__name__} but received "
                f"{obj.__class__.__name__}."
            )
        return obj

    def get_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The tensors, downloaded unless the file is already in `hub.get_dir()/checkpoints`."""
        return load_state_dict_from_url(self.url, *args, **kwargs)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}.{self._name_}"

    @property
    def url(self) -> str:
        return self.value.url

    @property
    def transforms(self) -> Callable[..., Any]:
        return self.value.transforms

    @property
    def meta(self) -> dict[str, Any]:
        return self.value.meta


# -- names -----------------------------------------------------------------------------------------


def register_model(name: str | None = None) -> Callable[[Builder], Builder]:
    """A decorator that makes a model function known to `get_model` and `list_models`."""

    def register(function: Builder) -> Builder:
        key = function.__name__ if name is None else name
        if key in BUILTIN_MODELS:
            raise ValueError(f"An entry is already registered under the name '{key}'.")
        BUILTIN_MODELS[key] = function
        return function

    return register


def list_models(
    module: ModuleType | None = None,
    include: Iterable[str] | str | None = None,
    exclude: Iterable[str] | str | None = None,
) -> list[str]:
    """Names of all models: those that fit one of the patterns in `include` and none in `exclude`.

    Example:
        >>> from flambeau.vision.models import list_models
        >>> list_models(include="resnet*", exclude=["*101", "*152"])
        ['resnet18', 'resnet34', 'resnet50']
    """
    names = {
        name
        for name, function in BUILTIN_MODELS.items()
        if module is None or function.__module__.rsplit(".", 1)[0] == module.__name__
    }
    chosen = _fitting(names, include) if include else names
    return sorted(chosen - _fitting(names, exclude or ()))


def _fitting(names: set[str], patterns: Iterable[str] | str) -> set[str]:
    patterns = [patterns] if isinstance(patterns, str) else patterns
    return {name for pattern in patterns for name in fnmatch.filter(names, pattern)}


def get_model_builder(name: str) -> Callable[..., nn.Module]:
    """The function behind the name of a model."""
    name = name.lower()
    if name not in BUILTIN_MODELS:
        raise ValueError(f"Unknown model {name}")
    return BUILTIN_MODELS[name]


def get_model(name: str, **config: Any) -> nn.Module:
    """Build a model by name; the rest are arguments of its function."""
    return get_model_builder(name)(**config)


def get_model_weights(name: Callable[..., Any] | str) -> type[WeightsEnum]:
    """The class of weights that belongs to a model."""
    parameters = inspect.signature(
        get_model_builder(name) if isinstance(name, str) else name
    ).parameters
    if "weights" not in parameters:
        raise ValueError("The method is missing the 'weights' argument.")
    annotation = parameters["weights"].annotation
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, WeightsEnum):
            return kind
    raise ValueError(
        "The WeightsEnum class for the specific method couldn't be retrieved. Make sure the typing "
        "info is correct."
    )


def get_weight(name: str) -> WeightsEnum:
    """Weights by their full name, such as "ResNet50_Weights.IMAGENET1K_V1"."""
    kind, _, member = name.partition(".")
    if not member or "." in member:
        raise ValueError(f"Invalid weight name provided: '{name}'.")
    models = importlib.import_module(__package__)
    folders = (m for m in vars(models).values() if inspect.ismodule(m) and hasattr(m, "__path__"))
    for module in (models, *folders):
        found = getattr(module, kind, None)
        if isinstance(found, type) and issubclass(found, WeightsEnum):
            return found[member]
    raise ValueError(f"The weight enum '{kind}' for the specific method couldn't be retrieved.")


# -- model functions -------------------------------------------------------------------------------


def builder(
    weights: type[WeightsEnum],
    pretrained: str | None = "IMAGENET1K_V1",
    decide: Callable[[WeightsEnum, dict[str, Any]], None] | None = None,
    finish: Callable[[nn.Module, dict[str, Any]], None] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Turn `function(**kwargs) -> model` into a model function of torchvision.

    Args:
        weights: the class of weights that fit.
        pretrained: the member that `pretrained=True` means, if any.
        decide: called with weights and arguments; sets the arguments that the weights decide.
        finish: called with a model whose weights were loaded, and the arguments of the call.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def build(*args: Any, **kwargs: Any) -> Any:
            accept_positions(args, kwargs, ("weights", "progress"))
            accept_pretrained(function.__name__, weights, pretrained, kwargs)
            given = dict(kwargs)
            chosen = weights.verify(kwargs.pop("weights", None))
            progress = kwargs.pop("progress", True)
            if chosen is None:
                return function(**kwargs)
            if decide is not None:
                decide(chosen, kwargs)
            if chosen.meta.get("categories") is not None:
                overwrite_named_param(kwargs, "num_classes", len(chosen.meta["categories"]))
            model = function(**kwargs)
            model.load_state_dict(chosen.get_state_dict(progress=progress, check_hash=True))
            if finish is not None:
                finish(model, given)
            return model

        build.__signature__ = _signature(function, weights)  # type: ignore[attr-defined]
        return register_model()(build)

    return decorate


def _signature(function: Callable[..., Any], weights: type[WeightsEnum]) -> inspect.Signature:
    only, rest = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD
    return inspect.Signature(
        [
            inspect.Parameter("weights", only, default=None, annotation=Optional[weights]),  # noqa: UP045
            inspect.Parameter("progress", only, default=True, annotation=bool),
            inspect.Parameter("kwargs", rest, annotation=Any),
        ],
        return_annotation=inspect.signature(function).return_annotation,
    )


def accept_positions(
    args: tuple[Any, ...], kwargs: dict[str, Any], parameters: tuple[str, ...]
) -> None:
    """Before 0.13 programs said `resnet18(False, True)`."""
    if not args:
        return
    if len(args) > len(parameters):
        raise TypeError(
            f"takes at most {len(parameters)} positional arguments but {len(args)} were given"
        )
    names = parameters[: len(args)]
    said = ", ".join(repr(name) for name in names[:-1])
    said += f"{' and ' if said else ''}{names[-1]!r}"
    warnings.warn(
        f"Using {said} as positional parameter(s) is deprecated since 0.13 and may be removed in "
        "the future. Please use keyword parameter(s) instead.",
        stacklevel=3,
    )
    kwargs.update(zip(names, args, strict=True))


def accept_pretrained(
    name: str,
    weights: type[WeightsEnum],
    member: str | None,
    kwargs: dict[str, Any],
    new: str = "weights",
    old: str = "pretrained",
) -> None:
    """`pretrained=True`, `weights=True` and `weights="legacy"` are the weights of the old days."""
    given = kwargs.get(new)
    said = new in kwargs and given is not None
    if said and (isinstance(given, WeightsEnum) or (isinstance(given, str) and given != "legacy")):
        return
    if not said and (old not in kwargs or new in kwargs):
        return
    wanted = kwargs.pop(new) if said else kwargs.pop(old)
    if wanted and member is None:
        raise ValueError(f"No weights available for model {name}")
    chosen = weights[member] if wanted and member is not None else None
    if not said:
        warnings.warn(
            f"The parameter '{old}' is deprecated since 0.13 and may be removed in the future, "
            f"please use '{new}' instead.",
            stacklevel=3,
        )
    hint = ""
    if chosen:
        hint = (
            f" You can also use `{new}={weights.__name__}.DEFAULT` to get the most up-to-date "
            "weights."
        )
    warnings.warn(
        f"Arguments other than a weight enum or `None` for '{new}' are deprecated since 0.13 and "
        "may be removed in the future. The current behavior is equivalent to passing "
        f"`{new}={chosen}`.{hint}",
        stacklevel=3,
    )
    kwargs[new] = chosen


def overwrite_named_param(kwargs: dict[str, Any], param: str, new_value: Any) -> None:
    """Set an argument that is not the caller's to choose."""
    if kwargs.setdefault(param, new_value) != new_value:
        raise ValueError(
            f"The parameter '{param}' expected value {new_value} but got {kwargs[param]} instead."
        )
