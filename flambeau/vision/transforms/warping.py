"""Transforms that turn, shear, tilt and bend an image by random amounts."""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.vision.transforms import draws
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.arguments import (
    _check_sequence_input,
    _setup_angle,
    checked_fill,
    fill_of_tensor,
)
from flambeau.vision.transforms.interpolation import InterpolationMode, mode_or_given


class RandomRotation(nn.Module):
    """An image turned by a random angle.

    degrees: bounds of the angle, counter-clockwise; one number d stands for (-d, d).
    """

    def __init__(
        self, degrees, interpolation=InterpolationMode.NEAREST, expand=False, center=None, fill=0
    ):
        super().__init__()
        self.degrees = _setup_angle(degrees, name="degrees", req_sizes=(2,))
        if center is not None:
            _check_sequence_input(center, "center", req_sizes=(2,))
        self.center = center
        self.interpolation = mode_or_given(interpolation)
        self.expand = expand
        self.fill = checked_fill(fill)

    @staticmethod
    def get_params(degrees: list[float]) -> float:
        """An angle."""
        return draws.uniform(float(degrees[0]), float(degrees[1]))

    def forward(self, img):
        fill = self.fill
        channels, _, _ = F.get_dimensions(img)
        if isinstance(img, Tensor):
            fill = fill_of_tensor(fill, channels)
        angle = self.get_params(self.degrees)
        return F.rotate(img, angle, self.interpolation, self.expand, self.center, fill)

    def __repr__(self) -> str:
        text = f"{type(self).__name__}(degrees={self.degrees}"
        text += f", interpolation={self.interpolation.value}, expand={self.expand}"
        if self.center is not None:
            text += f", center={self.center}"
        if self.fill is not None:
            text += f", fill={self.fill}"
        return text + ")"


