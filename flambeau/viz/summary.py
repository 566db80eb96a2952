"""`summary`: what a model consists of, layer by layer, in the manner of torchinfo.

The model runs once while modules and ops are observed (interposing/); on the meta device if
that is possible, where nothing is computed. What each module saw becomes a row; rows become text or
HTML in summary_text.py.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import flambeau
from flambeau import interposing, nn
from flambeau.nn.modules.calling import Calling
from flambeau.nn.parameter import is_lazy
from flambeau.storage import root_of
from flambeau.utils.flop_formulas import FORMULAS, flops_of
from flambeau.viz.summary_text import COLUMNS, Row, Summary

DEFAULT_COLUMNS = ("output_size", "num_params", "mult_adds")


def summary(
    model: nn.Module,
    input_size: Any = None,
    input_data: Any = None,
    *,
    batch_dim: int | None = None,
    col_names: Iterable[str] = DEFAULT_COLUMNS,
    col_width: int | None = None,
    depth: int = 3,
    device: Any = None,
    dtypes: Sequence[Any] | None = None,
    mode: str = "eval",
    verbose: int = 0,
    **kwargs: Any,
) -> Summary:
    """A table of a model's layers: output shapes, parameters, multiply-adds, memory.

    It is text when printed and a table in notebooks; totals are attributes of it.

    Args:
        model: the module; it is not changed, except that lazy modules learn their sizes.
        input_size: the shape of the input, or a list of shapes, or a dictionary of them by
            argument name. A shape the model refuses is tried again with a batch dimension before
            it, so that both `(1, 3, 32, 32)` and `(3, 32, 32)` do.
        input_data: a real input in place of sizes; a list or tuple holds several arguments, a
            dictionary holds them by name.
        batch_dim: where a batch dimension of 1 is to be inserted into each shape.
        col_names: which columns, of input_size, output_size, num_params, params_percent,
            kernel_size, mult_adds, flops, memory, trainable.
        depth: how many levels of modules to show; what is below counts for its ancestors.
        device: run there; by default nothing is computed, if the model allows it.
        dtypes: dtypes of the inputs that input_size describes; float32 by default.
        mode: "eval", "train" or "same".
        verbose: 1 prints the table as well.
        kwargs: further arguments of the model's forward.

    Example:
        >>> from flambeau import nn, viz
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> found = viz.summary(model, (1, 4))
        >>> found.total_params, found.total_mult_adds
        (58, 48)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"summary: model must be an nn.Module, not {type(model).__name__}")
    columns = tuple(col_names)
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise ValueError(f"summary: unknown column {unknown[0]!r}; there are {', '.join(COLUMNS)}")
    if mode not in ("eval", "train", "same"):
        raise ValueError(f"summary: mode must be 'eval', 'train' or 'same', not {mode!r}")
    if input_size is not None and input_data is not None:
        raise ValueError("summary: give input_size or input_data, not both")
    watch = _Watch()
    inputs: list = []
    if input_size is not None or input_data is not None or kwargs:
        inputs, watch = _run_model(model, input_size, input_data, batch_dim, device, dtypes, mode,
                                   kwargs)  # fmt: skip
    found = Summary(_rows(model, watch, depth), inputs, watch.results, columns, col_width)
    if verbose:
        print(found)
    return found


# -- running ---------------------------------------------------------------------------------------


class _Watch(interposing.Observer):
    """What modules are given and give, and how much is computed in each."""

    kinds = frozenset({"op", "module"})

    def __init__(self):
        self.calls: dict[int, list] = {}  # id of a module -> (inputs, outputs) of its calls
        self.flops: dict[int, int] = {}  # id of a module -> operations of its own forward
        self.open: list = []
        self.counting = 0  # how deep in an op that has been counted
        self.results: Any = None

    def before(self, name, args, kwargs):
        if name.kind == "module":
            self.open.append(args[0])
            return False
        counted = name.row in FORMULAS
        self.counting += counted
        return counted

    def after(self, token, name, args, kwargs, result, error):
        if name.kind == "module":
            self._note_call(self.open.pop(), [*args[1:], *kwargs.values()], result, error)
            return
        self.counting -= token
        if token and not self.counting and error is None and self.open:
            key = id(self.open[-1])
            self.flops[key] = self.flops.get(key, 0) + flops_of(name.row, args, kwargs, result)

    def _note_call(self, module, given, result, error):
        if error is None:
            call = _shapes(given), _shapes(result), _new_bytes(result, given)
            self.calls.setdefault(id(module), []).append(call)


