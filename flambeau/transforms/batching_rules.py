"""vmap of templates: how the dimension of samples goes into one that the kernel batches over.

Three ways do for most rows. Rows along a dimension have it shifted (`_ALONG`); rows that work on
their last dimensions take any number before them (`_LEADING`); rows on images count samples among
the images (`_IMAGES`). Products and convolutions are in batching_products.py, rows with indices in
batching_places.py.
"""

from flambeau._layout import dense_layout
from flambeau._memory_format import contiguous_format
from flambeau._tensor import Tensor
from flambeau.ops.table import TABLE, public
from flambeau.transforms import batching_places, batching_products  # noqa: F401  register theirs
from flambeau.transforms.batching import TEMPLATES, batches, called, changed, rank_of, shifted
from flambeau.transforms.levels import rebuilt

# -- along a dimension -----------------------------------------------------------------------------

# row -> the parameters that are dimensions
_ALONG = {
    **dict.fromkeys(
        "_softmax _log_softmax cumsum cumprod cummax cummin logcumsumexp sort topk kthvalue mode "
        "_median_dim _nanmedian_dim _logsumexp_rows".split(),
        ("dim",),
    ),
    **dict.fromkeys("_fft_c2c _fft_r2c _fft_c2r flip".split(), ("dims",)),
}


def _along(level, op, bound):
    first = op.params[0].name
    t = bound[first]
    value, rank = t._value, rank_of(t)
    if rank == 0:
        return _of_numbers(level, op, bound, value)
    new = {n: _shift_all(bound[n], rank) for n in _ALONG[op.name]}
    return changed(op, level, bound, **{first: value, **new})


def _shift_all(dims, rank):
    if isinstance(dims, (tuple, list)):
        return tuple(shifted(d, rank) for d in dims)
    return shifted(dims, rank)


def _of_numbers(level, op, bound, value):
    """Samples without dimensions: they get one for the time being."""
    dims = {n: (1,) if isinstance(bound[n], (tuple, list)) else 1 for n in _ALONG[op.name]}
    if op.name == "flip":
        return value.clone()
    found = changed(op, level, bound, **{op.params[0].name: value.unsqueeze(1), **dims})
    keeps = op.name in ("kthvalue", "mode", "_median_dim", "_nanmedian_dim", "_logsumexp_rows")
    if keeps and not bound["keepdim"]:
        return found
    if isinstance(found, Tensor):
        return found.squeeze(1)
    parts = [f.squeeze(1) for f in found]
    return rebuilt(found, parts)


for _name in _ALONG:
    TEMPLATES[_name] = _along


@batches("_median_all", "_nanmedian_all")
def _median(level, op, bound):
    value = bound["input"]._value
    flat = value.flatten(1) if value.ndim > 1 else value.unsqueeze(1)
    return public(op.name.replace("_all", "_dim"))(flat, 1, False)[0]


@batches("count_all_nonzero")
def _count(level, op, bound):
    value = bound["input"]._value
    return (value != 0).flatten(1).sum(1) if value.ndim > 1 else (value != 0).long()


@batches("_is_all_true", "_is_any_true")
def _of_all_samples(level, op, bound):
    return level.lift(called(op, {"input": level.plain(bound["input"])}))


@batches("roll")
def _roll(level, op, bound):
    value, rank = bound["input"]._value, rank_of(bound["input"])
    shifts, dims = bound["shifts"], bound["dims"]
    if rank == 0:
        return value.clone()
    if dims is None or dims == ():
        return value.flatten(1).roll(shifts, 1).reshape(value.shape)
    return value.roll(shifts, _shift_all(dims, rank))


@batches("repeat")
def _repeat(level, op, bound):
    repeats = bound["repeats"]
    repeats = tuple(repeats) if isinstance(repeats, (tuple, list)) else (repeats,)
    return level.front(bound["input"], len(repeats)).repeat(1, *repeats)


@batches("diag_embed")
def _diag_embed(level, op, bound):
    rank = rank_of(bound["input"]) + 1
    return changed(
        op,
        level,
        bound,
        input=bound["input"]._value,
        dim1=shifted(bound["dim1"], rank),
        dim2=shifted(bound["dim2"], rank),
    )


@batches("cat")
def _cat(level, op, bound):
    tensors = [t for t in bound["tensors"] if tuple(t.shape) != (0,)] or list(bound["tensors"])
    dim = shifted(bound["dim"], max(1, rank_of(tensors[0])))
    return public("cat")([level.front(t) for t in tensors], dim)