class RandomAffine(nn.Module):
    """An image turned, moved, scaled and sheared by random amounts.

    translate: how far at most, as shares of width and height. shear: bounds in degrees along x, or
    along x and y.
    """

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
        super().__init__()
        self.degrees = _setup_angle(degrees, name="degrees", req_sizes=(2,))
        if translate is not None:
            _check_sequence_input(translate, "translate", req_sizes=(2,))
            for share in translate:
                if not 0.0 <= share <= 1.0:
                    raise ValueError("translation values should be between 0 and 1")
        self.translate = translate
        if scale is not None:
            _check_sequence_input(scale, "scale", req_sizes=(2,))
            for factor in scale:
                if factor <= 0:
                    raise ValueError("scale values should be positive")
        self.scale = scale
        self.shear: Any = shear
        if shear is not None:
            self.shear = _setup_angle(shear, name="shear", req_sizes=(2, 4))
        self.interpolation = mode_or_given(interpolation)
        self.fill = checked_fill(fill)
        if center is not None:
            _check_sequence_input(center, "center", req_sizes=(2,))
        self.center = center

    @staticmethod
    def get_params(
        degrees: list[float],
        translate: list[float] | None,
        scale_ranges: list[float] | None,
        shears: list[float] | None,
        img_size: list[int],
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Angle, translations, scale and shears."""
        angle = draws.uniform(float(degrees[0]), float(degrees[1]))
        moved = (0, 0)
        if translate is not None:
            most_x = float(translate[0] * img_size[0])
            most_y = float(translate[1] * img_size[1])
            moved = round(draws.uniform(-most_x, most_x)), round(draws.uniform(-most_y, most_y))
        scale = 1.0
        if scale_ranges is not None:
            scale = draws.uniform(scale_ranges[0], scale_ranges[1])
        shear_x = shear_y = 0.0
        if shears is not None:
            shear_x = draws.uniform(shears[0], shears[1])
            if len(shears) == 4:
                shear_y = draws.uniform(shears[2], shears[3])
        return angle, moved, scale, (shear_x, shear_y)

    def forward(self, img):
        fill = self.fill
        channels, height, width = F.get_dimensions(img)
        if isinstance(img, Tensor):
            fill = fill_of_tensor(fill, channels)
        params = self.get_params(
            self.degrees, self.translate, self.scale, self.shear, [width, height]
        )
        return F.affine(
            img, *params, interpolation=self.interpolation, fill=fill, center=self.center
        )

    def __repr__(self) -> str:
        text = f"{type(self).__name__}(degrees={self.degrees}"
        for name in ("translate", "scale", "shear"):
            if getattr(self, name) is not None:
                text += f", {name}={getattr(self, name)}"
        if self.interpolation != InterpolationMode.NEAREST:
            text += f", interpolation={self.interpolation.value}"
        if self.fill != 0:
            text += f", fill={self.fill}"
        if self.center is not None:
            text += f", center={self.center}"
        return text + ")"


class RandomPerspective(nn.Module):
    """An image seen from another side, with probability p.

    distortion_scale: how far corners move towards the middle, from 0 to 1.
    """

    def __init__(
        self, distortion_scale=0.5, p=0.5, interpolation=InterpolationMode.BILINEAR, fill=0
    ):
        super().__init__()
        self.p = p
        self.interpolation = mode_or_given(interpolation)
        self.distortion_scale = distortion_scale
        self.fill = checked_fill(fill)

    def forward(self, img):
        fill = self.fill
        channels, height, width = F.get_dimensions(img)
        if isinstance(img, Tensor):
            fill = fill_of_tensor(fill, channels)
        if not draws.happens(self.p):
            return img
        corners, moved = self.get_params(width, height, self.distortion_scale)
        return F.perspective(img, corners, moved, self.interpolation, fill)

    @staticmethod
    def get_params(
        width: int, height: int, distortion_scale: float
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The corners of the image, and where they go."""
        room_x = int(distortion_scale * (width // 2))
        room_y = int(distortion_scale * (height // 2))

        def near(low_x, low_y):
            """A point of the rectangle of possible places that starts there."""
            x = draws.integer(low_x, low_x + room_x + 1)
            return [x, draws.integer(low_y, low_y + room_y + 1)]

        right, bottom = width - room_x - 1, height - room_y - 1
        moved = [near(0, 0), near(right, 0), near(right, bottom), near(0, bottom)]
        x, y = width - 1, height - 1
        return [[0, 0], [x, 0], [x, y], [0, y]], moved

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


def _two_floats(value: Any, name: str) -> Any:
    if not isinstance(value, (float, Sequence)):
        raise TypeError(f"{name} should be float or a sequence of floats. Got {type(value)}")
    if isinstance(value, float):
        return [value, value]
    if len(value) != 2:
        raise ValueError(f"If {name} is a sequence its length should be 2. Got {len(value)}")
    for element in value:
        if not isinstance(element, float):
            raise TypeError(f"{name} should be a sequence of floats. Got {type(element)}")
    return value


class ElasticTransform(nn.Module):
    """Pixels displaced as if the image lay on rubber.

    alpha: how far, in pixels. sigma: how smooth. Both for x and y, or one number for both.
    """

    def __init__(self, alpha=50.0, sigma=5.0, interpolation=InterpolationMode.BILINEAR, fill=0):
        super().__init__()
        self.alpha = _two_floats(alpha, "alpha")
        self.sigma = _two_floats(sigma, "sigma")
        self.interpolation = mode_or_given(interpolation)
        if not isinstance(fill, (int, float, list, tuple)):
            raise TypeError(
                f"fill should be int or float or a list or tuple of them. Got {type(fill)}"
            )
        self.fill = [float(f) for f in (fill if isinstance(fill, (list, tuple)) else [fill])]

    @staticmethod
    def get_params(alpha: list[float], sigma: list[float], size: list[int]) -> Tensor:
        """A displacement of each pixel, (1, H, W, 2)."""
        moves = []
        for axis in (0, 1):
            move = flambeau.rand([1, 1, *size]) * 2 - 1
            if sigma[axis] > 0.0:
                width = int(8 * sigma[axis] + 1)
                width += width % 2 == 0
                move = F.gaussian_blur(move, [width, width], sigma)
            moves.append(move * alpha[axis] / size[1 - axis])
        return flambeau.cat(moves, 1).permute([0, 2, 3, 1])

    def forward(self, tensor: Tensor) -> Tensor:
        _, height, width = F.get_dimensions(tensor)
        displacement = self.get_params(self.alpha, self.sigma, [height, width])
        return F.elastic_transform(tensor, displacement, self.interpolation, self.fill)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(alpha={self.alpha}, sigma={self.sigma}, "
            f"interpolation={self.interpolation}, fill={self.fill})"
        )
