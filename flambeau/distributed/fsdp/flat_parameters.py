"""A unit of `FullyShardedDataParallel`: parameters side by side in one vector, cut evenly.

The vector is the `FlatParameter`; each process has a part of it, in which parameters begin and end
anywhere. Whole parameters are views of a whole vector.
"""

from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.autograd.grad_mode import no_grad
from flambeau.distributed.fsdp.memory import fill, free, unnoticed
from flambeau.distributed.fsdp.units import Unit
from flambeau.nn.parameter import Parameter

__all__ = ["FlatParameter", "FlatUnit"]


class FlatParameter(Parameter):
    """This process's part of the parameters of a unit, as one vector."""

    __slots__ = ()


class Piece:
    """One parameter of the vector."""

    def __init__(self, param: Any, places: list, begin: int, name: str) -> None:
        self.places, self.begin, self.name = places, begin, name
        self.shape, self.numel = param.shape, param.numel()
        self.requires_grad, self.dtype = param.requires_grad, param.dtype
        self.leaf: Any = None
        self.shard: Any = None  # what an optimizer sees of it, with use_orig_params

    @property
    def end(self) -> int:
        """Where it ends in the vector."""
        return self.begin + self.numel

    def within(self, begin: int, length: int) -> tuple[int, int]:
        """(begin, end) of what a part of the vector has of it, counted within the part."""
        low = min(max(self.begin - begin, 0), length)
        return low, max(min(self.end - begin, length), low)


