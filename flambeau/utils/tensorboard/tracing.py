"""One call of a model, written down: which ops ran, in which modules, on whose results.

The recorder observes ops and modules (interposing/) while the model runs. A tensor that an
op takes leads to the node that made it: an op, a parameter, an input. Only the outermost op counts;
what it calls is how it works. Names nest as modules do: Net/Sequential[body]/Conv2d[0]/conv2d.
"""

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flambeau import interposing
from flambeau._layout import span
from flambeau._tensor import Tensor
from flambeau.nn.modules.calling import Calling
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import UninitializedTensorMixin
from flambeau.ops.table import TABLE
from flambeau.utils.checkpoint import CheckpointFunction

_ASSIGNMENTS = {"index_put_", "copy_", "fill_"}  # x[...] = y returns nothing, but makes x
_SUBSCRIPTS = {"alias", "index", "select", "slice"}  # what x[...] may be
_LONGEST = 200  # characters of an argument


@dataclasses.dataclass
class Node:
    """An op, a parameter, an input or an output.

    inputs are the names of other nodes, with ":1" and so on for results after the first; shapes
    are those of its results.
    """

    name: str
    kind: str
    inputs: list[str]
    shapes: list[tuple[int, ...]]
    attributes: str = ""

    def __str__(self) -> str:
        shapes = ", ".join(str(list(shape)) for shape in self.shapes)
        inputs = ", ".join(f"%{name}" for name in self.inputs)
        return f"%{self.name} : {shapes} = {self.kind}({inputs}) {self.attributes}".rstrip()


def tensors_in(value: Any, place: str = "") -> Iterator[tuple[str, Tensor]]:
    """(place, tensor) for every tensor in nested containers."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Tensor):
        yield place, value
    elif isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    for key, item in items:
        yield from tensors_in(item, f"{place}.{key}")


class Recorder(interposing.Observer):
    """Writes down the ops of one call of a model."""

    kinds = frozenset({"op", "module", "function"})

    def __init__(self, model: Any) -> None:
        self.nodes: list[Node] = []
        self.names: set[str] = set()
        self.made: dict[int, str] = {}  # id of a tensor -> what made it, "name" or "name:output"
        self.stored: dict[int, str] = {}  # the same by address, for aliases nobody told us of
        self.sharing: dict[int, list] = {}  # tensors by address; ids stay true as they live here
        self.scopes: dict[int, str] = {}  # id of a module -> its name
        self.parameters: dict[int, tuple[str, str]] = {}  # id of a tensor -> its name and kind
        self.depth = 0  # of ops
        if isinstance(model, Module):
            self.scope = type(model).__name__
            self._find_scopes(model)
        else:
            self.scope = getattr(model, "__name__", type(model).__name__).strip("<>")

    def _find_scopes(self, model):
        classes = {name: type(module).__name__ for name, module in model.named_modules()}
        for name, module in model.named_modules():
            parts, steps = name.split(".") if name else [], [self.scope]
            for k, part in enumerate(parts):
                steps.append(f"{classes.get('.'.join(parts[: k + 1]), '')}[{part}]")
            scope = self.scopes[id(module)] = "/".join(steps)
            for kind, named in (
                ("Parameter", module.named_parameters(recurse=False)),
                ("Buffer", module.named_buffers(recurse=False)),
            ):
                for own, t in named:
                    self.parameters.setdefault(id(t), (f"{scope}/{own}", kind))

    # -- nodes --------------------------------------------------------------------------------
    def add(
        self,
        name: str,
        kind: str,
        inputs: list[str],
        outputs: Iterable[Tensor],
        attributes: str = "",
    ) -> None:
        """A node that makes these tensors; a name that is taken gets a number."""
        unique, count = name, 0
        while unique in self.names:
            count += 1
            unique = f"{name}.{count}"
        self.names.add(unique)
        outputs = list(outputs)
        shapes = [tuple(t.shape) for t in outputs]
        self.nodes.append(Node(unique, kind, inputs, shapes, attributes))
        for k, t in enumerate(outputs):
            source = f"{unique}:{k}" if k else unique
            address = t._storage.pointer
            self.made[id(t)] = self.stored[address] = source
            self.sharing.setdefault(address, []).append((t, t._storage))

    def source(self, t: Tensor) -> str:
        """What made a tensor; parameters and constants become nodes when first used."""
        found = self.made.get(id(t))
        if found is not None:
            return found
        if id(t) in self.parameters:
            name, kind = self.parameters[id(t)]
            self.add(name, kind, [], [t], f"{{ dtype : {t.dtype}}}")
        elif t._storage.pointer and t._storage.pointer in self.stored:
            return self.stored[t._storage.pointer]
        else:
            self.add(f"{self.scope}/constant", "prim::Constant", [], [t], _constant_text(t))
        return self.made[id(t)]

    # -- what is seen -------------------------------------------------------------------------
    def before(self, name: interposing.Name, args: tuple, kwargs: dict) -> Any:
        """An op begins; what it takes is noted now, as it may write into it."""
        if name.kind == "module":
            return self._enter_module(args[0])
        if name.kind == "function" and args[0] is CheckpointFunction:
            return None
        self.depth += 1
        if self.depth == 1:
            return [self.source(t) for _, t in tensors_in([args, kwargs])]
        return None

    def after(
        self,
        token: Any,
        name: interposing.Name,
        args: tuple,
        kwargs: dict,
        result: Any,
        error: BaseException | None,
    ) -> None:
        """An op has ended: it becomes a node. A Function, users' own, is one op."""
        if name.kind == "module":
            self.scope = token
            return
        if name.kind == "function":
            if args[0] is CheckpointFunction:
                return
            args = args[1:]
        self.depth -= 1
        if self.depth or error is not None:
            return
        outputs = [t for _, t in tensors_in(result)]
        short = name.removeprefix("aten::").removeprefix("flambeau::")
        if short == "to" and outputs and outputs[0] is args[0]:
            return  # there was nothing to do
        if result is None and short in _ASSIGNMENTS:
            outputs = [args[0]]
        if outputs:
            text = _arguments_text(short, args, kwargs)
            self.add(f"{self.scope}/{short}", name, token, outputs, text)
            if short.endswith("_") and outputs[0] is args[0]:
                self._written(args[0])

    def _written(self, t):
        """What is written into a view is written into the tensors that it shows a part of."""
        first, last = _bytes_of(t)
        for other, _ in self.sharing[t._storage.pointer] if last else ():
            start, end = _bytes_of(other)
            if start <= first and last <= end:
                self.made[id(other)] = self.made[id(t)]

    def _enter_module(self, module):
        """Ops of a module are in its scope; returns the one around it."""
        outer = self.scope
        if not self.depth:
            self.scope = self.scopes.get(id(module)) or f"{outer}/{type(module).__name__}"
        return outer


