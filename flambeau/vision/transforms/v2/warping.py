"""Transforms of v2 that turn, shear, tilt and bend by random amounts."""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau.vision.transforms import draws
from flambeau.vision.transforms import warping as v1
from flambeau.vision.transforms.arguments import _check_sequence_input, _setup_angle
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2.arguments import fill_for, fills_by_type, two_floats
from flambeau.vision.transforms.v2.samples import query_size
from flambeau.vision.transforms.v2.transform import Transform, _RandomApplyTransform
from flambeau.vision.transforms.warps import _get_perspective_coeffs


class RandomRotation(Transform):
    """Turned by a random angle, counter-clockwise."""

    _v1_transform_cls = v1.RandomRotation

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.degrees = _setup_angle(degrees, name="degrees", req_sizes=(2,))
        self.interpolation = interpolation
        self.expand = expand
        self.fill = fill
        self._fill = fills_by_type(fill)
        if center is not None:
            _check_sequence_input(center, "center", req_sizes=(2,))
        self.center = center

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"angle": draws.uniform(self.degrees[0], self.degrees[1])}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(
            F.rotate,
            inpt,
            **params,
            interpolation=self.interpolation,
            expand=self.expand,
            center=self.center,
            fill=fill_for(self._fill, type(inpt)),
        )


class RandomAffine(Transform):
    """Turned, moved, scaled and sheared by random amounts."""

    _v1_transform_cls = v1.RandomAffine

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
        checked = v1.RandomAffine(degrees, translate, scale, shear, center=center)
        self.degrees = checked.degrees
        self.translate: Any = translate
        self.scale: Any = scale
        self.shear = checked.shear
        self.interpolation = interpolation
        self.fill = fill
        self._fill = fills_by_type(fill)
        self.center = center

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        numbers = v1.RandomAffine.get_params(
            self.degrees, self.translate, self.scale, self.shear, [width, height]
        )
        return dict(zip(("angle", "translate", "scale", "shear"), numbers))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(
            F.affine,
            inpt,
            **params,
            interpolation=self.interpolation,
            fill=fill_for(self._fill, type(inpt)),
            center=self.center,
        )


class RandomPerspective(_RandomApplyTransform):
    """Seen from another side, with probability p."""

    _v1_transform_cls = v1.RandomPerspective

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
        self.distortion_scale = distortion_scale
        self.interpolation = interpolation
        self.fill = fill
        self._fill = fills_by_type(fill)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        corners, moved = v1.RandomPerspective.get_params(width, height, self.distortion_scale)
        return {"coefficients": _get_perspective_coeffs(corners, moved)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(
            F.perspective,
            inpt,
            startpoints=None,
            endpoints=None,
            fill=fill_for(self._fill, type(inpt)),
            interpolation=self.interpolation,
            **params,
        )


class ElasticTransform(Transform):
    """Displaced as if it lay on rubber."""

    _v1_transform_cls = v1.ElasticTransform

    def __init__(
        self, alpha: Any = 50.0, sigma: Any = 5.0, interpolation: Any = "bilinear", fill: Any = 0
    ) -> None:
        super().__init__()
        self.alpha = two_floats(alpha, "alpha")
        self.sigma = two_floats(sigma, "sigma")
        self.interpolation = interpolation
        self.fill = fill
        self._fill = fills_by_type(fill)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        moves = []
        for alpha, sigma, length in zip(self.alpha, self.sigma, (width, height)):
            move = flambeau.rand(1, 1, height, width) * 2 - 1
            if sigma > 0.0:
                size = int(8 * sigma + 1)
                size += size % 2 == 0
                move = F.gaussian_blur(move, [size, size], list(self.sigma))
            moves.append(move * alpha / length)
        return {"displacement": flambeau.cat(moves, 1).permute([0, 2, 3, 1])}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        fill = fill_for(self._fill, type(inpt))
        return self._call_kernel(
            F.elastic, inpt, **params, fill=fill, interpolation=self.interpolation
        )
