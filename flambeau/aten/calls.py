"""Calls of functions here as calls of aten: which overload, and what arguments it is given.

PyTorch records a call with its arguments by position, as far as they go, without those at the end
that have their default. Lists are lists, a number for a list is repeated, words for reductions are
numbers. All of that follows from the schema of the overload.
"""

import functools
from collections.abc import Callable
from typing import Any

from flambeau import _device, _dtype
from flambeau._memory_format import strided
from flambeau._tensor import Tensor
from flambeau.aten import differences
from flambeau.aten.schemas import REQUIRED, FunctionSchema, fits, is_int, is_number, schemas_of
from flambeau.eager.binding import KEYWORDS
from flambeau.eager.stub_signatures import plain_signature
from flambeau.interposing import Name
from flambeau.ops.table import MISSING, TABLE
from flambeau.ops.table import REQUIRED as NEEDED

Values = dict[str, Any]


def named_call(name: Name, args: tuple, kwargs: Values) -> tuple[str, Values] | None:
    """(op, arguments by their names here) of a call; None if they do not say."""
    short = name.partition("::")[2]
    values = _bound(name.place, args, kwargs)
    if values is None:
        return None
    given = {key: value for key, value in values.items() if value is not MISSING}
    return _adapted(short, name.place, given)


def aten_call(name: Name, args: tuple, kwargs: Values) -> tuple[str, str, tuple, Values] | None:
    """(op, overload, args, kwargs) of a call; None if aten has no such op."""
    found = named_call(name, args, kwargs)
    return None if found is None else as_op(*found)


def as_op(short: str, values: Values) -> tuple[str, str, tuple, Values] | None:
    """The same for arguments by their names here."""
    schema = _overload(short, values)
    if schema is None:
        return None
    return short, schema.overload_name or "default", *_written(schema, short, values)


# -- arguments by name -----------------------------------------------------------------------------


def _bound(place, args, kwargs):
    """Arguments by the names of parameters; None if they do not say."""
    row = TABLE.get(place.row)
    if row is None or not row.params:
        return _by_signature(place, args, kwargs)
    params = [p.name for p in row.params]
    packed = row.options.get("varargs")
    if packed and (len(args) > len(params) or _begins(args, params.index(packed))):
        k = params.index(packed)
        args = (*args[:k], list(args[k:]))
    if len(args) > len(params):
        return None
    values = {p.name: p.default for p in row.params if p.default is not NEEDED}
    values |= zip(params, args)
    values |= {_known(key, params): value for key, value in kwargs.items()}
    return values


def _begins(args, k):
    """Is an argument the first of several, not all of them in a list?"""
    return len(args) > k and (is_int(args[k]) or isinstance(args[k], Tensor))


def _known(key, params):
    return key if key in params else KEYWORDS.get(key, key)


@functools.cache
def _signature(function):
    return plain_signature(function)


def _by_signature(place, args, kwargs):
    try:
        bound = _signature(place.copy).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    values = dict(bound.arguments)
    for key in ("args", "sizes", "arguments", "tensors"):
        parameter = bound.signature.parameters.get(key)
        if parameter is not None and parameter.kind is parameter.VAR_POSITIONAL:
            values["*"] = values.pop(key)
    return values


# -- functions that are other ops, or take other arguments -----------------------------------------


def _adapted(short, place, values):
    key = place.key
    if key in differences.OPERATORS:
        short = differences.OPERATORS[key]
    if "self" in values and "input" not in values:
        values["input"] = values.pop("self")
    elif key != short and key.isidentifier() and key[0] != "_" and key in differences.ALIASES:
        short = key
    change = _CHANGES.get(short)
    if change is not None:
        short, values = change(short, key, values)
    if values.get("inplace") is True and schemas_of(short + "_"):
        short += "_"
    if short in differences.FACTORIES or short in differences.LIKE:
        values = _placed(short, values)
    return short, {**values, **differences.ADDED.get(short, {})}


def _placed(short, values):
    """Factories: the size as one list, the device, and no pinned memory."""
    sizes = values.pop("*", None)
    if (sizes is not None and "size" not in values) or values.get("size", 0) is None:
        values["size"] = _one_list(sizes)
    device = values.get("device")
    if device is None and short in differences.FACTORIES:
        device = _device.resolve(None)
    values["device"] = None if device is None else _device.resolve(device)
    values["layout"] = None
    return values | {"pin_memory": False}


def _one_list(sizes):
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        return list(sizes[0])
    return list(sizes or ())


def _arange(short, key, values):
    start, end, step = (values.pop(k, None) for k in ("start", "end", "step"))
    step = 1 if step is None else step
    if end is None:
        start, end = None, start
    given = {"end": end}
    if start is not None or step != 1:
        given = {"start": 0 if start is None else start, "end": end}
    return short, values | given | ({} if step == 1 else {"step": step})


