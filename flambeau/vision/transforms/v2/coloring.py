"""Transforms of v2 on colours, by random amounts or with a probability."""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau.vision.transforms import coloring as v1
from flambeau.vision.transforms import draws, parameters
from flambeau.vision.transforms.arguments import JitterRule, keep
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2.samples import query_chw
from flambeau.vision.transforms.v2.transform import (
    Transform,
    _Calling,
    _RandomApplyTransform,
)


class Grayscale(_Calling):
    """In gray, with one channel or three equal ones."""

    _v1_transform_cls = v1.Grayscale
    _function = staticmethod(F.rgb_to_grayscale)
    _named = ("num_output_channels",)

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels


class RandomGrayscale(_Calling, _RandomApplyTransform):
    """In gray with as many channels as before, with probability p."""

    _v1_transform_cls = v1.RandomGrayscale
    _function = staticmethod(F.rgb_to_grayscale)

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p=p)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"num_output_channels": query_chw(flat_inputs)[0]}


class RGB(_Calling):
    """Gray pictures with three equal channels."""

    _function = staticmethod(F.grayscale_to_rgb)


_CHANGES = {
    "brightness_factor": F.adjust_brightness,
    "contrast_factor": F.adjust_contrast,
    "saturation_factor": F.adjust_saturation,
    "hue_factor": F.adjust_hue,
}
_RULE = JitterRule(
    amount=(int, float),
    pair=Sequence,
    convert=lambda amount: amount,
    malformed="{name}={given} should be a single number or a sequence with length 2.",
    outside="{name} values should be between {limits} and increasing, but got {found}.",
)


class _Jitter(Transform):
    """Changes colours by factors, in the order in which `make_params` lists them."""

    brightness: Any
    contrast: Any
    saturation: Any
    hue: Any

    def _bounds(self):
        return [getattr(self, name.removesuffix("_factor")) for name in _CHANGES]

    def _changed(self, inpt: Any, factors: dict[str, float]) -> Any:
        for name, factor in factors.items():
            inpt = self._call_kernel(_CHANGES[name], inpt, **{name: factor})
        return inpt


class ColorJitter(_Jitter):
    """Brightness, contrast, saturation and hue changed by random factors, in random order."""

    _v1_transform_cls = v1.ColorJitter

    def __init__(
        self,
        brightness: Any = None,
        contrast: Any = None,
        saturation: Any = None,
        hue: Any = None,
    ) -> None:
        super().__init__()
        given = dict(brightness=brightness, contrast=contrast, saturation=saturation, hue=hue)
        for name, value in given.items():
            setattr(self, name, None if value is None else _RULE.bounds(name, value))

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        order, factors = parameters.jitter(*self._bounds())
        listed = list(zip(_CHANGES, factors))
        return dict(listed[i] for i in order.tolist() if factors[i] is not None)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._changed(inpt, params)


class RandomChannelPermutation(_Calling):
    """Channels in random order."""

    _function = staticmethod(F.permute_channels)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"permutation": flambeau.randperm(query_chw(flat_inputs)[0])}


class RandomPhotometricDistort(_Jitter):
    """Each change of colours with probability p ("SSD: Single Shot MultiBox Detector")."""

    def __init__(
        self,
        brightness: tuple[float, float] = (0.875, 1.125),
        contrast: tuple[float, float] = (0.5, 1.5),
        saturation: tuple[float, float] = (0.5, 1.5),
        hue: tuple[float, float] = (-0.05, 0.05),
        p: float = 0.5,
    ) -> None:
        super().__init__()
        keep(self, brightness=brightness, contrast=contrast, hue=hue, saturation=saturation, p=p)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        channels, *_ = query_chw(flat_inputs)
        drawn = [
            draws.uniform(bounds[0], bounds[1]) if draws.happens(self.p) else None
            for bounds in self._bounds()
        ]
        brightness, contrast, *others = zip(_CHANGES, drawn)
        # contrast is changed before the two others, or after them
        middle = [contrast, *others] if draws.happens(0.5) else [*others, contrast]
        changes = {name: factor for name, factor in (brightness, *middle) if factor is not None}
        order = flambeau.randperm(channels) if draws.happens(self.p) else None
        return {"changes": changes, "permutation": order}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        inpt = self._changed(inpt, params["changes"])
        order = params["permutation"]
        if order is None:
            return inpt
        return self._call_kernel(F.permute_channels, inpt, permutation=order)


# -- one change, with a probability ----------------------------------------------------------------


class _Change(_Calling, _RandomApplyTransform):
    """One function with probability p."""


class RandomEqualize(_Change):
    """Values respaced to occur equally often, with probability p."""

    _v1_transform_cls = v1.RandomEqualize
    _function = staticmethod(F.equalize)


class RandomInvert(_Change):
    """The negative, with probability p."""

    _v1_transform_cls = v1.RandomInvert
    _function = staticmethod(F.invert)


class RandomPosterize(_Change):
    """So many bits of each value, with probability p."""

    _v1_transform_cls = v1.RandomPosterize
    _function = staticmethod(F.posterize)
    _named = ("bits",)

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p=p)
        self.bits = bits


class RandomSolarize(_Change):
    """Values from a threshold on inverted, with probability p."""

    _v1_transform_cls = v1.RandomSolarize
    _function = staticmethod(F.solarize)
    _named = ("threshold",)

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p=p)
        self.threshold = threshold


class RandomAutocontrast(_Change):
    """Each channel stretched to its whole range, with probability p."""

    _v1_transform_cls = v1.RandomAutocontrast
    _function = staticmethod(F.autocontrast)


class RandomAdjustSharpness(_Change):
    """Sharper or more blurred by a factor, with probability p."""

    _v1_transform_cls = v1.RandomAdjustSharpness
    _function = staticmethod(F.adjust_sharpness)
    _named = ("sharpness_factor",)

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p=p)
        self.sharpness_factor = sharpness_factor
