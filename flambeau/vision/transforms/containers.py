"""Transforms made of others: one after the other, at random, in random order, one of them.

Which and in what order comes from Python's `random`; whether at all from the seeded generator.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

from flambeau import nn
from flambeau.vision.transforms import draws
from flambeau.vision.transforms.arguments import listing


class Compose:
    """Transforms, one after the other.

    Example:
        >>> from flambeau.vision import transforms
        >>> transforms.Compose([transforms.CenterCrop(10), transforms.ToTensor()])
        Compose(
            CenterCrop(size=(10, 10))
            ToTensor()
        )
    """

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, img):
        for t in self.transforms:
            img = t(img)
        return img

    def __repr__(self) -> str:
        return listing(type(self).__name__, self.transforms)


class Lambda:
    """A function of one's own as a transform."""

    def __init__(self, lambd: Callable):
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RandomTransforms:
    """What RandomOrder and RandomChoice share."""

    def __init__(self, transforms):
        if not isinstance(transforms, Sequence):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms

    def __call__(self, *args, **kwargs):
        raise NotImplementedError()

    def __repr__(self) -> str:
        return listing(type(self).__name__, self.transforms)


class RandomApply(nn.Module):
    """All of the transforms with probability p, else none.

    Transforms may be an `nn.ModuleList`.
    """

    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, img):
        if draws.exceeds(self.p):
            return img
        for t in self.transforms:
            img = t(img)
        return img

    def __repr__(self) -> str:
        return listing(type(self).__name__, [f"p={self.p}", *self.transforms])


class RandomOrder(RandomTransforms):
    """All of the transforms, in random order."""

    def __call__(self, img):
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for i in order:
            img = self.transforms[i](img)
        return img


class RandomChoice(RandomTransforms):
    """One of the transforms; p: a weight for each of them."""

    def __init__(self, transforms, p=None):
        super().__init__(transforms)
        if p is not None and not isinstance(p, Sequence):
            raise TypeError("Argument p should be a sequence")
        self.p = p

    def __call__(self, *args):
        (t,) = random.choices(self.transforms, weights=self.p)
        return t(*args)

    def __repr__(self) -> str:
        return f"{super().__repr__()}(p={self.p})"
