"""Transforms of v2 that are made of others. All draws come from the seeded generator."""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import nn
from flambeau.vision.transforms import containers as v1
from flambeau.vision.transforms import draws
from flambeau.vision.transforms.v2.transform import Transform, check_probability


class _Container(Transform):
    """Keeps transforms, of which there must be one or more."""

    _kinds: Any = Sequence
    _or_else = ""
    transforms: Any

    def __init__(self, transforms: Any) -> None:
        if not isinstance(transforms, self._kinds):
            raise TypeError(f"Argument transforms should be a sequence of callables{self._or_else}")
        if not transforms:
            raise ValueError("Pass at least one transform")
        super().__init__()
        self.transforms = transforms

    def _chain(self, transforms, inputs):
        """One transform after the other; several inputs stay several."""
        has_many = len(inputs) > 1
        for transform in transforms:
            outputs = transform(*inputs)
            inputs = outputs if has_many else (outputs,)
        return outputs

    def _lines(self) -> str:
        return "\n".join(f"    {t}" for t in self.transforms)


class Compose(_Container):
    """Transforms, one after the other."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        super().__init__(transforms)

    def forward(self, *inputs: Any) -> Any:
        return self._chain(self.transforms, inputs)

    def extra_repr(self) -> str:
        return self._lines()


class RandomApply(_Container):
    """All of the transforms with probability p, else none."""

    _v1_transform_cls = v1.RandomApply
    _kinds = (Sequence, nn.ModuleList)
    _or_else = " or a `nn.ModuleList`"

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__(transforms)
        check_probability(p)
        self.p = p

    def forward(self, *inputs: Any) -> Any:
        if not draws.happens(self.p):
            return inputs if len(inputs) > 1 else inputs[0]
        return self._chain(self.transforms, inputs)

    def extra_repr(self) -> str:
        return self._lines()


class RandomChoice(_Container):
    """One of the transforms; p: a weight for each of them."""

    def __init__(self, transforms: Sequence[Any], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        count = len(transforms)
        weights = [1] * count if p is None else p
        if len(weights) != count:
            raise ValueError(
                f"Length of p doesn't match the number of transforms: {len(weights)} != {count}"
            )
        whole = sum(weights)
        self.p = [weight / whole for weight in weights]

    def forward(self, *inputs: Any) -> Any:
        which = int(flambeau.multinomial(flambeau.tensor(self.p), 1))
        return self.transforms[which](*inputs)


class RandomOrder(_Container):
    """All of the transforms, in random order."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        super().__init__(transforms)

    def forward(self, *inputs: Any) -> Any:
        order = flambeau.randperm(len(self.transforms)).tolist()
        return self._chain([self.transforms[i] for i in order], inputs)
