"""Ways of ops that are neither pointwise nor reductions nor views: products, norms, layers."""

from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau import Tensor, distributed
from flambeau.distributed.tensor._utils import part_of
from flambeau.distributed.tensor.dtensor import DTensor, made, moved
from flambeau.distributed.tensor.placement_types import Partial, Shard
from flambeau.distributed.tensor.redistribution import REPLICATE, of_gradient
from flambeau.distributed.tensor.rules import (
    PARTIAL,
    Call,
    Way,
    cut_alike,
    hand,
    pointwise,
    rule,
)
from flambeau.utils import _pytree as pytree

# -- products --------------------------------------------------------------------------------------


def _letters(call):
    """Names of the dimensions of each input, and of the output; a repeated name is one index."""
    shapes = [t.shape for t in call.tensors]
    if call.name == "linear":
        rows = [f"r{k}" for k in range(len(shapes[0]) - 1)]
        return [[*rows, "k"], ["n", "k"][2 - len(shapes[1]) :], ["n"]][: len(shapes)], [*rows, "n"]
    if call.name in ("addmm", "baddbmm", "addmv"):
        first, second, out = _product(shapes[1], shapes[2])
        return [[], first, second], out
    first, second, out = _product(*shapes[:2])
    return [first, second], out


def _product(a, b):
    batch = max(len(a), len(b)) - 2
    names = [f"b{k}" for k in range(batch)]
    first = [*names[batch - max(len(a) - 2, 0) :], *(["m", "k"] if len(a) > 1 else ["k"])]
    second = [*names[batch - max(len(b) - 2, 0) :], *(["k", "n"] if len(b) > 1 else ["k"])]
    out = [*names, *(["m"] if len(a) > 1 else []), *(["n"] if len(b) > 1 else [])]
    return first, second, out


@rule("mm bmm matmul __matmul__ mv dot linear addmm baddbmm addmv")
def product(call: Call, size: int) -> Iterable[Way]:
    """Any index may be cut; summing over one that is cut gives summands."""
    inputs, out = _letters(call)
    adds = call.name in ("addmm", "baddbmm", "addmv")
    shape = call.outside.shape
    for letter in sorted({*inputs[-1], *inputs[-2], *out, *inputs[0]}):
        placed: list[Any] = []
        for t, names in zip(call.tensors, inputs):
            here = names.index(letter) if letter in names else 0
            is_wide = letter in names and t.shape[here] > 1
            placed.append(Shard(here) if is_wide else REPLICATE)
        if letter in out:
            d = out.index(letter)
            if shape[d] == 1:
                continue
            if adds:
                placed[0] = cut_alike(call.tensors[0], d, shape)
            yield Way(tuple(placed), Shard(d))
        elif call.tensors[-1 if adds else 0].shape:
            if adds:
                placed[0] = PARTIAL
            elif call.name == "linear" and len(placed) > 2:
                placed[2] = PARTIAL
            yield Way(tuple(placed), PARTIAL)
    if not adds:
        rest = (PARTIAL,) * (len(call.tensors) - 2)
        yield Way((PARTIAL, REPLICATE, *rest), PARTIAL)
        yield Way((REPLICATE, PARTIAL, *rest), PARTIAL)


@rule("convolution conv1d conv2d conv3d native_batch_norm_eval")
def of_batches(call: Call, size: int) -> Iterable[Way]:
    """The first dimension of the first input may be cut."""
    yield Way((Shard(0), *(REPLICATE,) * (len(call.tensors) - 1)), Shard(0))


@rule(
    "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d "
    "adaptive_avg_pool2d adaptive_avg_pool3d max_pool2d_with_indices native_group_norm"
)
def of_images(call: Call, size: int) -> Iterable[Way]:
    """Images may be spread over processes; norms of groups of channels keep channels together."""
    x, rest = call.tensors[0], (REPLICATE,) * (len(call.tensors) - 1)
    if x.dim() > 2:
        yield Way((Shard(0), *rest), Shard(0))
    if x.dim() > 3 and not rest:
        yield Way((Shard(1),), Shard(1))


# -- along a dimension -----------------------------------------------------------------------------