@batches("stack")
def _stack(level, op, bound):
    dim = shifted(bound["dim"], rank_of(bound["tensors"][0]) + 1)
    return public("stack")([level.front(t) for t in bound["tensors"]], dim)


@batches("block_diag")
def _block_diag(level, op, bound):
    """Zeros beside each block; those below come by joining."""
    parts = [level.front(t, 2) for t in bound["tensors"]]
    width = sum(p.shape[2] for p in parts)
    rows, at = [], 0
    for p in parts:
        pad = public("constant_pad_nd")
        rows.append(pad(p, (at, width - at - p.shape[2]), 0))
        at += p.shape[2]
    return public("cat")(rows, 1)


@batches("clone")
def _clone(level, op, bound):
    dense = bound["memory_format"] is contiguous_format
    return bound["input"]._value.clone(memory_format=contiguous_format if dense else None)


@batches("_to_copy")
def _to_copy(level, op, bound):
    return changed(op, level, bound, memory_format=None)


# -- on the last dimensions ------------------------------------------------------------------------

_LEADING = (
    "tril triu constant_pad_nd pixel_shuffle pixel_unshuffle "
    "_linalg_inv_ex _linalg_det _linalg_slogdet _linalg_lu_factor_ex _linalg_cholesky_ex _cholesky "
    "_linalg_ldl_factor_ex _linalg_svd _linalg_eigh _linalg_eig _linalg_qr _geqrf "
    "_linalg_solve_ex _linalg_factored_solve linalg_solve_triangular _lu_permutation "
    "pair_distances ones_at linalg_matrix_exp"
).split()


def _leading(level, op, bound):
    """All tensors with samples first; where there are several they have them all alike."""
    tensors = {n: v for n, v in bound.items() if isinstance(v, Tensor)}
    if len(tensors) == 1:
        return changed(op, level, bound)
    return changed(op, level, bound, **{n: level.front(v) for n, v in tensors.items()})


for _name in _LEADING:
    TEMPLATES[_name] = _leading


@batches("_linalg_solve_ex", "linalg_solve_triangular", "pair_distances")
def _alike(level, op, bound):
    """Batches of matrices that broadcast: as many dimensions for all."""
    tensors = {n: v for n, v in bound.items() if isinstance(v, Tensor)}
    ranks = [rank_of(v) for v in tensors.values()]
    if op.name == "_linalg_solve_ex" and min(ranks) < max(ranks):
        return _solve_lines(level, op, bound)
    new = {n: level.front(v, max(ranks)) for n, v in tensors.items()}
    return changed(op, level, bound, **new)


def _solve_lines(level, op, bound):
    """A right side of vectors: as matrices of one column."""
    a, b, left = level.front(bound["A"]), level.front(bound["B"]), bound["left"]
    dim = -1 if left else -2
    found = called(op, {**bound, "A": a, "B": b.unsqueeze(dim)})
    return (found[0].squeeze(dim), *found[1:])


@batches("linalg_lu_solve", "linalg_ldl_solve")
def _solve_factored(level, op, bound):
    """Matrices, and pivots with a dimension less, whose batches broadcast."""
    tensors = {n: v for n, v in bound.items() if isinstance(v, Tensor)}
    own = {n: 1 if n == "pivots" else 2 for n in tensors}
    most = max(rank_of(v) - own[n] for n, v in tensors.items())
    new = {n: level.front(v, most + own[n]) for n, v in tensors.items()}
    return changed(op, level, bound, **new)


@batches("self_distances")
def _self_distances(level, op, bound):
    """All pairs of rows, of which those above the diagonal count."""
    value = bound["input"]._value
    rows = value.shape[1]
    pairs = public("triu_indices")(rows, rows, 1)
    both = value[:, pairs[0]] - value[:, pairs[1]]
    return public("linalg_vector_norm")(both, bound["p"], -1)


@batches("native_layer_norm", "_fused_rms_norm")
def _layer_norm(level, op, bound):
    weight, bias = bound["weight"], bound.get("bias")
    plain = not (level.is_batched(weight) or level.is_batched(bias))
    if plain and level.is_batched(bound["input"]):
        return changed(op, level, bound)
    none = {"weight": None} | ({"bias": None} if "bias" in bound else {})
    found = changed(op, level, bound, **{"input": level.front(bound["input"]), **none})
    out, rank = found[0], rank_of(bound["input"])
    if weight is not None:
        out = out * level.front(weight, rank)
    if bias is not None:
        out = out + level.front(bias, rank)
    return (out, *found[1:])


