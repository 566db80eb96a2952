"""Images of different sizes in one tensor."""

from typing import Any

from flambeau import Tensor


class ImageList:
    """A batch, filled up with zeros, and the true (height, width) of each image in it."""

    def __init__(self, tensors: Tensor, image_sizes: list[tuple[int, int]]) -> None:
        self.tensors, self.image_sizes = tensors, image_sizes

    def to(self, device: Any) -> "ImageList":
        return ImageList(self.tensors.to(device), self.image_sizes)
