"""Transforms of colours and sharpness, by random amounts or with a probability."""

import numbers
from collections.abc import Sequence

from flambeau import Tensor
from flambeau.vision.transforms import draws, parameters
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.arguments import JitterRule, ListedModule, kernel_pair

Range = tuple[float, float]
_CHANGES = {
    "brightness": F.adjust_brightness,
    "contrast": F.adjust_contrast,
    "saturation": F.adjust_saturation,
    "hue": F.adjust_hue,
}
_RULE = JitterRule(
    amount=numbers.Number,
    pair=(tuple, list),
    convert=float,
    malformed="{name} should be a single number or a list/tuple with length 2.",
    outside="{name} values should be between {limits}, but got {found}.",
)


class ColorJitter(ListedModule):
    """Brightness, contrast, saturation and hue changed by random factors, in random order.

    Each is a range of factors; a number v stands for (1 - v, 1 + v), for hue (-v, v).
    """

    _listed = tuple(_CHANGES)

    def __init__(
        self,
        brightness: float | Range = 0,
        contrast: float | Range = 0,
        saturation: float | Range = 0,
        hue: float | Range = 0,
    ) -> None:
        given = zip(_CHANGES, (brightness, contrast, saturation, hue))
        super().__init__(**{name: _RULE.bounds(name, value) for name, value in given})

    @staticmethod
    def get_params(
        brightness: list[float] | None,
        contrast: list[float] | None,
        saturation: list[float] | None,
        hue: list[float] | None,
    ) -> tuple[Tensor, float | None, float | None, float | None, float | None]:
        """The order of the four changes, and their factors."""
        order, (b, c, s, h) = parameters.jitter(brightness, contrast, saturation, hue)
        return order, b, c, s, h

    def forward(self, img):
        order, *factors = self.get_params(*self._facts().values())
        changes = list(zip(_CHANGES.values(), factors))
        for which in order.tolist():
            change, factor = changes[which]
            img = img if factor is None else change(img, factor)
        return img


class Grayscale(ListedModule):
    """An image in gray, with one channel or three equal ones."""

    _listed = ("num_output_channels",)

    def __init__(self, num_output_channels=1):
        super().__init__(num_output_channels=num_output_channels)

    def forward(self, img):
        return F.rgb_to_grayscale(img, self.num_output_channels)


class RandomGrayscale(ListedModule):
    """An image in gray with as many channels as before, with probability p."""

    _listed = ("p",)

    def __init__(self, p=0.1):
        super().__init__(p=p)

    def forward(self, img):
        channels = F.get_dimensions(img)[0]
        return F.rgb_to_grayscale(img, channels) if draws.happens(self.p) else img


class GaussianBlur(ListedModule):
    """An image blurred by a bell of random width.

    sigma: bounds of that width in pixels, or the width itself.
    """

    _listed = ("kernel_size", "sigma")

    def __init__(self, kernel_size, sigma=(0.1, 2.0)):
        sizes = kernel_pair(kernel_size)
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
        super().__init__(kernel_size=sizes, sigma=bounds)

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """The width of the bell."""
        return draws.uniform(sigma_min, sigma_max)

    def forward(self, img: Tensor) -> Tensor:
        widths = [self.get_params(*self.sigma)] * 2
        return F.gaussian_blur(img, self.kernel_size, widths)


class _WithProbability(ListedModule):
    """One change with probability p; `_argument` names what it wants to know."""

    p: float
    _argument: str | None = None

    def __init__(self, p=0.5, **settings):
        super().__init__(p=p, **settings)

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
        super().__init__(p)

    def _change(self, img):
        return F.invert(img)


class RandomPosterize(_WithProbability):
    """So many bits of each value, with probability p."""

    _argument = "bits"

    def __init__(self, bits, p=0.5):
        super().__init__(p, bits=bits)

    def _change(self, img):
        return F.posterize(img, self.bits)


class RandomSolarize(_WithProbability):
    """Values from a threshold on inverted, with probability p."""

    _argument = "threshold"

    def __init__(self, threshold, p=0.5):
        super().__init__(p, threshold=threshold)

    def _change(self, img):
        return F.solarize(img, self.threshold)


class RandomAdjustSharpness(_WithProbability):
    """Sharper or more blurred by a factor, with probability p."""

    _argument = "sharpness_factor"

    def __init__(self, sharpness_factor, p=0.5):
        super().__init__(p, sharpness_factor=sharpness_factor)

    def _change(self, img):
        return F.adjust_sharpness(img, self.sharpness_factor)


class RandomAutocontrast(_WithProbability):
    """Each channel stretched to its whole range, with probability p."""

    def __init__(self, p=0.5):
        super().__init__(p)

    def _change(self, img):
        return F.autocontrast(img)


class RandomEqualize(_WithProbability):
    """Values respaced to occur equally often, with probability p."""

    def __init__(self, p=0.5):
        super().__init__(p)

    def _change(self, img):
        return F.equalize(img)