def _split(short, key, values):
    if "tensor" in values:
        values = {"input": values.pop("tensor"), **values}
    size = values["split_size_or_sections"]
    return ("split" if is_int(size) else "split_with_sizes"), values


def _extreme(short, key, values):
    """max(x, y) and max(x, dim) are one function here."""
    given = values.pop("*", ())
    values |= zip(("input", "dim", "keepdim"), given)
    values |= values.pop("kwargs", {})
    other = values.pop("other", None)
    if isinstance(values.get("dim"), Tensor):
        other = values.pop("dim")
    if other is not None:
        return short, {"input": values["input"], "other": other}
    if values.get("dim") is None:
        values = {"input": values["input"]}
    return short, values


def _spread(short, key, values):
    """Variances, with a correction or an old-style flag."""
    values |= zip(("input", "dim", "unbiased", "keepdim"), values.pop("*", ()))
    values |= values.pop("kwargs", {})
    if type(values.get("dim")) is bool:
        values["unbiased"] = values.pop("dim")
    unbiased, correction = values.pop("unbiased", None), values.pop("correction", None)
    named = {"keepdim": values.get("keepdim", False), "input": values["input"]}
    dim = values.get("dim")
    if correction is not None and correction is not NEEDED:
        return short, named | {"dim": dim, "correction": correction}
    if dim is None and unbiased is None:
        return short, named
    if dim is None:
        return short, {"input": values["input"], "unbiased": unbiased}
    return short, named | {"dim": dim, "unbiased": True if unbiased is None else unbiased}


def _to(short, key, values):
    """Conversions, by what they are given."""
    tensor, given = values["input"], list(values.pop("*", ()))
    if key == "type_as":
        return "type_as", {"input": tensor, "other": values["other"]}
    plain = {k: values.get(k) or False for k in ("non_blocking", "copy")}
    plain |= {"memory_format": values.get("memory_format")}
    dtype, device = values.get("dtype"), values.get("device")
    if key != "to":
        return short, {"input": tensor, "dtype": names_of_kinds()[key], **plain}
    for value in given:
        if isinstance(value, Tensor):
            return short, {"input": tensor, "other": value, **plain}
        if isinstance(value, _device.device | str):
            device = value
        elif not isinstance(value, bool):
            dtype = value
    if device is None:
        return short, {"input": tensor, "dtype": dtype, **plain}
    place = {"input": tensor, "dtype": dtype or tensor.dtype, "layout": strided}
    place["device"] = _device.resolve(device)
    return short, place | plain | {"pin_memory": None}


@functools.cache
def names_of_kinds():
    """Methods that convert: what to."""
    named = {
        "double": "float64", "float": "float32", "half": "float16", "byte": "uint8",
        "char": "int8", "short": "int16", "int": "int32", "long": "int64",
        "bfloat16": "bfloat16", "bool": "bool_",
    }  # fmt: skip
    return {name: getattr(_dtype, kind) for name, kind in named.items()}


def _tensors(name):
    """Functions of several tensors, given one by one or as a list."""

    def change(short, key, values):
        given = values.pop("*", values.pop(name, ()))
        if len(given) == 1 and isinstance(given[0], (list, tuple)):
            given = given[0]
        return short, {**values, name: list(given)}

    return change


def _atleast(short, key, values):
    given = values.pop("*", values.pop("tensors", ()))
    if len(given) == 1 and isinstance(given[0], Tensor):
        return short, {"input": given[0]}
    return _tensors("tensors")(short, key, {"*": given})


def _chain(short, key, values):
    return short, {"matrices": list(values.pop("*", ()))}


def _tensordot(short, key, values):
    dims = values.get("dims", 2)
    if is_int(dims):
        dims = (list(range(-dims, 0)), list(range(dims)))
    mine, theirs = (list(d) if isinstance(d, (list, tuple)) else [d] for d in dims)
    named = {"input": values["a"], "other": values["b"]}
    return short, named | {"dims_self": mine, "dims_other": theirs}


def _round(short, key, values):
    if values.get("decimals") == 0:
        del values["decimals"]
    return short, values


def _randint(short, key, values):
    """randint(high, size) and randint(low, high, size)."""
    low, high, size = (values.pop(k, None) for k in ("low", "high", "size"))
    if size is None and isinstance(high, (tuple, list)):
        low, high, size = None, low, high
    given = {"high": high, "size": list(size)}
    return short, values | given | ({} if low is None else {"low": low})


def _normal(short, key, values):
    if values.get("size") is None:
        return short, {k: values[k] for k in ("mean", "std", "generator")}
    return short, values


def _adaptive(short, key, values):
    """None stands for the size that is there."""
    size = values["output_size"]
    if isinstance(size, (tuple, list)) and None in size:
        there = values["input"].shape[-len(size) :]
        values["output_size"] = [t if s is None else s for s, t in zip(size, there)]
    return short, values


