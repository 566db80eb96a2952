"""Datasets that keep all of their gray images in one tensor of bytes, and the labels in another."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.pillow import from_array


class TensorImages(VisionDataset):
    """Items are PIL images and numbers, made from the tensors `data` and `targets`.

    Taking one row of a tensor and making an array of it costs more than Pillow's part of an item.
    So both are seen as arrays once, over the same memory, and again whenever somebody has put other
    tensors there.
    """

    classes: list[str] = []
    data: Tensor
    targets: Tensor
    _seen: tuple[Any, Any, Any, Any] = (None, None, None, None)

    def _pixels_and_target(self, index: int) -> tuple[Any, Any]:
        data, targets, pixels, labels = self._seen
        if data is not self.data or targets is not self.targets:
            data, targets = self.data, self.targets
            pixels = data.numpy() if isinstance(data, Tensor) else data
            labels = targets.numpy() if isinstance(targets, Tensor) else targets
            self._seen = data, targets, pixels, labels
        try:
            return pixels[index], labels[index]
        except IndexError:
            return self.data[index], self.targets[index]  # with the words that PyTorch has for it

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        pixels, target = self._pixels_and_target(index)
        image = from_array(pixels, "L")
        target = int(target)
        return self._transformed(image, target)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_seen"}

    def __len__(self) -> int:
        return len(self.data)

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.classes)}
