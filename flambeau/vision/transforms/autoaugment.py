"""Augmentation by chains of changes: AutoAugment, RandAugment, TrivialAugmentWide, AugMix.

All four pick from the same changes (`_apply_op`); they differ in how many, how strong, and how the
results are combined. The learned policies of AutoAugment are in `autoaugment_policies.py`.
"""

import math
from enum import Enum
from functools import lru_cache
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.vision.transforms import draws
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.arguments import ListedModule, fill_of_tensor
from flambeau.vision.transforms.autoaugment_policies import POLICIES
from flambeau.vision.transforms.interpolation import InterpolationMode

__all__ = ["AutoAugmentPolicy", "AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix"]

Space = dict[str, tuple[Tensor, bool]]  # strengths, and whether they have a sign

_COLOR_CHANGES = {
    "Brightness": "adjust_brightness",
    "Color": "adjust_saturation",
    "Contrast": "adjust_contrast",
    "Sharpness": "adjust_sharpness",
}
_PLAIN_CHANGES = {"AutoContrast": "autocontrast", "Equalize": "equalize", "Invert": "invert"}
_CHANGES = {**_COLOR_CHANGES, **_PLAIN_CHANGES, "Posterize": "posterize", "Solarize": "solarize"}


def _apply_op(
    img: Any,
    op_name: str,
    magnitude: float,
    interpolation: Any,
    fill: Any,
    functions: Any = F,
) -> Any:
    """An image after one change; functions: those of v1, or of v2."""
    options: dict[str, Any] = dict(interpolation=interpolation, fill=fill)
    kind, axis = op_name[:-1], op_name[-1]
    if kind in ("Shear", "Translate"):
        amounts: list[float] = [0, 0]
        if kind == "Translate":
            amounts["XY".index(axis)] = int(magnitude)
            return functions.affine(img, 0.0, amounts, 1.0, [0.0, 0.0], **options)
        amounts["XY".index(axis)] = math.degrees(math.atan(magnitude))
        # seen from the corner, so that x' = x + magnitude * y as the papers have it
        return functions.affine(img, 0.0, [0, 0], 1.0, amounts, center=[0, 0], **options)
    if op_name == "Rotate":
        return functions.rotate(img, magnitude, **options)
    if op_name == "Identity":
        return img
    if op_name not in _CHANGES:
        raise ValueError(f"The provided operator {op_name} is not recognized.")
    change = getattr(functions, _CHANGES[op_name])
    if op_name in _PLAIN_CHANGES:
        return change(img)
    if op_name in _COLOR_CHANGES:
        return change(img, 1.0 + magnitude)
    return change(img, int(magnitude) if op_name == "Posterize" else magnitude)


def _strengths(most: float, num_bins: int) -> tuple[Tensor, bool]:
    return flambeau.linspace(0.0, most, num_bins), True


@lru_cache(maxsize=64)
def _geometric(num_bins: int, shear: float, across: float, down: float, turn: float) -> Space:
    return {
        "ShearX": _strengths(shear, num_bins),
        "ShearY": _strengths(shear, num_bins),
        "TranslateX": _strengths(across, num_bins),
        "TranslateY": _strengths(down, num_bins),
        "Rotate": _strengths(turn, num_bins),
    }


@lru_cache(maxsize=64)
def _colorful(num_bins: int, most: float) -> Space:
    return {name: _strengths(most, num_bins) for name in _COLOR_CHANGES}


@lru_cache(maxsize=64)
def _coarse(num_bins: int, most_bits: int, lost_bits: int) -> Space:
    steps = (flambeau.arange(num_bins) / ((num_bins - 1) / lost_bits)).round().int()
    return {
        "Posterize": (most_bits - steps, False),
        "Solarize": (flambeau.linspace(255.0, 0.0, num_bins), False),
        "AutoContrast": (flambeau.tensor(0.0), False),
        "Equalize": (flambeau.tensor(0.0), False),
    }


def _identity() -> Space:
    return {"Identity": (flambeau.tensor(0.0), False)}


def _picked(space: Space) -> tuple[str, Tensor, bool]:
    names = list(space)
    name = names[draws.integer(0, len(names))]
    return (name, *space[name])


