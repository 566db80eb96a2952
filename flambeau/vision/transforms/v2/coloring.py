"""Transforms of v2 on colours, by random amounts or with a probability."""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau.vision.transforms import coloring as v1
from flambeau.vision.transforms import draws
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2.samples import query_chw
from flambeau.vision.transforms.v2.transform import Transform, _RandomApplyTransform


class Grayscale(Transform):
    """In gray, with one channel or three equal ones."""

    _v1_transform_cls = v1.Grayscale

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(
            F.rgb_to_grayscale, inpt, num_output_channels=self.num_output_channels
        )


class RandomGrayscale(_RandomApplyTransform):
    """In gray with as many channels as before, with probability p."""

    _v1_transform_cls = v1.RandomGrayscale

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p=p)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"num_output_channels": query_chw(flat_inputs)[0]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.rgb_to_grayscale, inpt, **params)


class RGB(Transform):
    """Gray pictures with three equal channels."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.grayscale_to_rgb, inpt)


_CHANGES = {
    "brightness_factor": F.adjust_brightness,
    "contrast_factor": F.adjust_contrast,
    "saturation_factor": F.adjust_saturation,
    "hue_factor": F.adjust_hue,
}


class ColorJitter(Transform):
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
        self.brightness = self._check_input(brightness, "brightness")
        self.contrast = self._check_input(contrast, "contrast")
        self.saturation = self._check_input(saturation, "saturation")
        self.hue = self._check_input(
            hue, "hue", center=0, bound=(-0.5, 0.5), clip_first_on_zero=False
        )

    def _check_input(
        self,
        value: Any,
        name: str,
        center: float = 1.0,
        bound: tuple[float, float] = (0, float("inf")),
        clip_first_on_zero: bool = True,
    ) -> tuple[float, float] | None:
        if value is None:
            return None
        if isinstance(value, (int, float)):
            if value < 0:
                raise ValueError(f"If {name} is a single number, it must be non negative.")
            value = [center - value, center + value]
            if clip_first_on_zero:
                value[0] = max(value[0], 0.0)
        elif isinstance(value, Sequence) and len(value) == 2:
            value = [float(v) for v in value]
        else:
            raise TypeError(
                f"{name}={value} should be a single number or a sequence with length 2."
            )
        if not bound[0] <= value[0] <= value[1] <= bound[1]:
            raise ValueError(
                f"{name} values should be between {bound} and increasing, but got {value}."
            )
        if value[0] == value[1] == center:
            return None
        return float(value[0]), float(value[1])

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        order = flambeau.randperm(4).tolist()
        bounds = (self.brightness, self.contrast, self.saturation, self.hue)
        factors = [None if b is None else draws.uniform(b[0], b[1]) for b in bounds]
        names = list(_CHANGES)
        return {names[i]: factors[i] for i in order if factors[i] is not None}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        for name, factor in params.items():
            inpt = self._call_kernel(_CHANGES[name], inpt, **{name: factor})
        return inpt


class RandomChannelPermutation(Transform):
    """Channels in random order."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"permutation": flambeau.randperm(query_chw(flat_inputs)[0])}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.permute_channels, inpt, **params)


class RandomPhotometricDistort(Transform):
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
        self.brightness = brightness
        self.contrast = contrast
        self.hue = hue
        self.saturation = saturation
        self.p = p

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        channels, *_ = query_chw(flat_inputs)
        bounds = (self.brightness, self.contrast, self.saturation, self.hue)
        drawn = [draws.uniform(b[0], b[1]) if draws.happens(self.p) else None for b in bounds]
        brightness, contrast, saturation, hue = zip(_CHANGES, drawn)
        # contrast is changed before the two others, or after them
        middle = [contrast, saturation, hue]
        if not draws.happens(0.5):
            middle = [saturation, hue, contrast]
        changes = [(name, factor) for name, factor in (brightness, *middle) if factor is not None]
        order = flambeau.randperm(channels) if draws.happens(self.p) else None
        return {"changes": changes, "permutation": order}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        for name, factor in params["changes"]:
            inpt = self._call_kernel(_CHANGES[name], inpt, **{name: factor})
        if params["permutation"] is not None:
            inpt = self._call_kernel(F.permute_channels, inpt, permutation=params["permutation"])
        return inpt


class RandomEqualize(_RandomApplyTransform):
    """Values respaced to occur equally often, with probability p."""

    _v1_transform_cls = v1.RandomEqualize

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.equalize, inpt)


class RandomInvert(_RandomApplyTransform):
    """The negative, with probability p."""

    _v1_transform_cls = v1.RandomInvert

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.invert, inpt)


class RandomPosterize(_RandomApplyTransform):
    """So many bits of each value, with probability p."""

    _v1_transform_cls = v1.RandomPosterize

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p=p)
        self.bits = bits

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.posterize, inpt, bits=self.bits)


class RandomSolarize(_RandomApplyTransform):
    """Values from a threshold on inverted, with probability p."""

    _v1_transform_cls = v1.RandomSolarize

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p=p)
        self.threshold = threshold

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.solarize, inpt, threshold=self.threshold)


class RandomAutocontrast(_RandomApplyTransform):
    """Each channel stretched to its whole range, with probability p."""

    _v1_transform_cls = v1.RandomAutocontrast

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.autocontrast, inpt)


class RandomAdjustSharpness(_RandomApplyTransform):
    """Sharper or more blurred by a factor, with probability p."""

    _v1_transform_cls = v1.RandomAdjustSharpness

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p=p)
        self.sharpness_factor = sharpness_factor

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.adjust_sharpness, inpt, sharpness_factor=self.sharpness_factor)