def _softmax_of(name):
    def change(short, key, values):
        return name, {"input": values["input"], "dim": values["dim"]}

    return change


def _einsum(short, key, values):
    equation, *tensors = values.pop("*")
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    return short, {"equation": equation, "tensors": list(tensors)}


def _positional(short, key, values):
    """Functions that take arguments in the order of the op."""
    given = values.pop("*", ())
    schema = next((s for s in schemas_of(short).values() if _takes(s, given)), None)
    if schema is None:
        return short, values
    return short, {_ours(short, a.name): v for a, v in zip(schema.arguments, given)}


def _takes(schema, given):
    many = len(given) <= len(schema.arguments)
    return many and all(fits(v, a) for v, a in zip(given, schema.arguments))


def _unfold(short, key, values):
    if "kernel_size" not in values:
        return short, values
    sizes = ("kernel_size", "dilation", "padding", "stride")
    return "im2col", {"input": values["input"]} | {k: _pair(values[k]) for k in sizes}


def _pair(value):
    return [value, value] if is_int(value) else list(value)


def _norm(short, key, values):
    """Norms of vectors are an op; the others are what they are."""
    values |= zip(("p", "dim", "keepdim", "out", "dtype"), values.pop("*", ()))
    values |= values.pop("kwargs", {})
    p = values.get("p", "fro")
    if p == "nuc":
        return short, values
    given = {k: values.get(k) for k in ("input", "dim", "keepdim", "dtype")}
    given["keepdim"] = bool(given["keepdim"])
    return "linalg_vector_norm", given | {"ord": 2 if p in ("fro", None) else p}


def _scatter(short, key, values):
    if values.get("src") is not None and not isinstance(values["src"], Tensor):
        values["value"] = values.pop("src")
    return short, values


def _squeeze(short, key, values):
    dim = values.get("dim")
    if isinstance(dim, list) and len(dim) == 1:  # squeeze(0), not squeeze((0,))
        values["dim"] = dim[0]
    return short, values


def _renamed(name):
    return lambda short, key, values: (name, values)


def _upsample(short, key, values):
    """By the factors where there are some, else by the sizes."""
    scales = values.get("scales", values.get("scales_w"))
    if scales is not None and not isinstance(scales, (tuple, list)):
        scales = [scales]
    given = {"input": values["input"], "output_size": values.get("output_size", values.get("size"))}
    if scales is not None:
        given |= {"output_size": None, "scale_factors": list(scales)}
    else:
        given["scale_factors"] = None
    if "nearest" not in short:
        given["align_corners"] = bool(values.get("align_corners"))
    return short, given


def _cdist(short, key, values):
    return short, values | {"compute_mode": None}


def _resize(short, key, values):
    return short, {"input": values["input"], "size": _one_list(values["shape"])}


def _random(short, key, values):
    """random_(), random_(to) and random_(from, to)."""
    bounds = [values[k] for k in ("from", "to") if values.get(k, ...) is not ...]
    names = ("from", "to") if len(bounds) > 1 else ("to",)
    given = {k: values.get(k) for k in ("input", "generator")}
    return short, given | dict(zip(names, bounds))


def _view(short, key, values):
    """To another shape, or another dtype."""
    for kind in (values["size"], values.get("dtype")):
        if isinstance(kind, _dtype.dtype):
            return short, {"input": values["input"], "dtype": kind}
    return short, values


def _rsub(short, key, values):
    return short, {"input": values["input"], "other": values["other"]}


def _bag(short, key, values):
    values["mode"] = differences.BAGS.get(values["mode"], values["mode"])
    return short, values


def _division(short, key, values):
    if values.get("rounding_mode", 0) is None:
        del values["rounding_mode"]
    return short, values