def _bytes_of(t):
    """Where the elements of a tensor begin and end in memory; nowhere for those without memory."""
    return t.data_ptr(), t.data_ptr() and t.data_ptr() + span(t._layout) * t.itemsize


# -- texts ----------------------------------------------------------------------------------------


def _constant_text(t):
    value = f", value : {t.tolist()}" if t.numel() <= 8 and not t.is_meta else ""
    return f"{{ dtype : {t.dtype}{value}}}"


def _arguments_text(name, args, kwargs):
    """The arguments that are no tensors, by name."""
    if name in _SUBSCRIPTS and len(args) == 2 and not kwargs:
        return f"{{ index : {_text(args[1])}}}"
    row = TABLE.get(name) or TABLE.get(name.removesuffix("_"))
    if row is None or len(row.params) < len(args) + len(kwargs):
        row = TABLE.get("functional_" + name) or row
    names = [p.name for p in row.params] if row is not None else []
    packed = row.options.get("varargs") if row is not None else None
    if packed in names and len(args) > names.index(packed) + 1:  # permute(2, 0, 1)
        args = (*args[: names.index(packed)], args[names.index(packed) :])
    names += [str(k) for k in range(len(names), len(args))]
    told = [*zip(names, args), *kwargs.items()]
    texts = [f"{n} : {_text(v)}" for n, v in told if v is not None and not _only_tensors(v)]
    return "{ " + ", ".join(texts) + "}" if texts else "{}"


def _only_tensors(value):
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_only_tensors, value))
    return isinstance(value, Tensor)


def _text(value):
    """A value in a few words; TensorBoard cannot show quotation marks."""
    if isinstance(value, slice):
        parts = ["" if part is None else str(part) for part in (value.start, value.stop)]
        text = ":".join(parts + ([] if value.step is None else [str(value.step)]))
    elif isinstance(value, Tensor):
        text = "tensor"
    elif isinstance(value, (list, tuple)):
        text = "[" + ", ".join(map(_text, value)) + "]"
    else:
        text = str(value).replace("'", " ").replace('"', " ")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


# -- one call -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _evaluating(model):
    """All modules in eval mode; each gets the mode back that it had."""
    modules = list(model.modules()) if isinstance(model, Module) else []
    modes = [module.training for module in modules]
    if modules:
        model.train(False)
    try:
        yield
    finally:
        for module, mode in zip(modules, modes):
            module.training = mode


def _is_lazy(model):
    """Does a model have parameters without a shape yet?"""
    if not isinstance(model, Module):
        return False
    return any(
        isinstance(t, UninitializedTensorMixin) for t in [*model.parameters(), *model.buffers()]
    )


def _input_names(call: Callable, number: int) -> list[str]:
    """Names of the positional arguments of a function."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in positional]
    return names + [f"input.{k + 1}" for k in range(len(names), number)]


def record(model: Any, args: tuple) -> list[Node]:
    """The nodes of model(*args): inputs first, then outputs, then everything between."""
    if _is_lazy(model):  # learning its sizes is no part of what it computes
        with _evaluating(model):
            model(*args)
    recorder = Recorder(model)
    names = _input_names(model.forward if isinstance(model, Module) else model, len(args))
    for name, value in zip(names, args):
        for place, t in tensors_in(value, name):
            recorder.add(f"input/{place}", "IO Node", [], [t])
    inputs = len(recorder.nodes)
    interposing.offer(Calling.__call__, "nn.Module", "module")
    with _evaluating(model), interposing.handling(recorder):
        result = model(*args)
    results = [(place, recorder.source(t), t) for place, t in tensors_in(result)]
    between = len(recorder.nodes)
    for k, (place, source, t) in enumerate(results):
        about = f"{{ place : {place.removeprefix('.')}}}" if place else ""
        recorder.add(f"output/output.{k + 1}", "IO Node", [source], [t], about)
    nodes = recorder.nodes
    used = {name.partition(":")[0] for node in nodes for name in node.inputs}
    given = [node for node in nodes[:inputs] if node.name in used]
    return given + nodes[between:] + nodes[inputs:between]