@batches("diagonal_scatter", "select_scatter", "slice_scatter", "as_strided_scatter")
def _scattered(level, op, bound):
    """Copies that are written to: there must be one for each sample."""
    return op.body(**{**bound, "input": level.batched(level.front(bound["input"]))})


# -- images ----------------------------------------------------------------------------------------

_BACK = "_backward"
_PLANES = {"1d": 3, "2d": 4, "3d": 5}
_IMAGES = [
    name
    for name, row in TABLE.items()
    if row.kind == "template"
    and ("pool" in name or "upsample" in name or ("_pad" in name and name != "constant_pad_nd"))
    and any(f"{k}d" in name for k in (1, 2, 3))
]


def _rank_of_images(name):
    return next(rank for word, rank in _PLANES.items() if word in name)


def folded(value: Tensor) -> Tensor:
    """Samples and images as more images."""
    return value.reshape(value.shape[0] * value.shape[1], *value.shape[2:])


def unfolded(level, count, found):
    """The other way round, for each result."""

    def cut(t):
        return None if t is None else t.reshape(level.size, count, *t.shape[1:])

    if isinstance(found, Tensor):
        return cut(found)
    return tuple(cut(f) for f in found)


def _images(level, op, bound):
    tensors = {n: v for n, v in bound.items() if isinstance(v, Tensor)}
    first = next(iter(tensors))
    rank, wanted = rank_of(bound[first]), _rank_of_images(op.name)
    values = {n: level.front(v) for n, v in tensors.items()}
    if rank == wanted - 1:
        return changed(op, level, bound, **values, **_sized(level, bound, None, wanted))
    if rank != wanted:
        return NotImplemented
    count = bound[first].shape[0]
    values = {n: folded(v) for n, v in values.items()}
    found = changed(op, level, bound, **values, **_sized(level, bound, count, wanted))
    return unfolded(level, count, found)


def _sized(level, bound, count, wanted):
    """Sizes and layouts of inputs among arguments, with samples."""
    new = {}
    for name in ("layout", "input_size"):
        if name not in bound:
            continue
        own = bound[name]
        sizes = tuple(own.sizes if name == "layout" else own)
        if len(sizes) == wanted:
            sizes = (level.size * sizes[0], *sizes[1:])
        elif len(sizes) == wanted - 1:
            sizes = (level.size, *sizes)
        else:
            continue
        if name == "layout":
            device = next(v for v in bound.values() if isinstance(v, Tensor)).device
            new[name] = dense_layout(sizes, own.dtype, device)
        else:
            new[name] = sizes
    return new


for _name in _IMAGES:
    TEMPLATES[_name] = _images


@batches("im2col", "col2im")
def _columns(level, op, bound):
    value, rank = bound["input"]._value, rank_of(bound["input"])
    usual = 4 if op.name == "im2col" else 3
    if rank == usual:
        return unfolded(level, value.shape[1], changed(op, level, bound, input=folded(value)))
    return NotImplemented if rank != usual - 1 else changed(op, level, bound)


@batches("channel_shuffle", "native_channel_shuffle")
def _channel_shuffle(level, op, bound):
    value = bound["input"]._value
    return unfolded(level, value.shape[1], changed(op, level, bound, input=folded(value)))


@batches("_grid_sampler_2d", "_grid_sampler_3d")
def _grid_sampler(level, op, bound):
    input, grid = level.front(bound["input"]), level.front(bound["grid"])
    count = input.shape[1]
    found = changed(op, level, bound, input=folded(input), grid=folded(grid))
    return unfolded(level, count, found)


@batches("native_group_norm")
def _group_norm(level, op, bound):
    weight, bias = bound["weight"], bound["bias"]
    value = folded(level.front(bound["input"]))
    own = not (level.is_batched(weight) or level.is_batched(bias))
    new = {"input": value, "N": bound["N"] * level.size}
    if not own:
        new |= {"weight": None, "bias": None}
    out, mean, scale = unfolded(level, bound["N"], changed(op, level, bound, **new))
    if not own:
        shape = (level.size, 1, bound["C"], *[1] * (out.ndim - 3))
        if weight is not None:
            out = out * level.front(weight).reshape(shape)
        if bias is not None:
            out = out + level.front(bias).reshape(shape)
    return out, mean, scale


