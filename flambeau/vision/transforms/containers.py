"""Transforms made of others: one after the other, at random, in random order, one of them.

Which and in what order comes from Python's `random`; whether at all from the seeded generator.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau.vision.transforms import draws
from flambeau.vision.transforms.arguments import Listed, ListedModule, listing


def _chained(img: Any, transforms: Iterable[Callable]) -> Any:
    """What comes out of a chain of transforms."""
    for change in transforms:
        img = change(img)
    return img


def _check_sequence(name: str, value: Any) -> None:
    if not isinstance(value, Sequence):
        raise TypeError(f"Argument {name} should be a sequence")


class _Several:
    """Its text lists the transforms it is made of."""

    transforms: Any

    def __repr__(self) -> str:
        return listing(type(self).__name__, self.transforms)


class Compose(_Several):
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
        return _chained(img, self.transforms)


class Lambda(Listed):
    """A function of one's own as a transform."""

    def __init__(self, lambd: Callable):
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)


class RandomTransforms(_Several):
    """What RandomOrder and RandomChoice share."""

    def __init__(self, transforms):
        _check_sequence("transforms", transforms)
        self.transforms = transforms

    def __call__(self, *args, **kwargs):
        raise NotImplementedError()


class RandomApply(ListedModule):
    """All of the transforms with probability p, else none.

    Transforms may be an `nn.ModuleList`.
    """

    def __init__(self, transforms, p=0.5):
        super().__init__(transforms=transforms, p=p)

    def forward(self, img):
        return img if draws.exceeds(self.p) else _chained(img, self.transforms)

    def __repr__(self) -> str:
        return listing(type(self).__name__, [f"p={self.p}", *self.transforms])


class RandomOrder(RandomTransforms):
    """All of the transforms, in random order."""

    def __call__(self, img):
        shuffled = [*self.transforms]
        random.shuffle(shuffled)
        return _chained(img, shuffled)


class RandomChoice(RandomTransforms):
    """One of the transforms; p: a weight for each of them."""

    def __init__(self, transforms, p=None):
        super().__init__(transforms)
        if p is not None:
            _check_sequence("p", p)
        self.p = p

    def __call__(self, *args):
        return random.choices(self.transforms, self.p)[0](*args)

    def __repr__(self) -> str:
        return f"{super().__repr__()}(p={self.p})"