class FlatUnit(Unit):
    """Parameters as one vector.

    Args:
        found: parameters with their places, from `places_of`.
        names: a name for each.
        shards: is the vector cut, or does every process have all of it?
    """

    def __init__(
        self,
        found: dict,
        names: dict[int, str],
        group: Any,
        replicas: Any,
        shards: bool,
        uses_originals: bool,
        precision: Any,
    ) -> None:
        super().__init__(group, replicas)
        self.shards, self.uses_originals, self.precision = shards, uses_originals, precision
        self.pieces: list[Piece] = []
        total = 0
        for key, (p, places) in found.items():
            self.pieces.append(Piece(p, places, total, names[key]))
            total += p.numel()
        params = [p for p, _ in found.values()]
        self._check(params)
        self.total, self.parts = total, group.size() if shards else 1
        self.length = -(-total // self.parts)
        self.dtype = params[0].dtype
        self.begin = self.length * (group.rank() if shards else 0)
        with no_grad():
            whole = flambeau.cat([p.detach().reshape(-1) for p in params])
            own = self.cut(whole)
        self.flat_param: Any = FlatParameter(
            own, requires_grad=any(p.requires_grad for p in params)
        )
        self.compute_dtype = (precision and precision.param_dtype) or self.dtype
        self.is_direct = not shards and self.compute_dtype is self.dtype  # leaves look at the shard
        self._make_leaves()
        self.make_shards()
        self._sums: Any = None
        self.hook: Any = None
        self.hook_state: Any = None
        self._install(False)
        self.listen()

    def _check(self, params):
        kinds = {p.dtype for p in params}
        if len(kinds) > 1:
            first, second = list(dict.fromkeys(p.dtype for p in params))[:2]
            raise ValueError(
                f"Must flatten tensors with uniform dtype but got {first} and {second}"
            )
        if not self.uses_originals and len({p.requires_grad for p in params}) > 1:
            raise ValueError(
                "Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`"
            )

    def cut(self, whole: Tensor) -> Tensor:
        """This process's part of a vector, with zeros at its end."""
        part = whole[self.begin : self.begin + self.length].clone()
        missing = self.length - part.numel()
        return flambeau.cat([part, part.new_zeros(missing)]) if missing else part

    def _make_leaves(self):
        count = self.length * self.parts
        self.nbytes = count * self.compute_dtype.itemsize
        if self.is_direct:
            self.whole = self.flat_param.detach()
        else:
            self.whole = flambeau.empty(
                count, dtype=self.compute_dtype, device=self.flat_param.device
            )
        for piece in self.pieces:
            view = self.whole[piece.begin : piece.end].view(piece.shape)
            piece.leaf = Parameter(view, requires_grad=piece.requires_grad)
        self.leaves = [piece.leaf for piece in self.pieces]
        if not self.is_direct:
            free(self.whole)

    def make_shards(self) -> None:
        """Parameters as optimizers see them with use_orig_params: vectors within the part."""
        for piece in self.pieces if self.uses_originals else ():
            low, high = piece.within(self.begin, self.length)
            view = self.flat_param.detach()[low:high]
            view = view if self.shards else view.view(piece.shape)
            piece.shard = Parameter(view, requires_grad=piece.requires_grad)

    def refresh(self) -> None:
        """The dtype of the part has been changed from outside."""
        if self.uses_originals:
            with no_grad():
                part = self.flat_param.detach()
                if self.pieces[0].shard.dtype is part.dtype:
                    return
                part = part.to(self.pieces[0].shard.dtype)
                for piece in self.pieces:
                    low, high = piece.within(self.begin, self.length)
                    part[low:high] = piece.shard.detach().reshape(-1)
            self.flat_param = FlatParameter(part, requires_grad=self.flat_param.requires_grad)
            for piece in self.pieces:
                low, high = piece.within(self.begin, self.length)
                piece.shard.data = part[low:high].view(piece.shard.shape)
        if self.flat_param.dtype is not self.dtype:
            wanted = self.precision and self.precision.param_dtype
            self.dtype = self.flat_param.dtype
            self.compute_dtype = wanted or self.dtype
            self._make_leaves()
            self.listen()

    # -- gathering ---------------------------------------------------------------------------------
    def _gather_start(self) -> Any:
        if self.is_direct:
            return None
        fill(self.whole, self.nbytes)
        own = self.flat_param.detach().to(self.compute_dtype)
        self._quiet = unnoticed(self.whole)
        self._quiet.__enter__()
        self._source = own  # stays until everybody has read it
        if not self.shards:
            self.whole.copy_(own)
            return None
        return distributed.all_gather_into_tensor(self.whole, own, group=self.group, async_op=True)

    def _gather_finish(self) -> None:
        if not self.is_direct:
            self._quiet.__exit__()
            self._source = None

    def _install(self, whole: bool) -> None:
        for piece in self.pieces:
            for module, name in piece.places:
                if whole:
                    module._parameters[name] = piece.leaf
                elif self.uses_originals:
                    module._parameters[name] = piece.shard
                else:
                    module._parameters.pop(name, None)

    def _free(self) -> None:
        if not self.is_direct:
            free(self.whole)

    # -- gradients ---------------------------------------------------------------------------------
    def _reduce_start(self) -> list:
        wanted = self.precision and (self.precision.reduce_dtype or self.precision.param_dtype)
        dtype = wanted or self.dtype
        with no_grad():
            source = self.flat_param.new_zeros(self.length * self.parts, dtype=dtype)
            for piece in self.pieces:
                grad = piece.leaf.grad
                if grad is not None:
                    source[piece.begin : piece.end] = grad.reshape(-1)
                    piece.leaf.grad = None
            if self.hook is not None:
                return self._by_hook(source)
            out = source.new_empty(self.length) if self.shards else source
            self._sums = out, source
            if self.shards:
                return [
                    distributed.reduce_scatter_tensor(out, source, group=self.group, async_op=True)
                ]
            return [distributed.all_reduce(out, group=self.group, async_op=True)]

    def _by_hook(self, source):
        """A hook of the user's adds up and divides."""
        out = source.new_empty(self.length) if self.shards else source
        self._sums = out, None
        self.hook(self.hook_state, source, *((out,) if self.shards else ()))
        return []

    def _reduce_finish(self) -> None:
        total, source = self._sums
        self._sums = None
        with no_grad():
            if source is not None:
                if self.replicas is not None:
                    distributed.all_reduce(total, group=self.replicas)
                total /= self.factor()
            keeps = self.precision and self.precision.keep_low_precision_grads
            total = total if keeps else total.to(self.dtype)
            self.give(total)

    def give(self, grad: Tensor) -> None:
        """A gradient of the part, to be added to what optimizers see."""
        if not self.uses_originals:
            held = self.flat_param.grad
            self.flat_param.grad = grad if held is None else held + grad
            return
        for piece in self.pieces:
            low, high = piece.within(self.begin, self.length)
            if high > low and piece.requires_grad:
                own = grad[low:high].view(piece.shard.shape)
                held = piece.shard.grad
                piece.shard.grad = own if held is None else held + own

    def gradient(self) -> Tensor | None:
        """The gradient of the part."""
        if not self.uses_originals:
            return self.flat_param.grad
        out = None
        for piece in self.pieces:
            if piece.shard.grad is not None:
                out = flambeau.zeros_like(self.flat_param.detach()) if out is None else out
                low, high = piece.within(self.begin, self.length)
                out[low:high] = piece.shard.grad.reshape(-1)
        return out

    def parameters(self) -> list[Any]:
        """What optimizers see of it."""
        return [p.shard for p in self.pieces] if self.uses_originals else [self.flat_param]

    # -- whole values ------------------------------------------------------------------------------
    def gathered(self, part: Tensor) -> Tensor:
        """Parts of all processes, as one vector without what was added at its end."""
        part = part.detach().contiguous()
        if not self.shards:
            return part[: self.total].clone()
        whole = part.new_empty(self.length * self.parts)
        distributed.all_gather_into_tensor(whole, part, group=self.group)
        return whole[: self.total]

    def split(self, whole: Tensor) -> list[Tensor]:
        """A whole vector as parameters."""
        return [whole[p.begin : p.end].view(p.shape) for p in self.pieces]

    def load(self, whole: Tensor) -> None:
        """Take this process's part of a whole vector."""
        with no_grad():
            self.flat_param.detach().copy_(self.cut(whole))
