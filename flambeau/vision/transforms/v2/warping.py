"""Transforms of v2 that turn, shear, tilt and bend by random amounts (see `parameters.py`)."""

from collections.abc import Sequence
from typing import Any

from flambeau.vision.transforms import draws, parameters
from flambeau.vision.transforms import warping as v1
from flambeau.vision.transforms.arguments import (
    _setup_angle,
    affine_ranges,
    keep,
    pair_or_none,
)
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2.arguments import fills_by_type, two_floats
from flambeau.vision.transforms.v2.samples import query_size
from flambeau.vision.transforms.v2.transform import _Calling, _RandomApplyTransform
from flambeau.vision.transforms.warps import _get_perspective_coeffs


class RandomRotation(_Calling):
    """Turned by a random angle, counter-clockwise."""

    _v1_transform_cls = v1.RandomRotation
    _function = staticmethod(F.rotate)
    _named = ("interpolation", "expand", "center")

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        keep(self, degrees=_setup_angle(degrees, "degrees"), interpolation=interpolation)
        keep(self, expand=expand, fill=fill, _fill=fills_by_type(fill))
        self.center = pair_or_none(center, "center")

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"angle": draws.uniform(*self.degrees)}


class RandomAffine(_Calling):
    """Turned, moved, scaled and sheared by random amounts."""

    _v1_transform_cls = v1.RandomAffine
    _function = staticmethod(F.affine)
    _named = ("interpolation", "center")

    def __init__(
        self,
        degrees: Any,
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: Any = None,
        interpolation: Any = "nearest",
        fill: Any = 0,
        center: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        keep(self, **affine_ranges(degrees, translate, scale, shear), interpolation=interpolation)
        middle = pair_or_none(center, "center")
        keep(self, fill=fill, _fill=fills_by_type(fill), center=middle)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        size = query_size(flat_inputs)[::-1]
        drawn = parameters.affine(self.degrees, self.translate, self.scale, self.shear, size)
        return dict(zip(("angle", "translate", "scale", "shear"), drawn))


class RandomPerspective(_Calling, _RandomApplyTransform):
    """Seen from another side, with probability p."""

    _v1_transform_cls = v1.RandomPerspective
    _function = staticmethod(F.perspective)
    _named = ("interpolation",)

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Any = "bilinear",
        fill: Any = 0,
    ) -> None:
        super().__init__(p=p)
        if not 0 <= distortion_scale <= 1:
            raise ValueError("Argument distortion_scale value should be between 0 and 1")
        keep(self, distortion_scale=distortion_scale, interpolation=interpolation)
        keep(self, fill=fill, _fill=fills_by_type(fill))

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        points = parameters.perspective(width, height, self.distortion_scale)
        coefficients = _get_perspective_coeffs(*points)
        return {"startpoints": None, "endpoints": None, "coefficients": coefficients}


class ElasticTransform(_Calling):
    """Displaced as if it lay on rubber."""

    _v1_transform_cls = v1.ElasticTransform
    _function = staticmethod(F.elastic)
    _named = ("interpolation",)

    def __init__(
        self, alpha: Any = 50.0, sigma: Any = 5.0, interpolation: Any = "bilinear", fill: Any = 0
    ) -> None:
        super().__init__()
        keep(self, alpha=two_floats(alpha, "alpha"), sigma=two_floats(sigma, "sigma"))
        keep(self, interpolation=interpolation, fill=fill, _fill=fills_by_type(fill))

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        size = query_size(flat_inputs)
        moves = parameters.displacement(self.alpha, self.sigma, size, F.gaussian_blur)
        return {"displacement": moves}
