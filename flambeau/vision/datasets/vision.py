"""What all datasets of images share: a root folder, transforms, and how they print."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from flambeau.utils.data import Dataset

T_co = TypeVar("T_co", covariant=True)


def _indented(head: str, transform: Callable) -> list[str]:
    """The lines of a transform's repr, the first one after a heading, the others below it."""
    first, *others = repr(transform).splitlines() or [""]
    return [head + first, *(" " * len(head) + line for line in others)]


def _through(transform: Callable | None, value: Any) -> Any:
    return value if transform is None else transform(value)


class VisionDataset(Dataset[T_co]):
    """Base class of datasets of images; subclasses write `__getitem__` and `__len__`.

    Args:
        root: the folder of the dataset.
        transforms: a function of a sample and its target that gives both, transformed; instead of
            the other two.
        transform: a function of a sample.
        target_transform: a function of a target.
    """

    _repr_indent = 4

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        transforms: Callable | None = None,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
    ) -> None:
        self.root: Any = os.path.expanduser(root) if isinstance(root, str) else root
        separate = transform is not None or target_transform is not None
        if transforms is not None and separate:
            raise ValueError(
                "Only transforms or transform/target_transform can be passed as argument"
            )
        self.transform = transform
        self.target_transform = target_transform
        self.transforms = StandardTransform(transform, target_transform) if separate else transforms

    def __getitem__(self, index: int) -> T_co:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __repr__(self) -> str:
        lines = [f"Number of datapoints: {len(self)}"]
        lines += [] if self.root is None else [f"Root location: {self.root}"]
        lines.extend(self.extra_repr().splitlines())
        transforms = getattr(self, "transforms", None)
        lines += [] if transforms is None else [repr(transforms)]
        indent = "\n" + " " * self._repr_indent
        return f"Dataset {type(self).__name__}" + "".join(indent + line for line in lines)

    def _transformed(self, sample: Any, target: Any) -> tuple[Any, Any]:
        """A sample and its target after `transform` and `target_transform`."""
        return _through(self.transform, sample), _through(self.target_transform, target)

    def _format_transform_repr(self, transform: Callable, head: str) -> list[str]:
        return _indented(head, transform)

    def extra_repr(self) -> str:
        """More lines for `repr`."""
        return ""


class StandardTransform:
    """A transform of samples and one of targets, as one function of both."""

    def __init__(
        self, transform: Callable | None = None, target_transform: Callable | None = None
    ) -> None:
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        return _through(self.transform, input), _through(self.target_transform, target)

    def _format_transform_repr(self, transform: Callable, head: str) -> list[str]:
        return _indented(head, transform)

    def __repr__(self) -> str:
        parts = {"Transform: ": self.transform, "Target transform: ": self.target_transform}
        lines = [type(self).__name__]
        for head, transform in parts.items():
            if transform is not None:
                lines += self._format_transform_repr(transform, head)
        return "\n".join(lines)