_RNN = dict.fromkeys("lstm gru rnn_tanh rnn_relu".split(), _positional)
_CHANGES: dict[str, Callable] = {
    "arange": _arange,
    "split": _split,
    **dict.fromkeys("max min".split(), _extreme),
    **dict.fromkeys("var std var_mean std_mean".split(), _spread),
    "to": _to,
    **{name: _tensors("tensors") for name in "broadcast_tensors meshgrid block_diag "
       "cartesian_prod".split()},
    **{f"atleast_{n}d": _atleast for n in (1, 2, 3)},
    "chain_matmul": _chain,
    "tensordot": _tensordot,
    "round": _round,
    "randint": _randint,
    "normal": _normal,
    **{f"adaptive_{kind}_pool{n}d": _adaptive for kind in ("avg", "max") for n in (1, 2, 3)},
    "_softmax": _softmax_of("softmax"),
    "_log_softmax": _softmax_of("log_softmax"),
    "grid_sampler_2d": _renamed("grid_sampler"),
    "grid_sampler_3d": _renamed("grid_sampler"),
    "einsum": _einsum,
    "unfold": _unfold,
    "embedding_bag": _bag,
    "rsub": _rsub,
    "random_": _random,
    "resize_": _resize,
    "view": _view,
    "div": _division,
    "div_": _division,
    "norm": _norm,
    "squeeze": _squeeze,
    "squeeze_": _squeeze,
    "scatter": _scatter,
    "scatter_": _scatter,
    "log_sigmoid_forward": _renamed("log_sigmoid"),
    "nll_loss": _renamed("nll_loss_nd"),
    "cdist": _cdist,
    **{f"upsample_{kind}": _upsample for kind in "nearest1d nearest2d nearest3d linear1d "
       "bilinear2d bicubic2d trilinear3d".split()},
    **{f"_upsample_nearest_exact{n}d": _upsample for n in (1, 2, 3)},
    **_RNN,
}  # fmt: skip


# -- overloads -------------------------------------------------------------------------------------


def _ours(short, name, values=None):
    """What an argument of an op is called here."""
    found = differences.RENAMED.get(short) or differences.RENAMED.get(short.removesuffix("_"), {})
    renamed = found.get(name)
    if renamed is not None and (values is None or renamed in values):
        return renamed
    return "input" if name == "self" else name


def _overload(short: str, values: Values) -> FunctionSchema | None:
    """The overload that takes such arguments."""
    found = schemas_of(short)
    first = differences.PREFERRED.get(short, ())
    if short in differences.TENSOR_FIRST:
        first = ("Tensor", "Tensor_mode")
    ordered = [found[k] for k in first if k in found]
    ordered += [schema for k, schema in found.items() if k not in first]
    return next((schema for schema in ordered if _suits(schema, short, values)), None)


def _suits(schema, short, values):
    known = set()
    for argument in schema.arguments:
        ours = _ours(short, argument.name, values)
        known.add(ours)
        value = values.get(ours, REQUIRED)
        if value is REQUIRED or (value is None and argument.has_default_value()):
            if not argument.has_default_value():
                return False
            continue
        if argument.is_tensor and short in differences.TENSOR_FIRST and is_number(value):
            continue
        value = _worded(argument, value)
        if not fits(value, argument):
            return False
    return all(
        key in known or value is None or value is False or key in differences.IGNORED or key == "*"
        for key, value in values.items()
    )


def _worded(argument, value):
    """Words that are numbers in aten."""
    if argument.name == "reduction" and isinstance(value, str):
        return differences.REDUCTIONS.get(value, value)
    return value


def _written(schema, short, values):
    """Arguments in the order of the op, without defaults at the end."""
    given, named = [], {}
    for argument in schema.arguments:
        value = values.get(_ours(short, argument.name, values), REQUIRED)
        if value is REQUIRED or (value is None and argument.has_default_value()):
            value = argument.default
        value = _converted(argument, _worded(argument, value))
        if argument.kwarg_only:
            if not _is_default(value, argument):
                named[argument.name] = value
        else:
            given.append((argument, value))
    loose = short in differences.LOOSE
    while given and _is_default(given[-1][1], given[-1][0], loose):
        given.pop()
    return tuple(value for _, value in given), named


def tidied(schema: FunctionSchema, args: tuple, kwargs: Values) -> tuple[tuple, Values]:
    """A call of an op as it is written: by position where that goes, without defaults."""
    places = [a for a in schema.arguments if not a.kwarg_only]
    given = dict(zip((a.name for a in places), args)) | kwargs
    values = [(a, given.pop(a.name, a.default)) for a in places]
    while values and _is_default(values[-1][1], values[-1][0]):
        values.pop()
    named = {k: v for k, v in given.items() if not _is_default(v, schema.named[k])}
    return tuple(_converted(a, v) for a, v in values), named


def _converted(argument, value):
    if value is None:
        return None
    if argument.is_list:
        if is_int(value) or (type(value) in (float, bool) and argument.length):
            return [value] * (argument.length or 1)
        if isinstance(value, (tuple, list)):
            value = list(value)
            if len(value) == 1 and argument.length > 1 and is_int(value[0]):
                value = value * argument.length
            return value
        return value
    if argument.type.removesuffix("?") == "float" and is_int(value) and type(value) is int:
        return float(value)
    return value


def _is_default(value, argument, loose=False):
    """Is it the default, to the type of the number unless nobody gave it?"""
    default = argument.default
    if default is REQUIRED or isinstance(value, Tensor):
        return False
    if argument.type == "MemoryFormat" and default == 0:
        return value is None or str(value) == "torch.contiguous_format" or value == 0
    if loose and isinstance(value, (int, float)):
        return bool(value == default)
    return type(value) is type(default) and bool(value == default)
