"""Transforms of colours and sharpness, by random amounts or with a probability."""

import numbers
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.vision.transforms import draws
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.arguments import _setup_size

Range = tuple[float, float]


class ColorJitter(nn.Module):
    """Brightness, contrast, saturation and hue changed by random factors, in random order.

    Each is a range of factors; a number v stands for (1 - v, 1 + v), for hue (-v, v).
    """

    def __init__(
        self,
        brightness: float | Range = 0,
        contrast: float | Range = 0,
        saturation: float | Range = 0,
        hue: float | Range = 0,
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
        center: float = 1,
        bound: Range = (0, float("inf")),
        clip_first_on_zero: bool = True,
    ) -> Range | None:
        if isinstance(value, numbers.Number):
            if value < 0:  # type: ignore[operator]
                raise ValueError(f"If {name} is a single number, it must be non negative.")
            amount = float(value)  # type: ignore[arg-type]
            low, high = center - amount, center + amount
            if clip_first_on_zero:
                low = max(low, 0.0)
        elif isinstance(value, (tuple, list)) and len(value) == 2:
            low, high = float(value[0]), float(value[1])
        else:
            raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
        if not bound[0] <= low <= high <= bound[1]:
            raise ValueError(f"{name} values should be between {bound}, but got {[low, high]}.")
        return None if low == high == center else (low, high)

    @staticmethod
    def get_params(
        brightness: list[float] | None,
        contrast: list[float] | None,
        saturation: list[float] | None,
        hue: list[float] | None,
    ) -> tuple[Tensor, float | None, float | None, float | None, float | None]:
        """The order of the four changes, and their factors."""
        order = flambeau.randperm(4)
        b, c, s, h = (
            None if bounds is None else draws.uniform(bounds[0], bounds[1])
            for bounds in (brightness, contrast, saturation, hue)
        )
        return order, b, c, s, h

    def forward(self, img):
        order, *factors = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        changes = F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue
        for which in order.tolist():
            if factors[which] is not None:
                img = changes[which](img, factors[which])
        return img

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(brightness={self.brightness}, contrast={self.contrast}, "
            f"saturation={self.saturation}, hue={self.hue})"
        )


class Grayscale(nn.Module):
    """An image in gray, with one channel or three equal ones."""

    def __init__(self, num_output_channels=1):
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img):
        return F.rgb_to_grayscale(img, num_output_channels=self.num_output_channels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_output_channels={self.num_output_channels})"


class RandomGrayscale(nn.Module):
    """An image in gray with as many channels as before, with probability p."""

    def __init__(self, p=0.1):
        super().__init__()
        self.p = p

    def forward(self, img):
        channels, _, _ = F.get_dimensions(img)
        if draws.happens(self.p):
            return F.rgb_to_grayscale(img, num_output_channels=channels)
        return img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class GaussianBlur(nn.Module):
    """An image blurred by a bell of random width.

    sigma: bounds of that width in pixels, or the width itself.
    """

    def __init__(self, kernel_size, sigma=(0.1, 2.0)):
        super().__init__()
        self.kernel_size = _setup_size(
            kernel_size, "Kernel size should be a tuple/list of two integers"
        )
        if not all(size > 0 and size % 2 for size in self.kernel_size):
            raise ValueError("Kernel size value should be an odd and positive number.")
        one = isinstance(sigma, numbers.Number)
        bounds = (sigma, sigma) if one else sigma
        if not (isinstance(bounds, Sequence) and len(bounds) == 2):
            raise ValueError("sigma should be a single number or a list/tuple with length 2.")
        if not 0.0 < bounds[0] <= bounds[1]:
            raise ValueError(
                "If sigma is a single number, it must be positive."
                if one
                else "sigma values should be positive and of the form (min, max)."
            )
        self.sigma = bounds

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """The width of the bell."""
        return draws.uniform(sigma_min, sigma_max)

    def forward(self, img: Tensor) -> Tensor:
        sigma = self.get_params(self.sigma[0], self.sigma[1])
        return F.gaussian_blur(img, self.kernel_size, [sigma, sigma])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kernel_size={self.kernel_size}, sigma={self.sigma})"


class _WithProbability(nn.Module):
    """One change with probability p; `_argument` names what it wants to know."""

    p: float
    _argument: str | None = None

    def _change(self, img):
        raise NotImplementedError

    def forward(self, img):
        return self._change(img) if draws.chance() < self.p else img

    def __repr__(self) -> str:
        name = self._argument
        first = "" if name is None else f"{name}={getattr(self, name)},"
        return f"{type(self).__name__}({first}p={self.p})"


class RandomInvert(_WithProbability):
    """The negative, with probability p."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def _change(self, img):
        return F.invert(img)


class RandomPosterize(_WithProbability):
    """So many bits of each value, with probability p."""

    _argument = "bits"

    def __init__(self, bits, p=0.5):
        super().__init__()
        self.bits = bits
        self.p = p

    def _change(self, img):
        return F.posterize(img, self.bits)


class RandomSolarize(_WithProbability):
    """Values from a threshold on inverted, with probability p."""

    _argument = "threshold"

    def __init__(self, threshold, p=0.5):
        super().__init__()
        self.threshold = threshold
        self.p = p

    def _change(self, img):
        return F.solarize(img, self.threshold)


class RandomAdjustSharpness(_WithProbability):
    """Sharper or more blurred by a factor, with probability p."""

    _argument = "sharpness_factor"

    def __init__(self, sharpness_factor, p=0.5):
        super().__init__()
        self.sharpness_factor = sharpness_factor
        self.p = p

    def _change(self, img):
        return F.adjust_sharpness(img, self.sharpness_factor)


class RandomAutocontrast(_WithProbability):
    """Each channel stretched to its whole range, with probability p."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def _change(self, img):
        return F.autocontrast(img)


class RandomEqualize(_WithProbability):
    """Values respaced to occur equally often, with probability p."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def _change(self, img):
        return F.equalize(img)