@rule(
    "softmax log_softmax _softmax _log_softmax cumsum cumprod sort topk flip cummax cummin roll "
    "logcumsumexp argsort tril triu glu kthvalue mode"
)
def along(call: Call, size: int) -> Iterable[Way]:
    """All dimensions but the one that the op works along may be cut."""
    x = call.tensors[0]
    dims = call.given(1, "dim", "dims", default=-1)
    if call.name in ("topk", "kthvalue"):
        dims = call.given(2, "dim", default=-1)
    elif call.name == "sort":
        dims = next((a for a in call.args[1:] if not isinstance(a, bool)), None)
        dims = call.kwargs.get("dim", -1) if dims is None else dims
    elif call.name in ("tril", "triu"):
        dims = (-1, -2)
    elif call.name == "roll":
        dims = call.given(2, "dims", default=())
    if dims is None or len(call.tensors) > 1:
        return
    fixed = {d % x.dim() for d in (dims if isinstance(dims, (tuple, list)) else [dims])}
    for d in range(x.dim()) if fixed else ():
        if d not in fixed:
            yield Way((Shard(d),), Shard(d))


@rule("cat concat stack")
def joined(call: Call, size: int) -> Iterable[Way]:
    """Dimensions that are not joined may be cut."""
    ndim, new = call.tensors[0].dim(), call.name == "stack"
    count = len(call.tensors)
    dim = call.given(1, "dim", default=0) % (ndim + new)
    for d in range(ndim):
        if d != dim or new:
            yield Way((Shard(d),) * count, Shard(d + (new and dim <= d)))
    yield Way((PARTIAL,) * count, PARTIAL)


# -- layers ----------------------------------------------------------------------------------------


@rule("native_layer_norm layer_norm _fused_rms_norm rms_norm")
def normalized(call: Call, size: int) -> Iterable[Way]:
    """Dimensions before the normalized ones may be cut."""
    shape = call.given(1, "normalized_shape")
    x, rest = call.tensors[0], (REPLICATE,) * (len(call.tensors) - 1)
    count = 1 if isinstance(shape, int) else len(shape)
    for d in range(x.dim() - count):
        yield Way((Shard(d), *rest), Shard(d))


@rule("embedding")
def embedded(call: Call, size: int) -> Iterable[Way]:
    """Indices may be cut, or the table: by columns, or by rows (then each gives what it has)."""
    is_index = [not t.is_floating_point() for t in call.tensors]
    index = call.tensors[is_index.index(True)]
    for d in range(index.dim()):
        yield Way(tuple(Shard(d) if i else REPLICATE for i in is_index), Shard(d))
    yield Way(tuple(REPLICATE if i else Shard(1) for i in is_index), Shard(index.dim()))
    yield Way(tuple(REPLICATE if i else Shard(0) for i in is_index), PARTIAL, _rows_of_table)


def _rows_of_table(call, outputs):
    """Looking up in the rows that this process has; others give zeros."""
    table = next(t for t in call.tensors if t.is_floating_point())
    spec, place = table._spec, call.mesh.get_coordinate()
    k = next(k for k, o in enumerate(outputs) if isinstance(o, Partial))
    length, begin = part_of(spec.shape[0], call.mesh.size(k), place[k])

    def local(first, second, *args, **kwargs):
        index, rows = (second, first) if first.is_floating_point() else (first, second)
        padding = args[0] if args else kwargs.get("padding_idx")
        own = index - begin
        outside = (own < 0) | (own >= length)
        own = own.masked_fill(outside, 0)
        if length == 0:
            return rows.new_zeros((*index.shape, rows.shape[1])) + 0 * rows.sum()
        found = flambeau.nn.functional.embedding(own, rows).masked_fill(outside.unsqueeze(-1), 0)
        if padding is not None and padding >= 0:  # its row gets no gradient
            fixed = (index == padding).unsqueeze(-1)
            found = flambeau.where(fixed, found.detach(), found)
        return found

    return local


@rule("_scaled_dot_product_flash_attention_for_cpu scaled_dot_product_attention _attention")
def attended(call: Call, size: int) -> Iterable[Way]:
    """Batches and heads may be spread."""
    query, count = call.tensors[0], len(call.tensors)
    for d in range(query.dim() - 2):
        placed = [Shard(d)] * min(count, 3)
        if any(t.shape[d] != query.shape[d] for t in call.tensors[:3]):
            continue
        rest = [cut_alike(t, d, query.shape) for t in call.tensors[3:]]
        yield Way((*placed, *rest), Shard(d))


