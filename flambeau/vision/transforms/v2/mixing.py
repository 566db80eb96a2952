"""MixUp and CutMix: pairs of images of a batch, mixed with their labels."""

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.functional import one_hot
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import draws
from flambeau.vision.transforms.conversion import is_pil_image
from flambeau.vision.transforms.v2.arguments import labels_function
from flambeau.vision.transforms.v2.functional.dispatch import is_pure_tensor
from flambeau.vision.transforms.v2.samples import flatten, has_any, query_size, rebuild
from flambeau.vision.transforms.v2.transform import Transform

_REFUSED = (is_pil_image, tv_tensors.BoundingBoxes, tv_tensors.Mask, tv_tensors.KeyPoints)


class _Mix(Transform):
    """Images of a batch, each mixed with the one before it; so are its labels."""

    def __init__(
        self, *, alpha: float = 1.0, num_classes: int | None = None, labels_getter: Any = "default"
    ) -> None:
        super().__init__()
        self.alpha = float(alpha)
        self.num_classes = num_classes
        self._labels_getter = labels_function(labels_getter)

    def _share(self) -> float:
        """A draw from Beta(alpha, alpha)."""
        pair = flambeau._sample_dirichlet(flambeau.tensor([[self.alpha, self.alpha]]))
        return float(pair[0, 0])

    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) > 1 else inputs[0]
        flat = flatten(sample)
        wanted = self._needs_transform_list(flat)
        if has_any(flat, *_REFUSED):
            raise ValueError(
                f"{type(self).__name__}() does not support PIL images, bounding boxes, keypoints "
                "and masks."
            )
        labels = self._labels_getter(sample)
        self._check_labels(labels)
        params = self.make_params([inpt for inpt, is_wanted in zip(flat, wanted) if is_wanted])
        params.update(labels=labels, batch_size=len(labels))
        out = [
            self.transform(inpt, params) if is_wanted or inpt is labels else inpt
            for inpt, is_wanted in zip(flat, wanted)
        ]
        return rebuild(sample, out)

    def _check_labels(self, labels):
        if not isinstance(labels, Tensor):
            raise ValueError(f"The labels must be a tensor, but got {type(labels)} instead.")
        count, wanted = labels.ndim, self.num_classes
        if count == 1 and wanted is None:
            raise ValueError("num_classes must be passed if the labels are index-based (1D)")
        if count not in (1, 2):
            raise ValueError(
                "labels should be index based with shape (batch_size,) or probability based with "
                f"shape (batch_size, num_classes), but got a tensor of shape {labels.shape} "
                "instead."
            )
        classes = labels.shape[-1]
        if count == 2 and wanted not in (None, classes):
            raise ValueError(
                "When passing 2D labels, the number of elements in last dimension must match "
                f"num_classes: {classes} != {wanted}. You can Leave num_classes to None."
            )

    def _check_batch(self, inpt, batch_size):
        dimensions = 5 if isinstance(inpt, tv_tensors.Video) else 4
        if inpt.ndim != dimensions:
            raise ValueError(
                f"Expected a batched input with {dimensions} dims, but got {inpt.ndim} dimensions "
                "instead."
            )
        if inpt.shape[0] != batch_size:
            raise ValueError(
                "The batch size of the image or video does not match the batch size of the labels: "
                f"{inpt.shape[0]} != {batch_size}."
            )

    def _mixed_labels(self, labels, share):
        if labels.ndim == 1:
            labels = one_hot(labels, num_classes=self.num_classes)
        if not labels.dtype.is_floating_point:
            labels = labels.float()
        return labels.roll(1, 0).mul(1.0 - share).add(labels.mul(share))

    def _mix(self, batch, params):
        raise NotImplementedError

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if inpt is params["labels"]:
            return self._mixed_labels(inpt, params["share"])
        is_picture = isinstance(inpt, (tv_tensors.Image, tv_tensors.Video))
        if not is_picture and not is_pure_tensor(inpt):
            return inpt
        self._check_batch(inpt, params["batch_size"])
        out = self._mix(inpt.as_subclass(Tensor), params)
        return tv_tensors.wrap(out, like=inpt) if is_picture else out


class MixUp(_Mix):
    """Pairs of images, added in random shares ("mixup: Beyond Empirical Risk Minimization").

    alpha: of the Beta distribution of shares. num_classes: needed for labels that are numbers.
    """

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"share": self._share()}

    def _mix(self, batch, params):
        share = params["share"]
        return batch.roll(1, 0).mul_(1.0 - share).add_(batch.mul(share))


class CutMix(_Mix):
    """A rectangle of each image taken from another ("CutMix: Regularization Strategy to Train
    Strong Classifiers with Localizable Features")."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        share = self._share()
        height, width = query_size(flat_inputs)
        x, y = draws.integer(0, width), draws.integer(0, height)
        half = 0.5 * math.sqrt(1.0 - share)
        half_width, half_height = int(half * width), int(half * height)
        x1, x2 = max(x - half_width, 0), min(x + half_width, width)
        y1, y2 = max(y - half_height, 0), min(y + half_height, height)
        share = float(1.0 - (x2 - x1) * (y2 - y1) / (width * height))
        return {"box": (x1, y1, x2, y2), "share": share}

    def _mix(self, batch, params):
        x1, y1, x2, y2 = params["box"]
        out = batch.clone()
        out[..., y1:y2, x1:x2] = batch.roll(1, 0)[..., y1:y2, x1:x2]
        return out
