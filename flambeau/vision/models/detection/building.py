"""Model functions of detectors: weights of the whole or of the backbone, and what they decide.

`detector` is to these models what `builder` is to classifiers: it adds `weights=`,
`weights_backbone=` and the rest of their arguments to a function that only builds.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

from flambeau import nn

from ...ops.misc import FrozenBatchNorm2d
from .._api import WeightsEnum, accept_positions, accept_pretrained, register_model
from ._utils import overwrite_eps
from .backbone_utils import _validate_trainable_layers

__all__ = ["Start", "detector"]


@dataclass(frozen=True, slots=True)
class Start:
    """What a model function is told of its backbone."""

    weights: WeightsEnum | None
    trained: bool  # is the backbone, or the whole, going to have learned weights?
    layers: int  # how many of its parts learn

    @property
    def norm(self) -> type[nn.Module]:
        """Statistics of few images are poor: what has learned keeps its own."""
        return FrozenBatchNorm2d if self.trained else nn.BatchNorm2d


def detector(
    weights: type[WeightsEnum],
    weights_backbone: type[WeightsEnum],
    *,
    backbone: str | None = "IMAGENET1K_V1",
    old_backbone: str = "IMAGENET1K_V1",
    layers: tuple[int, int] = (3, 5),
    exact: tuple[str, ...] = (),
    counts: dict[str, tuple[str, int]] | None = None,
    more: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Turn `function(start, num_classes, ..., **kwargs)` into a model function of torchvision.

    Args:
        weights, weights_backbone: the classes of weights of the whole and of its backbone.
        backbone: the weights that a backbone has unless others are asked for.
        old_backbone: what `pretrained_backbone=True` means.
        layers: how many parts of the backbone learn, by default and at most.
        exact: members whose frozen normalizations learned without an epsilon.
        counts: arguments that weights decide: where in their facts to count, and the default.
        more: names of further arguments.
    """
    counts = {"num_classes": ("categories", 91)} if counts is None else counts
    names = ("weights", "progress", *counts, "weights_backbone", "trainable_backbone_layers", *more)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        title = function.__name__

        @functools.wraps(function)
        def build(*args: Any, **kwargs: Any) -> Any:
            accept_positions(args, kwargs, names)
            accept_pretrained(title, weights, "COCO_V1", kwargs)
            accept_pretrained(
                title, weights_backbone, old_backbone, kwargs,
                "weights_backbone", "pretrained_backbone",
            )  # fmt: skip
            chosen = weights.verify(kwargs.pop("weights", None))
            below = weights_backbone.verify(kwargs.pop("weights_backbone", backbone))
            progress = kwargs.pop("progress", True)
            if chosen is not None:
                below = None
            numbers = {
                name: _decided(name, kwargs.pop(name, None), chosen, *fact)
                for name, fact in counts.items()
            }
            trained = chosen is not None or below is not None
            wanted = kwargs.pop("trainable_backbone_layers", None)
            learning = _validate_trainable_layers(trained, wanted, layers[1], layers[0])
            model = function(Start(below, trained, learning), **numbers, **kwargs)
            if chosen is not None:
                model.load_state_dict(chosen.get_state_dict(progress=progress, check_hash=True))
                if chosen.name in exact:
                    overwrite_eps(model, 0.0)
            return model

        known = dict.fromkeys(counts, (None, int | None)) | {
            "weights": (None, Optional[weights]),  # noqa: UP045
            "progress": (True, bool),
            "weights_backbone": (
                backbone and weights_backbone[backbone],
                Optional[weights_backbone],  # noqa: UP045
            ),
            "trainable_backbone_layers": (None, int | None),
        }
        build.__signature__ = _signature(function, names, known)  # type: ignore[attr-defined]
        return register_model()(build)

    return decorate


def _decided(name, given, chosen, fact, default):
    if chosen is None:
        return default if given is None else given
    expected = len(chosen.meta[fact])
    if given is not None and given != expected:
        raise ValueError(
            f"The parameter '{name}' expected value {expected} but got {given} instead."
        )
    return expected


def _signature(function, names, known):
    only, own = inspect.Parameter.KEYWORD_ONLY, inspect.signature(function)
    parameters = []
    for name in names:
        default, annotation = known.get(name, (None, Any))
        parameters.append(inspect.Parameter(name, only, default=default, annotation=annotation))
    parameters.append(inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD, annotation=Any))
    return inspect.Signature(parameters, return_annotation=own.return_annotation)
