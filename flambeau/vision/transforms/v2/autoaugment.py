"""AutoAugment and its kin for samples with one image or video. Draws differ from those of v1."""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import autoaugment as v1
from flambeau.vision.transforms import draws
from flambeau.vision.transforms.arguments import keep
from flambeau.vision.transforms.autoaugment import (
    AutoAugmentPolicy,
    _coarse,
    _colorful,
    _geometric,
    _identity,
)
from flambeau.vision.transforms.autoaugment_policies import POLICIES
from flambeau.vision.transforms.conversion import is_pil_image
from flambeau.vision.transforms.tensor_checks import max_value
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2.arguments import fill_for, fills_by_type
from flambeau.vision.transforms.v2.functional.dispatch import is_pure_tensor
from flambeau.vision.transforms.v2.samples import check_type, flatten, rebuild
from flambeau.vision.transforms.v2.transform import Transform

_PICTURES = (tv_tensors.Image, is_pil_image, is_pure_tensor, tv_tensors.Video)
_REFUSED = (tv_tensors.BoundingBoxes, tv_tensors.Mask, tv_tensors.KeyPoints)


class _AutoAugmentBase(Transform):
    def __init__(self, *, interpolation: Any = "nearest", fill: Any = None) -> None:
        super().__init__()
        self.interpolation = interpolation
        self.fill = fill
        self._fill = fills_by_type(fill)

    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) > 1 else inputs[0]
        flat = flatten(sample)
        found = []
        for i, (inpt, is_wanted) in enumerate(zip(flat, self._needs_transform_list(flat))):
            if is_wanted and check_type(inpt, _PICTURES):
                found.append(i)
            elif isinstance(inpt, _REFUSED):
                raise TypeError(
                    f"Inputs of type {type(inpt).__name__} are not supported by "
                    f"{type(self).__name__}()"
                )
        if not found:
            raise TypeError("Found no image in the sample.")
        if len(found) > 1:
            raise TypeError(
                "Auto augment transformations are only properly defined for a single image or "
                f"video, but found {len(found)}."
            )
        flat[found[0]] = self._augment(flat[found[0]])
        return rebuild(sample, flat)

    def _augment(self, image):
        raise NotImplementedError

    def _drawn(self, space):
        """One of the changes: its name, strengths and whether they have a sign."""
        return v1._picked(space)

    def _signed(self, magnitude, signed):
        return -magnitude if signed and draws.chance() <= 0.5 else magnitude

    def _change(self, image, name, magnitude):
        """The image after one change."""
        if name == "Solarize":  # strengths are shares of white
            magnitude *= max_value(image.dtype) if isinstance(image, Tensor) else 255.0
        fill = fill_for(self._fill, type(image))
        return v1._apply_op(image, name, magnitude, self.interpolation, fill, functions=F)


def _bits(num_bins: int, most: int, lost: int) -> Tensor:
    return (most - flambeau.arange(num_bins) / ((num_bins - 1) / lost)).round().int()


def _coarse_space(num_bins: int, most_bits: int, lost_bits: int) -> dict[str, Any]:
    """As in v1, but thresholds are shares of the largest value, and halves round otherwise."""
    return {
        **_coarse(num_bins, most_bits, lost_bits),
        "Posterize": (_bits(num_bins, most_bits, lost_bits), False),
        "Solarize": (flambeau.linspace(1.0, 0.0, num_bins), False),
    }


class AutoAugment(_AutoAugmentBase):
    """One of 25 learned pairs of changes."""

    _v1_transform_cls = v1.AutoAugment

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: Any = "nearest",
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation=interpolation, fill=fill)
        self.policy = policy
        if not isinstance(policy, AutoAugmentPolicy):
            raise ValueError(f"The provided policy {policy} is not recognized.")
        self._policies = POLICIES[policy.value]

    def _augment(self, image):
        height, width = F.get_size(image)
        share = 150.0 / 331.0
        space = {
            **_geometric(10, 0.3, share * width, share * height, 30.0),
            **_colorful(10, 0.9),
            **_coarse_space(10, 8, 4),
            "Invert": (flambeau.tensor(0.0), False),
        }
        for name, probability, strength in self._policies[draws.integer(0, len(self._policies))]:
            if not draws.chance() <= draws.rounded(probability):
                continue
            strengths, signed = space[name]
            magnitude = 0.0
            if strengths.ndim:
                magnitude = self._signed(float(strengths[strength]), signed)
            image = self._change(image, name, magnitude)
        return image


