"""TVTensor: what images, masks, boxes and points share."""

from collections.abc import Callable
from typing import Any, Self

import flambeau
from flambeau import Tensor, interposing
from flambeau.interposing.overriding import KINDS, disabled


class TVTensor(Tensor):
    """A tensor that says what it is. Operations give plain tensors; copies stay what they are."""

    _says: tuple[str, ...] | None = None  # what it says beside its values, if its text lists that
    _wrap: Any  # of kinds that say something: a tensor as that kind, from what it is to say
    __torch_function__ = disabled  # what is kept is said by the methods below

    @staticmethod
    def _to_tensor(
        data: Any, dtype: Any = None, device: Any = None, requires_grad: bool | None = None
    ) -> Tensor:
        if requires_grad is None:
            requires_grad = data.requires_grad if isinstance(data, Tensor) else False
        out = flambeau.as_tensor(data, dtype=dtype, device=device)
        if isinstance(out, TVTensor):
            out = out.as_subclass(Tensor)
        return out.requires_grad_(requires_grad)

    @classmethod
    def wrap(cls, tensor: Any, like: Any, **kwargs: Any) -> Self:
        """A tensor as this kind, saying what another one says."""
        if not cls._says:
            return tensor.as_subclass(cls)
        facts = {name: getattr(like, name) for name in cls._says}
        return cls._wrap(tensor, **{**facts, **kwargs})

    def _saying(self, **facts: Any) -> Self:
        for name, value in facts.items():
            setattr(self, name, value)
        return self

    def clone(self, *args: Any, **kwargs: Any) -> Self:
        return type(self).wrap(super().clone(*args, **kwargs), self)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        return type(self).wrap(super().to(*args, **kwargs), self)

    def detach(self) -> Self:
        return type(self).wrap(super().detach(), self)

    def __deepcopy__(self, memo: dict) -> Self:
        return self.detach().clone().requires_grad_(self.requires_grad)  # type: ignore[return-value]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass  # all is done when the tensor is made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        text = Tensor.__repr__(self)
        if self._says is None:
            return text
        listed = ", ".join(f"{name}={getattr(self, name)}" for name in self._says)
        return f"{text[:-1]}, {listed})"


# -- what operations give --------------------------------------------------------------------------


class _Keeping(interposing.Handler):
    """Gives results the kind of the first argument that has one."""

    kinds = KINDS
    level = interposing.ARGUMENTS
    all_threads = is_lasting = forks = True

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        result = function(*args, **kwargs)
        given = (v for a in (*args, *kwargs.values()) for v in (a if type(a) is list else (a,)))
        like = next((v for v in given if isinstance(v, TVTensor)), None)
        return result if like is None else _kept(result, like)


_keeping = _Keeping()


def _kept(result, like):
    if isinstance(result, Tensor) and not isinstance(result, type(like)):
        return type(like).wrap(result, like, check_dims=False)
    if isinstance(result, (tuple, list)):
        return type(result)(_kept(item, like) for item in result)
    return result


class _Returning:
    """What operations give, until the end of a block if it is used as one."""

    def __init__(self, keeps: bool) -> None:
        self.before = interposing.is_pushed(_keeping)
        self._switch(keeps)

    def _switch(self, keeps: bool) -> None:
        if keeps != interposing.is_pushed(_keeping):
            (interposing.push if keeps else interposing.pop)(_keeping)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self._switch(self.before)


def set_return_type(return_type: str) -> Any:
    """What operations on these tensors give: "Tensor" (plain ones) or "TVTensor" (of their kind).

    It holds from now on, or for a block: `with set_return_type("TVTensor"): ...`.
    """
    wanted = return_type.lower()
    if wanted not in ("tensor", "tvtensor"):
        raise ValueError(f"return_type must be 'TVTensor' or 'Tensor', got {wanted}")
    return _Returning(wanted == "tvtensor")
