"""Cross entropy of scores that are spread over processes, by rows or by classes."""

import contextlib
from collections.abc import Iterator
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed.tensor._utils import compute_local_shape_and_global_offset
from flambeau.distributed.tensor.distributing import distribute_tensor
from flambeau.distributed.tensor.dtensor import DTensor, made, moved
from flambeau.distributed.tensor.placement_types import Partial, Replicate
from flambeau.distributed.tensor.redistribution import changed

__all__ = ["loss_parallel"]


class _State:
    is_on = False


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """A context in which cross entropy keeps scores cut along classes as they are.

    Backward is called inside, too.
    """
    before, _State.is_on = _State.is_on, True
    try:
        yield
    finally:
        _State.is_on = before


def entropy(func: Any, args: tuple, kwargs: dict) -> Any:
    """Cross entropy of rows of scores; NotImplemented where whole rows should be gathered."""
    scores, target, weight, ignored, reduction = args
    if not isinstance(scores, DTensor):
        return NotImplemented
    cut = [k for k, p in enumerate(scores.placements) if p.is_shard(1)]
    rows = [k for k, p in enumerate(scores.placements) if p.is_shard(0)]
    if (cut and not _State.is_on) or not (cut or rows):
        return NotImplemented
    if any(p.is_partial() for p in scores.placements):
        return NotImplemented
    target = _alike(target, scores, func)
    weight = weight.full_tensor() if isinstance(weight, DTensor) else weight
    if reduction not in ("none", "mean", "sum"):
        return NotImplemented
    loss, scale = _of_rows(scores, target, weight, ignored, cut)
    if reduction == "none":
        return loss, scale
    total = _whole(loss.sum())
    if reduction == "mean":
        total = total / _whole(scale.sum())
    return total, scale


def _whole(t):
    return moved(t, (Replicate(),) * t.device_mesh.ndim)


def _alike(target, scores, func):
    """The target, cut by rows as the scores are."""
    mesh = scores.device_mesh
    placed = tuple(p if p.is_shard(0) else Replicate() for p in scores.placements)
    if isinstance(target, DTensor):
        return moved(target, placed)
    if not _State.is_on:
        raise RuntimeError(
            f"{func} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
            "DTensor before calling distributed operators!"
        )
    whole = distribute_tensor(target, mesh, [Replicate()] * mesh.ndim, src_data_rank=None)
    return moved(whole, placed)


def _joined(local, kind, mesh, dims):
    """Reduce a local tensor over dimensions of the mesh; its gradient is everybody's."""
    placed = tuple(Partial(kind) if k in dims else Replicate() for k in range(mesh.ndim))
    whole = (Replicate(),) * mesh.ndim
    if kind == "max":
        return changed(local.detach(), local.shape, mesh, placed, whole)
    return moved(made(local, mesh, placed, local.shape, local.stride()), whole)._local_tensor


def _of_rows(scores, target, weight, ignored, cut) -> tuple[Tensor, Tensor]:
    """(loss, weight) of each row; classes are cut along some dimensions of the mesh."""
    mesh, local, classes = scores.device_mesh, scores._local_tensor, target._local_tensor
    shape, begin = compute_local_shape_and_global_offset(scores.shape, mesh, scores.placements)
    counts = classes != ignored
    own = classes - begin[1]
    here = counts & (own >= 0) & (own < shape[1])
    if shape[1]:
        top = local.detach().amax(1)
        picked = local.gather(1, own.masked_fill(~here, 0).unsqueeze(1)).squeeze(1)
    else:
        top, picked = local.new_full((shape[0],), -float("inf")), local.sum(1)
    top = _joined(top, "max", mesh, cut)
    total = _joined((local - top.unsqueeze(1)).exp().sum(1), "sum", mesh, cut)
    picked = _joined(flambeau.where(here, picked, 0.0), "sum", mesh, cut)
    scale = counts.to(local.dtype)
    if weight is not None:
        scale = scale * weight[classes.masked_fill(~counts, 0)]
    loss = flambeau.where(counts, total.log() + top - picked, 0.0) * scale
    placed = target.placements
    rows = target.shape
    return made(loss, mesh, placed, rows, (1,)), made(scale, mesh, placed, rows, (1,))