def _shapes(value):
    """Shapes of the tensors in a value: one, or a list of them."""
    found = [tuple(t.shape) for t in _tensors(value)]
    return found[0] if len(found) == 1 else found


def _new_bytes(value, given):
    """The memory of results; those written in place and views of inputs take none."""
    seen = {id(root_of(t._storage)) for t in _tensors(given)}
    count = 0
    for t in _tensors(value):
        key = id(root_of(t._storage))
        if key not in seen:
            seen.add(key)
            count += t.numel() * t.element_size()
    return count


def _tensors(value):
    if isinstance(value, flambeau.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for v in value.values():
            yield from _tensors(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _tensors(v)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from _tensors(getattr(value, name))


def _moved(value, device):
    if isinstance(value, flambeau.Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {k: _moved(v, device) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_moved(v, device) for v in value)
    return value


def _is_shape(value):
    return isinstance(value, (list, tuple)) and all(isinstance(n, int) for n in value)


def _made(size, batch_dim, dtypes):
    """Inputs of given sizes: (positional arguments, arguments by name), on the meta device."""
    by_name = isinstance(size, Mapping)
    shapes = list(size.values()) if by_name else [size] if _is_shape(size) else list(size)
    for shape in shapes:
        if not _is_shape(shape):
            raise TypeError(
                "summary: input_size must be a shape, a list of shapes or a dictionary of shapes, "
                f"but it holds {shape!r}"
            )
    kinds = list(dtypes) if dtypes is not None else [flambeau.float32] * len(shapes)
    if len(kinds) != len(shapes):
        raise ValueError(f"summary: {len(shapes)} input sizes, but {len(kinds)} dtypes")
    made = []
    for shape, kind in zip(shapes, kinds):
        full = list(shape)
        if batch_dim is not None:
            full.insert(batch_dim, 1)
        made.append(flambeau.empty(full, dtype=kind, device="meta"))
    return ([], dict(zip(size, made))) if by_name else (made, {})


def _real(value):
    """Values for an input that so far is only a shape."""
    if isinstance(value, flambeau.Tensor) and value.is_meta:
        if value.is_floating_point():
            return flambeau.rand(value.shape, dtype=value.dtype)
        return flambeau.zeros(value.shape, dtype=value.dtype)
    return value


def _run_model(model, input_size, input_data, batch_dim, device, dtypes, mode, kwargs):
    """Run the model on inputs it accepts; returns their shapes and what was observed."""
    if input_data is not None:
        if isinstance(input_data, Mapping):
            tries = [([], {**input_data, **kwargs})]
        else:
            several = isinstance(input_data, (list, tuple))
            tries = [(list(input_data) if several else [input_data], kwargs)]
    elif input_size is None:
        tries = [([], kwargs)]
    else:
        args, named = _made(input_size, batch_dim, dtypes)
        tries = [(args, {**named, **kwargs})]
        if batch_dim is None:
            args, named = _made(input_size, 0, dtypes)
            tries.append((args, {**named, **kwargs}))
    modules = list(model.modules())
    training = [m.training for m in modules]
    state = flambeau.get_rng_state()
    try:
        if mode != "same":
            model.train(mode == "train")
        return _first_that_works(model, tries, device)
    finally:
        flambeau.set_rng_state(state)
        for module, flag in zip(modules, training):
            module.training = flag


def _first_that_works(model, tries, device):
    error: Exception | None = None
    if device is None and not _is_unfinished(model):
        for args, named in tries:
            try:
                return _watched(_on_meta(model), args, named, "meta", model)
            except Exception as raised:  # this model needs values; if not, it fails below, too
                error = raised
    where = device or "cpu"
    saved = None
    if any(m.training for m in model.modules()):  # statistics must not change
        saved = copy.deepcopy({k: b for k, b in model.named_buffers() if not is_lazy(b)})
    try:
        for number, (args, named) in enumerate(tries):
            args = [_real(a) for a in args]
            named = {k: _real(v) for k, v in named.items()}
            try:
                return _watched(model, args, named, where, model)
            except Exception as raised:
                error = error if number and error is not None else raised
    finally:
        for name, buffer in model.named_buffers():
            if saved is not None and name in saved:
                buffer.copy_(saved[name])
    raise RuntimeError(
        "summary: the model does not run on such an input. Its error is above; perhaps dtypes= or "
        "input_data= helps."
    ) from error


def _is_unfinished(model):
    return any(is_lazy(t) for t in (*model.parameters(), *model.buffers()))


def _on_meta(model):
    """A function that calls the model with parameters that have no values."""
    tensors = {**dict(model.named_parameters(remove_duplicate=False)),
               **dict(model.named_buffers(remove_duplicate=False))}  # fmt: skip
    bare = {k: flambeau.empty_like(t, device="meta") for k, t in tensors.items() if t is not None}

    def call(*args, **kwargs):
        return flambeau.func.functional_call(model, bare, args, kwargs)

    return call


def _watched(call, args, named, device, model):
    interposing.offer(Calling.__call__, "nn.Module", "module")
    args, named = _moved(args, device), _moved(named, device)
    watch = _Watch()
    with warnings.catch_warnings(), flambeau.no_grad(), interposing.handling(watch):
        warnings.simplefilter("ignore")  # a shape may be tried that the model is not made for
        result = call(*args, **named)
    watch.results = _shapes(result)
    given = list(_tensors([args, named]))
    return given, watch


# -- rows ------------------------------------------------------------------------------------------


def _rows(model, watch, depth):
    """Rows of the tree of modules, what lies below the depth counted in."""
    seen_modules: set[int] = set()
    seen_params: set[int] = set()
    return _rows_of(type(model).__name__, "", model, 0, depth, watch, seen_modules, seen_params)


def _rows_of(kind, name, module, level, depth, watch, seen_modules, seen_params):
    calls = watch.calls.get(id(module), [])
    is_again = id(module) in seen_modules
    seen_modules.add(id(module))
    row = Row(kind=kind, name=name, depth=level, calls=len(calls), is_recursive=is_again)
    if calls:
        row.input_size, row.output_size = calls[0][0], calls[0][1]
    row.kernel_size = _kernel_size(module)
    row.is_leaf = not any(True for _ in module.children())
    if is_again:
        row.has_params = any(True for _ in module.parameters())
        return [row]
    row.output_bytes = sum(call[2] for call in calls) if row.is_leaf else 0
    _count_params(row, module, seen_params)
    row.flops = watch.flops.get(id(module), 0)
    rows = [row]
    for child_name, child in module._modules.items():
        if child is None:
            continue
        below = _rows_of(type(child).__name__, child_name, child, level + 1, depth, watch,
                         seen_modules, seen_params)  # fmt: skip
        if level < depth:
            rows += below
        else:
            for hidden in below:
                row.take_in(hidden)
    return rows


def _count_params(row, module, seen):
    for parameter in module._parameters.values():
        if parameter is None or is_lazy(parameter):
            continue
        row.has_params = True
        row.trainable.add(bool(parameter.requires_grad))
        if id(parameter) in seen:
            continue
        seen.add(id(parameter))
        count = parameter.numel()
        row.params += count
        row.trainable_params += count * bool(parameter.requires_grad)
        row.param_bytes += count * parameter.element_size()
    for buffer in module._buffers.values():
        if buffer is not None and not is_lazy(buffer):
            row.buffer_bytes += buffer.numel() * buffer.element_size()


def _kernel_size(module):
    size = getattr(module, "kernel_size", None)
    if size is None:
        return None
    return tuple(size) if isinstance(size, (list, tuple)) else (size,)