@rule("nll_loss _nll_loss")
def rows_of_losses(call: Call, size: int) -> Iterable[Way]:
    """Rows may be spread where every row has its own result."""
    whole = [t for t in pytree.tree_leaves(call.outside) if isinstance(t, Tensor)]
    x = call.tensors[0]
    if all(t.dim() and t.shape[0] == x.shape[0] for t in whole):
        weights = (REPLICATE,) * (len(call.tensors) - 2)
        yield Way((Shard(0), Shard(0), *weights), Shard(0))


@rule("mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits "
      "binary_cross_entropy soft_margin_loss kl_div")  # fmt: skip
def losses(call: Call, size: int) -> Iterable[Way]:
    """Losses of elements: each has its own, or they are added up, or averaged."""
    kind = call.kwargs.get("reduction")
    kind = next((a for a in call.args[2:] if isinstance(a, str)), kind) or "mean"
    for way in pointwise(call, size):
        d = getattr(way.outputs, "dim", None)
        if d is None:
            continue
        if kind == "none":
            yield way
        elif kind == "sum":
            yield Way(way.inputs, PARTIAL)
        elif kind == "mean" and call.tensors[0].shape[d] % call.mesh.size() == 0:
            yield Way(way.inputs, Partial("avg"))


# -- ops that run in their own way -----------------------------------------------------------------


@hand("linalg_vector_norm norm")
def norm(func: Any, args: tuple, kwargs: dict) -> Any:
    """Norms of parts are joined by adding up powers."""
    x = args[0] if args else kwargs.get("x", kwargs.get("input"))
    order = args[1] if len(args) > 1 else kwargs.get("ord", kwargs.get("p", 2))
    dims = args[2] if len(args) > 2 else kwargs.get("dim")
    if (len([*args, *kwargs]) > 2 and dims is not None) or not isinstance(order, (int, float)):
        return NotImplemented
    order = float(order)
    if not isinstance(x, DTensor) or not any(p.is_shard() for p in x._spec.placements):
        return NotImplemented
    if any(p.is_partial() for p in x._spec.placements) or order <= 0:
        return NotImplemented
    part = x.abs()
    whole = (REPLICATE,) * x._spec.mesh.ndim
    if order == float("inf"):
        local = part._local_tensor
        top = local.amax() if local.numel() else local.sum()
        kinds = tuple(Partial("max") if p.is_shard() else p for p in x._spec.placements)
        return moved(made(top.detach(), x._spec.mesh, kinds, (), ()), whole)
    powers = part if order == 1 else part**order
    total = moved(powers.sum(), whole)  # type: ignore[arg-type]
    return total if order == 1 else total ** (1 / order)


@hand("equal")
def equal(func: Any, args: tuple, kwargs: dict) -> bool:
    """Are all parts equal?"""
    first, second = args
    if not (isinstance(first, DTensor) and isinstance(second, DTensor)):
        raise RuntimeError(
            f"{func} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
            "DTensor before calling distributed operators!"
        )
    if first.shape != second.shape:
        return False
    second = moved(second, first._spec.placements)
    same = flambeau.tensor(
        [int(flambeau.equal(first._local_tensor, second._local_tensor))], dtype=flambeau.int64
    )
    for k in range(first._spec.mesh.ndim):
        group = first._spec.mesh.get_group(k)
        distributed.all_reduce(same, op=distributed.ReduceOp.MIN, group=group)
    return bool(same.item())


def updated(func: Any, args: tuple, kwargs: dict) -> Any:
    """An optimizer's update: every tensor of a row lies as its parameter does."""
    name, columns, *rest = args
    lead = columns[0]
    placed: list[Any] = [
        tuple(of_gradient(t._spec.placements)) if isinstance(t, DTensor) else None for t in lead
    ]
    own = [
        None
        if column is None
        else [
            moved(t, p)._local_tensor if isinstance(t, DTensor) else t
            for t, p in zip(column, placed)
        ]
        for column in columns
    ]
    return func(name, own, *rest, **kwargs)


@hand("cross_entropy_rows")
def entropy_of_rows(func: Any, args: tuple, kwargs: dict) -> Any:
    """Cross entropy where rows, or under `loss_parallel` classes, are spread."""
    from flambeau.distributed.tensor.parallel.loss import entropy  # which few programs need

    return entropy(func, args, kwargs)
