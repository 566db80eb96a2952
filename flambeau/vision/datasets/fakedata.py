"""`FakeData`: random pictures with random labels, the same for the same index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.vision.datasets.vision import VisionDataset


class FakeData(VisionDataset):
    """Pictures of noise, to try programs with.

    Args:
        size: how many there are.
        image_size: channels, height and width.
        num_classes: labels are drawn from this many.
        transform: a function of a PIL image.
        target_transform: a function of a label (a tensor of no dimensions).
        random_offset: added to the index, which is the seed of a picture.
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(None, None, transform, target_transform)
        self.image_size, self.num_classes = image_size, num_classes
        self.size, self.random_offset = size, random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not index < len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        from flambeau.vision.transforms.functional import to_pil_image

        # a generator of its own draws what the global one would, and leaves that one alone
        own = torch.Generator().manual_seed(self.random_offset + index)
        noise = torch.randn(*self.image_size, generator=own)
        label = torch.randint(self.num_classes, (), generator=own)
        image, label = self._transformed(to_pil_image(noise), label)
        return image, label.item()

    def __len__(self) -> int:
        return self.size
