"""Transforms that turn, shear, tilt and bend an image by random amounts (see `parameters.py`)."""

from collections.abc import Sequence
from typing import Any

from flambeau import Tensor
from flambeau.vision.transforms import draws, parameters
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.arguments import (
    ListedModule,
    _setup_angle,
    affine_ranges,
    checked_fill,
    fill_of_tensor,
    pair_or_none,
)
from flambeau.vision.transforms.interpolation import InterpolationMode, mode_or_given


class _Warp(ListedModule):
    """Keeps the colour of pixels from outside, and how values between pixels are found."""

    def __init__(self, *, interpolation: Any, fill: Any, **settings: Any) -> None:
        mode = mode_or_given(interpolation)
        super().__init__(interpolation=mode, fill=checked_fill(fill), **settings)

    def _measured(self, img):
        """The colour from outside, as this kind of image takes it; width and height."""
        channels, height, width = F.get_dimensions(img)
        is_tensor = isinstance(img, Tensor)
        return fill_of_tensor(self.fill, channels) if is_tensor else self.fill, (width, height)

    def _facts(self) -> dict[str, Any]:
        facts = super()._facts()
        if "interpolation" in facts:
            facts["interpolation"] = self.interpolation.value
        optional = ("translate", "scale", "shear", "center")
        return {n: value for n, value in facts.items() if value is not None or n not in optional}


class RandomRotation(_Warp):
    """An image turned by a random angle.

    degrees: bounds of the angle, counter-clockwise; one number d stands for (-d, d).
    """

    _listed = ("degrees", "interpolation", "expand", "center", "fill")

    def __init__(
        self, degrees, interpolation=InterpolationMode.NEAREST, expand=False, center=None, fill=0
    ):
        bounds = _setup_angle(degrees, "degrees")
        center = pair_or_none(center, "center")
        super().__init__(
            degrees=bounds, expand=expand, interpolation=interpolation, fill=fill, center=center
        )

    @staticmethod
    def get_params(degrees: list[float]) -> float:
        """An angle."""
        return draws.uniform(degrees[0], degrees[1])

    def forward(self, img):
        fill, _ = self._measured(img)
        how = dict(interpolation=self.interpolation, fill=fill)
        return F.rotate(
            img, self.get_params(self.degrees), center=self.center, expand=self.expand, **how
        )


class RandomAffine(_Warp):
    """An image turned, moved, scaled and sheared by random amounts.

    translate: how far at most, as shares of width and height. shear: bounds in degrees along x, or
    along x and y.
    """

    _listed = ("degrees", "translate", "scale", "shear", "interpolation", "fill", "center")

    def __init__(
        self,
        degrees,
        translate=None,
        scale=None,
        shear=None,
        interpolation=InterpolationMode.NEAREST,
        fill=0,
        center=None,
    ):
        ranges = affine_ranges(degrees, translate, scale, shear)
        super().__init__(fill=fill, interpolation=interpolation, **ranges)
        self.center = pair_or_none(center, "center")

    @staticmethod
    def get_params(
        degrees: list[float],
        translate: list[float] | None,
        scale_ranges: list[float] | None,
        shears: list[float] | None,
        img_size: list[int],
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Angle, translations, scale and shears."""
        return parameters.affine(degrees, translate, scale_ranges, shears, img_size)

    def forward(self, img):
        fill, size = self._measured(img)
        ranges = self.degrees, self.translate, self.scale, self.shear
        drawn = self.get_params(*ranges, list(size))
        how = dict(center=self.center, fill=fill, interpolation=self.interpolation)
        return F.affine(img, *drawn, **how)

    def _facts(self) -> dict[str, Any]:
        facts = super()._facts()
        for name, usual in (("interpolation", InterpolationMode.NEAREST), ("fill", 0)):
            if getattr(self, name) == usual:
                del facts[name]
        return facts


class RandomPerspective(_Warp):
    """An image seen from another side, with probability p.

    distortion_scale: how far corners move towards the middle, from 0 to 1.
    """

    _listed = ("p",)

    def __init__(
        self, distortion_scale=0.5, p=0.5, interpolation=InterpolationMode.BILINEAR, fill=0
    ):
        super().__init__(
            p=p, fill=fill, interpolation=interpolation, distortion_scale=distortion_scale
        )

    def forward(self, img):
        fill, size = self._measured(img)
        if not draws.happens(self.p):
            return img
        points = self.get_params(*size, self.distortion_scale)
        return F.perspective(img, *points, self.interpolation, fill)

    @staticmethod
    def get_params(
        width: int, height: int, distortion_scale: float
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The corners of the image, and where they go."""
        return parameters.perspective(width, height, distortion_scale)


def _two_floats(value: Any, name: str) -> Any:
    if isinstance(value, float):
        return [value, value]
    if not isinstance(value, Sequence):
        raise TypeError(f"{name} should be float or a sequence of floats. Got {type(value)}")
    if len(value) != 2:
        raise ValueError(f"If {name} is a sequence its length should be 2. Got {len(value)}")
    strange = [type(element) for element in value if not isinstance(element, float)]
    if strange:
        raise TypeError(f"{name} should be a sequence of floats. Got {strange[0]}")
    return value


class ElasticTransform(ListedModule):
    """Pixels displaced as if the image lay on rubber.

    alpha: how far, in pixels. sigma: how smooth. Both for x and y, or one number for both.
    """

    _listed = ("alpha", "sigma", "interpolation", "fill")

    def __init__(self, alpha=50.0, sigma=5.0, interpolation=InterpolationMode.BILINEAR, fill=0):
        amounts = {"alpha": _two_floats(alpha, "alpha"), "sigma": _two_floats(sigma, "sigma")}
        mode = mode_or_given(interpolation)
        if not isinstance(fill, (int, float, list, tuple)):
            raise TypeError(
                f"fill should be int or float or a list or tuple of them. Got {type(fill)}"
            )
        colors = fill_of_tensor(fill, channels=1)
        super().__init__(interpolation=mode, fill=colors, **amounts)

    @staticmethod
    def get_params(alpha: list[float], sigma: list[float], size: list[int]) -> Tensor:
        """A displacement of each pixel, (1, H, W, 2)."""
        return parameters.displacement(alpha, sigma, size, F.gaussian_blur)

    def forward(self, tensor: Tensor) -> Tensor:
        size = F.get_dimensions(tensor)[1:]
        moves = self.get_params(self.alpha, self.sigma, size)
        return F.elastic_transform(tensor, moves, self.interpolation, self.fill)