_RUNNING = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be "
    "updated in place, were not batched.\nIf you are using a module and do not need eval mode, "
    "please set `track_running_stats` to be False.If you are using a prebuilt module and do not "
    "need eval mode, please see the functorch website for resources on how to patch your module to "
    "work with vmap"
)


@batches("native_batch_norm")
def _batch_norm(level, op, bound):
    """Channels of all samples side by side: each is normalised by itself."""
    value = level.front(bound["input"])
    count, channels = value.shape[1], value.shape[2]
    joined = value.transpose(0, 1).reshape(count, level.size * channels, *value.shape[3:])
    running = {}
    for name in ("weight", "bias", "running_mean", "running_var"):
        t = bound[name]
        if t is None:
            continue
        moves = name.startswith("running") and bound["training"]
        if moves and not level.is_batched(t) and level.is_batched(bound["input"]):
            raise RuntimeError(_RUNNING)
        running[name] = level.front(t).reshape(level.size * channels)
    out, mean, scale = changed(op, level, bound, input=joined, **running)
    if bound["training"]:
        for name in ("running_mean", "running_var"):
            if bound[name] is not None:  # which the kernel has moved
                bound[name]._value.copy_(running[name].reshape(level.size, channels))
    shape = (count, level.size, channels, *value.shape[3:])
    out = out.reshape(shape).transpose(0, 1)
    return out, _channels(level, mean, channels), _channels(level, scale, channels)


def _channels(level, t, channels):
    if t.numel() != level.size * channels:
        return t.expand(level.size, *t.shape)
    return t.reshape(level.size, channels)


# -- losses ----------------------------------------------------------------------------------------


@batches("_cross_entropy_rows", "_nll_loss", "_nll_loss2d")
def _picked(level, op, bound):
    """The loss of each position, then what is made of those of a sample."""
    weight, reduction = bound["weight"], bound["reduction"]
    input, target = level.front(bound["input"]), level.front(bound["target"])
    ignored = bound["ignore_index"]
    flat = input.reshape(level.size * input.shape[1], *input.shape[2:])
    losses = op(flat, target.flatten(0, 1), None, ignored, "none")[0].reshape(target.shape)
    dims = tuple(range(1, target.ndim))
    kept = (target != ignored).to(losses.dtype)
    if weight is not None:
        kept = kept * _of_classes(level, weight, target)
        losses = losses * kept
    total = kept.sum(dims)
    if reduction == "none":
        return losses, total
    return losses.sum(dims) / total if reduction == "mean" else losses.sum(dims), total


def _of_classes(level, weight, target):
    """The weight of each target's class."""
    values = level.front(weight)
    places = target.clamp(0, values.shape[1] - 1).reshape(level.size, -1)
    return values.gather(1, places).reshape(target.shape)


@batches("multi_margin")
def _multi_margin(level, op, bound):
    input, target = level.front(bound["input"]), level.front(bound["target"])
    rows = input.reshape(-1, input.shape[-1])
    new = {"input": rows, "target": target.reshape(-1), "weight": None, "reduction": 0}
    losses = changed(op, level, bound, **new).reshape(level.size, -1)
    if bound["weight"] is not None:
        losses = losses * _of_classes(level, bound["weight"], target).reshape(losses.shape)
    if bound["reduction"] == 0:
        return losses.reshape(target.shape[: rank_of(bound["input"])])
    return losses.mean(1) if bound["reduction"] == 1 else losses.sum(1)


@batches("alignments", "alignment_gradient")
def _alignments(level, op, bound):
    """Samples count among those of a batch, which is the second dimension."""
    targets, lengths = bound["targets"], bound["lengths"]
    step = targets.numel() if level.is_batched(targets) else 0  # from one's targets to the next's
    new = {n: folded(level.front(bound[n])) for n in ("g", "losses", "sums") if n in bound}
    values = level.front(bound["log_probs"]).movedim(0, 1)
    new["log_probs"] = values.reshape(values.shape[0], -1, values.shape[-1])
    if step:
        new["targets"] = targets._value.flatten(0, 1)
    new["lengths"] = tuple(
        n + k * step if j % 3 == 2 else n for k in range(level.size) for j, n in enumerate(lengths)
    )
    found = changed(op, level, bound, **new)
    if isinstance(found, Tensor):
        return found.reshape(values.shape).movedim(1, 0)
    return unfolded(level, values.shape[2], found)