def _strength(strengths: Tensor, step: int | None) -> float:
    """One of several strengths; changes that have none take zero."""
    return float(strengths[step].item()) if strengths.ndim else 0.0


def _with_sign(magnitude: float, is_signed: bool) -> float:
    """Either way, with equal chances, where there are two."""
    return -magnitude if is_signed and draws.integer(0, 2) else magnitude


class AutoAugmentPolicy(Enum):
    """The dataset on which a policy of AutoAugment was learned."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


class _Augmentation(ListedModule):
    """What all four share: the fill of new pixels."""

    fill: Any

    def _fill_for(self, img):
        channels, height, width = F.get_dimensions(img)
        fill = fill_of_tensor(self.fill, channels) if isinstance(img, Tensor) else self.fill
        return fill, (height, width)

    def _changed(self, img, name, magnitude, fill):
        return _apply_op(img, name, magnitude, self.interpolation, fill)


class AutoAugment(_Augmentation):
    """One of 25 learned pairs of changes ("AutoAugment: Learning Augmentation Strategies from
    Data").

    Tensors must be uint8, with one or three channels.
    """

    _listed = ("policy", "fill")

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: list[float] | None = None,
    ) -> None:
        super().__init__(policy=policy, fill=fill, interpolation=interpolation)
        self.policies = self._get_policies(policy)

    def _get_policies(self, policy: AutoAugmentPolicy) -> list[tuple[Any, Any]]:
        if not isinstance(policy, AutoAugmentPolicy):
            raise ValueError(f"The provided policy {policy} is not recognized.")
        return list(POLICIES[policy.value])

    def _augmentation_space(self, num_bins: int, image_size: tuple[int, int]) -> Space:
        height, width = image_size
        return {
            **_geometric(num_bins, 0.3, 150.0 / 331.0 * width, 150.0 / 331.0 * height, 30.0),
            **_colorful(num_bins, 0.9),
            **_coarse(num_bins, 8, 4),
            "Invert": (flambeau.tensor(0.0), False),
        }

    @staticmethod
    def get_params(transform_num: int) -> tuple[int, Tensor, Tensor]:
        """Which policy, and for its two changes a probability and a sign."""
        policy = draws.integer(0, transform_num)
        return policy, flambeau.rand((2,)), flambeau.randint(2, (2,))

    def forward(self, img: Tensor) -> Tensor:
        fill, size = self._fill_for(img)
        which, chances, signs = self.get_params(len(self.policies))
        space = self._augmentation_space(10, size)
        for change, chance, sign in zip(self.policies[which], chances, signs):
            name, probability, step = change
            if chance <= probability:
                strengths, is_signed = space[name]
                magnitude = _strength(strengths, step)
                img = self._changed(
                    img, name, -magnitude if is_signed and not sign else magnitude, fill
                )
        return img


class RandAugment(_Augmentation):
    """So many changes of one strength ("RandAugment: Practical automated data augmentation with a
    reduced search space").

    magnitude: the strength, as one of num_magnitude_bins steps.
    """

    _listed = ("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: list[float] | None = None,
    ) -> None:
        steps = {"magnitude": magnitude, "num_magnitude_bins": num_magnitude_bins}
        super().__init__(num_ops=num_ops, fill=fill, interpolation=interpolation, **steps)

    def _augmentation_space(self, num_bins: int, image_size: tuple[int, int]) -> Space:
        height, width = image_size
        return {
            **_identity(),
            **_geometric(num_bins, 0.3, 150.0 / 331.0 * width, 150.0 / 331.0 * height, 30.0),
            **_colorful(num_bins, 0.9),
            **_coarse(num_bins, 8, 4),
        }

    def forward(self, img: Tensor) -> Tensor:
        fill, size = self._fill_for(img)
        space = self._augmentation_space(self.num_magnitude_bins, size)
        for _ in range(self.num_ops):
            name, strengths, is_signed = _picked(space)
            magnitude = _with_sign(_strength(strengths, self.magnitude), is_signed)
            img = self._changed(img, name, magnitude, fill)
        return img


class TrivialAugmentWide(_Augmentation):
    """One change of any strength ("TrivialAugment: Tuning-free Yet State-of-the-Art Data
    Augmentation")."""

    _listed = ("num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: list[float] | None = None,
    ) -> None:
        how = {"fill": fill, "interpolation": interpolation}
        super().__init__(num_magnitude_bins=num_magnitude_bins, **how)

    def _augmentation_space(self, num_bins: int) -> Space:
        return {
            **_identity(),
            **_geometric(num_bins, 0.99, 32.0, 32.0, 135.0),
            **_colorful(num_bins, 0.99),
            **_coarse(num_bins, 8, 6),
        }

    def forward(self, img: Tensor) -> Tensor:
        fill, _ = self._fill_for(img)
        space = self._augmentation_space(self.num_magnitude_bins)
        name, strengths, is_signed = _picked(space)
        step = draws.integer(0, len(strengths)) if strengths.ndim else None
        magnitude = _with_sign(_strength(strengths, step), is_signed)
        return self._changed(img, name, magnitude, fill)


MOST_SEVERE = 10


def check_severity(severity: int) -> None:
    """Refuse what is not one of the strengths of AugMix."""
    if not 1 <= severity <= MOST_SEVERE:
        raise ValueError(
            f"The severity must be between [1, {MOST_SEVERE}]. Got {severity} instead."
        )


class AugMix(_Augmentation):
    """The image mixed with several chains of changes ("AugMix: A Simple Data Processing Method to
    Improve Robustness and Uncertainty").

    severity: how strong, 1 to 10. mixture_width: how many chains. chain_depth: how long, or -1 for
    one to three. alpha: how evenly they are mixed. all_ops: changes of colours too.
    """

    _listed = (
        "severity",
        "mixture_width",
        "chain_depth",
        "alpha",
        "all_ops",
        "interpolation",
        "fill",
    )

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        fill: list[float] | None = None,
    ) -> None:
        check_severity(severity)
        chains = {"mixture_width": mixture_width, "chain_depth": chain_depth, "alpha": alpha}
        how = {"interpolation": interpolation, "fill": fill}
        super().__init__(severity=severity, all_ops=all_ops, **chains, **how)
        self._PARAMETER_MAX = MOST_SEVERE

    def _augmentation_space(self, num_bins: int, image_size: tuple[int, int]) -> Space:
        height, width = image_size
        return {
            **_geometric(num_bins, 0.3, width / 3.0, height / 3.0, 30.0),
            **_coarse(num_bins, 4, 4),
            **(_colorful(num_bins, 0.9) if self.all_ops else {}),
        }

    def _sample_dirichlet(self, params: Tensor) -> Tensor:
        return flambeau._sample_dirichlet(params)

    def _shares(self, count: int, batch: Tensor) -> Tensor:
        """Random shares of so many things, for each image of a batch."""
        params = flambeau.tensor([self.alpha] * count, device=batch.device)
        return self._sample_dirichlet(params.expand(batch.shape[0], -1))

    def forward(self, orig_img: Tensor) -> Tensor:
        fill, size = self._fill_for(orig_img)
        img = orig_img if isinstance(orig_img, Tensor) else F.pil_to_tensor(orig_img)
        space = self._augmentation_space(self._PARAMETER_MAX, size)
        batch = img[(None,) * (4 - img.ndim)]
        per_image = [batch.shape[0]] + [1] * (batch.ndim - 1)
        # the share of the image itself against that of all chains, and the shares of the chains
        between = self._shares(2, batch)
        weights = self._shares(self.mixture_width, batch)
        weights = weights * between[:, 1].view([batch.shape[0], -1])
        mix = between[:, 0].view(per_image) * batch
        for i in range(self.mixture_width):
            chain = batch
            depth = self.chain_depth if self.chain_depth > 0 else draws.integer(1, 4)
            for _ in range(depth):
                name, strengths, is_signed = _picked(space)
                step = draws.integer(0, self.severity) if strengths.ndim else None
                magnitude = _with_sign(_strength(strengths, step), is_signed)
                chain = self._changed(chain, name, magnitude, fill)
            mix.add_(weights[:, i].view(per_image) * chain)
        mix = mix.view(img.shape).to(dtype=img.dtype)
        return mix if isinstance(orig_img, Tensor) else F.to_pil_image(mix)
