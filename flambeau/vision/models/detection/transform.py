"""What detectors do to images and targets before, and to their findings after: sizes and colours.

Images are normalised, scaled until their shorter side fits, and filled up to one size; boxes, masks
and keypoints of targets are scaled with them, and those that were found are scaled back.
"""

import math
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from .image_list import ImageList
from .masks import paste_masks_in_image

Target = dict[str, Tensor]
Shape = tuple[int, int]


def _ratios(like: Tensor, original_size: Any, new_size: Any) -> list[Tensor]:
    """How much larger the new height and width are; single precision, as boxes have."""
    new, old = (
        flambeau.tensor([float(n) for n in size], dtype=flambeau.float32, device=like.device)
        for size in (new_size, original_size)
    )
    return list(new / old)


def resize_boxes(boxes: Tensor, original_size: Any, new_size: Any) -> Tensor:
    """Boxes of an image, for the same image in another size."""
    down, right = _ratios(boxes, original_size, new_size)
    return flambeau.stack([right, down, right, down]) * boxes


def resize_keypoints(keypoints: Tensor, original_size: Any, new_size: Any) -> Tensor:
    """The same for points (x, y, visible)."""
    down, right = _ratios(keypoints, original_size, new_size)
    scaled = keypoints.clone()
    scaled[..., 0] *= right
    scaled[..., 1] *= down
    return scaled


class GeneralizedRCNNTransform(nn.Module):
    """From a list of images to a batch, and back from its coordinates.

    Args:
        min_size: the length of the shorter side; of several, one is drawn while learning.
        max_size: what the longer side must not exceed.
        size_divisible: heights and widths of batches are multiples of this.
        fixed_size: (width, height) of all images, in place of all that.
    """

    def __init__(
        self,
        min_size: Any,
        max_size: int,
        image_mean: list[float],
        image_std: list[float],
        size_divisible: int = 32,
        fixed_size: Shape | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.min_size: Any = min_size if isinstance(min_size, (list, tuple)) else (min_size,)
        self.max_size, self.size_divisible, self.fixed_size = max_size, size_divisible, fixed_size
        self.image_mean, self.image_std = image_mean, image_std
        self._skip_resize = kwargs.pop("_skip_resize", False)

    def forward(
        self, images: list[Tensor], targets: list[Target] | None = None
    ) -> tuple[ImageList, list[Target] | None]:
        ready: list[Tensor] = []
        aims: list[Target] | None = None if targets is None else []
        for number, image in enumerate(images):
            if image.dim() != 3:
                raise ValueError(
                    "images is expected to be a list of 3d tensors of shape [C, H, W], got "
                    f"{image.shape}"
                )
            aim = None if targets is None else dict(targets[number])
            image, aim = self.resize(self.normalize(image), aim)
            ready.append(image)
            if aims is not None and aim is not None:
                aims.append(aim)
        sizes = [(image.shape[-2], image.shape[-1]) for image in ready]
        return ImageList(self.batch_images(ready, self.size_divisible), sizes), aims

    def normalize(self, image: Tensor) -> Tensor:
        if not image.is_floating_point():
            raise TypeError(
                "Expected input images to be of floating type (in range [0, 1]), but found type "
                f"{image.dtype} instead"
            )
        mean, std = (
            flambeau.as_tensor(given, dtype=image.dtype, device=image.device)[:, None, None]
            for given in (self.image_mean, self.image_std)
        )
        return (image - mean) / std

    def torch_choice(self, k: list[int]) -> int:
        """One of several numbers, drawn from the generator of tensors."""
        return k[int(flambeau.empty(1).uniform_(0.0, float(len(k))).item())]

    def resize(self, image: Tensor, target: Target | None = None) -> tuple[Tensor, Target | None]:
        if self.training and self._skip_resize:
            return image, target
        before = (image.shape[-2], image.shape[-1])
        shorter = self.torch_choice(list(self.min_size)) if self.training else self.min_size[-1]
        scaling = self._scaling(before, float(shorter))
        scaled = F.interpolate(image[None], mode="bilinear", align_corners=False, **scaling)[0]
        if target is None:
            return scaled, target
        after = (scaled.shape[-2], scaled.shape[-1])
        if "masks" in target:
            whole = F.interpolate(target["masks"][:, None].float(), **scaling)
            target["masks"] = whole[:, 0].byte()
        target["boxes"] = resize_boxes(target["boxes"], before, after)
        if "keypoints" in target:
            target["keypoints"] = resize_keypoints(target["keypoints"], before, after)
        return scaled, target

    def _scaling(self, size: Shape, shorter: float) -> dict[str, Any]:
        if self.fixed_size is not None:
            return {"size": [self.fixed_size[1], self.fixed_size[0]]}
        scale = min(shorter / min(size), float(self.max_size) / max(size))
        return {"scale_factor": scale, "recompute_scale_factor": True}

    def max_by_axis(self, the_list: list[list[int]]) -> list[int]:
        return [max(column) for column in zip(*the_list, strict=True)]

    def batch_images(self, images: list[Tensor], size_divisible: int = 32) -> Tensor:
        """All images in one tensor that is large enough for each."""
        channels, *sides = self.max_by_axis([list(image.shape) for image in images])
        sides = [math.ceil(side / size_divisible) * size_divisible for side in sides]
        batch = images[0].new_zeros((len(images), channels, *sides))
        for place, image in zip(batch, images, strict=True):
            place[: image.shape[0], : image.shape[1], : image.shape[2]].copy_(image)
        return batch

    def postprocess(
        self,
        result: list[Target],
        image_shapes: list[Shape],
        original_image_sizes: list[Shape],
    ) -> list[Target]:
        """What was found, in the coordinates of the images as they came."""
        if self.training:
            return result
        for found, shape, size in zip(result, image_shapes, original_image_sizes, strict=True):
            found["boxes"] = resize_boxes(found["boxes"], shape, size)
            if "masks" in found:
                found["masks"] = paste_masks_in_image(found["masks"], found["boxes"], size)
            if "keypoints" in found:
                found["keypoints"] = resize_keypoints(found["keypoints"], shape, size)
        return result

    def __repr__(self) -> str:
        lines = (
            f"Normalize(mean={self.image_mean}, std={self.image_std})",
            f"Resize(min_size={self.min_size}, max_size={self.max_size}, mode='bilinear')",
        )
        return "\n    ".join([f"{type(self).__name__}(", *lines]) + "\n)"