class RandAugment(_AutoAugmentBase):
    """So many changes of one strength."""

    _v1_transform_cls = v1.RandAugment

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Any = "nearest",
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation=interpolation, fill=fill)
        if not isinstance(num_ops, int) or num_ops < 0:
            raise ValueError(
                f"num_ops should be a non-negative integer, but got {num_ops} instead."
            )
        self.num_ops = num_ops
        self.magnitude = magnitude
        self.num_magnitude_bins = num_magnitude_bins

    def _augment(self, image):
        height, width = F.get_size(image)
        bins, share = self.num_magnitude_bins, 150.0 / 331.0
        space = {
            **_identity(),
            **_geometric(bins, 0.3, share * width, share * height, 30.0),
            **_colorful(bins, 0.9),
            **_coarse_space(bins, 8, 4),
        }
        for _ in range(self.num_ops):
            name, strengths, signed = self._drawn(space)
            magnitude = 0.0
            if strengths.ndim:
                magnitude = self._signed(float(strengths[self.magnitude]), signed)
            image = self._change(image, name, magnitude)
        return image


class TrivialAugmentWide(_AutoAugmentBase):
    """One change of any strength."""

    _v1_transform_cls = v1.TrivialAugmentWide

    def __init__(
        self, num_magnitude_bins: int = 31, interpolation: Any = "nearest", fill: Any = None
    ) -> None:
        super().__init__(interpolation=interpolation, fill=fill)
        self.num_magnitude_bins = num_magnitude_bins

    def _augment(self, image):
        bins = self.num_magnitude_bins
        space = {
            **_identity(),
            **_geometric(bins, 0.99, 32.0, 32.0, 135.0),
            **_colorful(bins, 0.99),
            **_coarse_space(bins, 8, 6),
        }
        name, strengths, signed = self._drawn(space)
        magnitude = 0.0
        if strengths.ndim:
            magnitude = self._signed(float(strengths[draws.integer(0, bins)]), signed)
        return self._change(image, name, magnitude)


class AugMix(_AutoAugmentBase):
    """The image mixed with several chains of changes."""

    _v1_transform_cls = v1.AugMix

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Any = "bilinear",
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation=interpolation, fill=fill)
        v1.check_severity(severity)
        keep(self, severity=severity, mixture_width=mixture_width, chain_depth=chain_depth)
        keep(self, alpha=alpha, all_ops=all_ops, _PARAMETER_MAX=v1.MOST_SEVERE)

    def _shares(self, count, batch):
        params = flambeau.tensor([self.alpha] * count, device=batch.device)
        return flambeau._sample_dirichlet(params.expand(batch.shape[0], -1))

    def _augment(self, image):
        height, width = F.get_size(image)
        tensor = image if isinstance(image, Tensor) else F.pil_to_tensor(image)
        plain = tensor.as_subclass(Tensor)
        dimensions = 5 if isinstance(image, tv_tensors.Video) else 4
        batch = plain.reshape([1] * max(dimensions - plain.ndim, 0) + list(plain.shape))
        per_image = [batch.shape[0]] + [1] * (batch.ndim - 1)
        between = self._shares(2, batch)
        weights = self._shares(self.mixture_width, batch) * between[:, 1].reshape(-1, 1)
        bins = self._PARAMETER_MAX
        space = {
            **_geometric(bins, 0.3, width / 3.0, height / 3.0, 30.0),
            **_coarse_space(bins, 4, 4),
            **(_colorful(bins, 0.9) if self.all_ops else {}),
        }
        mix = between[:, 0].reshape(per_image) * batch
        for i in range(self.mixture_width):
            chain = batch
            depth = self.chain_depth if self.chain_depth > 0 else draws.integer(1, 4)
            for _ in range(depth):
                name, strengths, signed = self._drawn(space)
                magnitude = 0.0
                if strengths.ndim:
                    magnitude = float(strengths[draws.integer(0, self.severity)])
                    magnitude = self._signed(magnitude, signed)
                chain = self._change(chain, name, magnitude)
            mix.add_(weights[:, i].reshape(per_image) * chain)
        mix = mix.reshape(plain.shape).to(dtype=plain.dtype)
        if isinstance(image, (tv_tensors.Image, tv_tensors.Video)):
            return tv_tensors.wrap(mix, like=image)
        return mix if isinstance(image, Tensor) else F.to_pil_image(mix)
