"""Transform: what all transforms of v2 share.

A transform takes a sample of any form, draws its numbers once (`make_params`), and gives each
input it knows to `transform`; everything else stays as it is. Of plain tensors only the first is
taken for an image, and only if nothing else in the sample is one.
"""

import enum
import warnings
from collections.abc import Callable
from typing import Any

from flambeau import Tensor, nn
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import draws
from flambeau.vision.transforms.conversion import is_pil_image
from flambeau.vision.transforms.v2.arguments import fill_for
from flambeau.vision.transforms.v2.functional.dispatch import _get_kernel, is_pure_tensor
from flambeau.vision.transforms.v2.samples import check_type, flatten, has_any, rebuild


class Transform(nn.Module):
    """The class that transforms of one's own inherit from.

    `transform(inpt, params)` changes one input; `make_params(flat_inputs)` may draw what all inputs
    of a sample share; `check_inputs(flat_inputs)` may refuse a sample.
    """

    _transformed_types: tuple[Any, ...] = (Tensor, is_pil_image)
    _v1_transform_cls: Any = None

    def __init_subclass__(cls) -> None:
        get_params = getattr(cls._v1_transform_cls, "get_params", None)
        if get_params is not None:
            cls.get_params = staticmethod(get_params)  # type: ignore[attr-defined]

    def __init__(self) -> None:
        super().__init__()

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Raise if this cannot be done with such a sample."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """What is the same for all inputs of a sample."""
        return {}

    def _call_kernel(self, functional: Callable, inpt: Any, *args: Any, **kwargs: Any) -> Any:
        run = _get_kernel(functional, type(inpt), allow_passthrough=True)
        return run(inpt, *args, **kwargs)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input, changed."""
        raise NotImplementedError

    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) > 1 else inputs[0]
        flat = flatten(sample)
        self.check_inputs(flat)
        return self._transformed(sample, flat)

    def _transformed(self, sample: Any, flat: list[Any]) -> Any:
        wanted = self._needs_transform_list(flat)
        params = self.make_params([inpt for inpt, is_wanted in zip(flat, wanted) if is_wanted])
        out = [self.transform(i, params) if is_wanted else i for i, is_wanted in zip(flat, wanted)]
        return rebuild(sample, out)

    def _needs_transform_list(self, flat_inputs: list[Any]) -> list[bool]:
        # a plain tensor beside an image is a label or the like
        takes_plain = not has_any(flat_inputs, tv_tensors.Image, tv_tensors.Video, is_pil_image)
        wanted = []
        for inpt in flat_inputs:
            is_wanted = check_type(inpt, self._transformed_types)
            if is_wanted and is_pure_tensor(inpt):
                is_wanted, takes_plain = takes_plain, False
            wanted.append(is_wanted)
        return wanted

    def extra_repr(self) -> str:
        shown = (bool, int, float, str, tuple, list, enum.Enum)
        return ", ".join(
            f"{name}={value}"
            for name, value in self.__dict__.items()
            if not name.startswith("_") and name != "training" and isinstance(value, shown)
        )


def check_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")


class _RandomApplyTransform(Transform):
    """A transform that happens with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        check_probability(p)
        super().__init__()
        self.p = p

    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) > 1 else inputs[0]
        flat = flatten(sample)
        self.check_inputs(flat)
        return self._transformed(sample, flat) if draws.happens(self.p) else sample


class _Calling(Transform):
    """Calls one function of `functional` with each input.

    Its arguments are the settings that `_first` (by position) and `_named` name, what was drawn,
    and a fill that suits the input where the transform keeps fills.
    """

    _function: Callable[..., Any]
    _first: tuple[str, ...] = ()
    _named: tuple[str, ...] = ()

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        kept = self.__dict__
        arguments = {name: kept[name] for name in self._named}
        if "_fill" in kept:
            arguments["fill"] = fill_for(kept["_fill"], type(inpt))
        first = [kept[name] for name in self._first] if self._first else ()
        return self._call_kernel(self._function, inpt, *first, **arguments, **params)


class _WithoutBoxes(Transform):
    """Says that boxes, points and masks stay as they are."""

    def _call_kernel(self, functional: Any, inpt: Any, *args: Any, **kwargs: Any) -> Any:
        passed = (tv_tensors.BoundingBoxes, tv_tensors.KeyPoints, tv_tensors.Mask)
        if isinstance(inpt, passed):
            warnings.warn(
                f"{type(self).__name__}() is currently passing through inputs of type "
                f"tv_tensors.{type(inpt).__name__}. This will likely change in the future.",
                stacklevel=2,
            )
        return super()._call_kernel(functional, inpt, *args, **kwargs)
