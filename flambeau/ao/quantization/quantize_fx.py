"""Quantization of graphs: a model is recorded, and needs neither stubs nor lists of names.

`prepare_fx` records the model, fuses what belongs together and puts observers behind the inputs and
the ops that can be quantized; `convert_fx` exchanges ops for quantized ones and puts conversions
where quantized and float parts meet. Ops that keep the levels of their input (pooling, reshapes,
relu) are left as they are, between quantized ones.
"""

import copy
import operator
import re
from typing import Any

import flambeau as torch
from flambeau import fx, nn
from flambeau.ao.quantization import quantization_mappings as mappings
from flambeau.ao.quantization.fuser_method_mappings import get_fuser_method
from flambeau.ao.quantization.observer import _is_activation_post_process
from flambeau.ao.quantization.qconfig_mapping import QConfigMapping
from flambeau.ao.quantization.quantize import swap_module
from flambeau.ao.quantization.utils import activation_is_statically_quantized, getattr_from_fqn

_F = torch.nn.functional
_SUMS: dict[Any, str] = {
    operator.add: "add", torch.add: "add", operator.iadd: "add", operator.mul: "mul",
    torch.mul: "mul", torch.cat: "cat",
}  # fmt: skip
_KEEPING_FUNCTIONS = frozenset({
    _F.relu, torch.relu, _F.max_pool2d, _F.max_pool1d, _F.avg_pool2d, _F.adaptive_avg_pool2d,
    _F.interpolate, torch.flatten, torch.reshape, torch.transpose, torch.permute, torch.squeeze,
    torch.unsqueeze, torch.mean, torch.clamp, _F.dropout, torch.chunk, torch.stack, _F.hardtanh,
    _F.relu6, operator.getitem, torch.max_pool2d, torch.unbind, torch.split,
})  # fmt: skip
_KEEPING_METHODS = frozenset(
    "relu relu_ view reshape flatten transpose permute squeeze unsqueeze mean contiguous clamp "
    "chunk split unbind repeat clone detach t".split()
)
_KEEPING_MODULES = (
    nn.ReLU, nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool1d,
    nn.Flatten, nn.Dropout, nn.Dropout2d, nn.Identity, nn.Hardtanh, nn.Upsample, nn.PixelShuffle,
)  # fmt: skip
_PATTERNS = [
    (conv, norm, nn.ReLU)
    for conv, norm in (
        (nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d),
    )
]  # fmt: skip
_PATTERNS += [pattern[:2] for pattern in list(_PATTERNS)]  # type: ignore[misc]
_PATTERNS += [(kind, nn.ReLU) for kind in (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)]  # type: ignore[misc]
_PATTERNS += [(nn.Linear, nn.BatchNorm1d), (nn.BatchNorm2d, nn.ReLU), (nn.BatchNorm3d, nn.ReLU)]  # type: ignore[list-item]


def _module(model: fx.GraphModule, node: Any) -> Any:
    return getattr_from_fqn(model, node.target) if node.op == "call_module" else None


def _set(model: nn.Module, name: str, module: nn.Module) -> None:
    *parents, last = name.split(".")
    setattr(getattr_from_fqn(model, ".".join(parents)) if parents else model, last, module)


# -- fusing ----------------------------------------------------------------------------------------


def _is_relu(model: fx.GraphModule, node: Any) -> bool:
    if node.op == "call_module":
        return type(_module(model, node)) is nn.ReLU
    return (node.op == "call_function" and node.target in (_F.relu, torch.relu)) or (
        node.op == "call_method" and node.target in ("relu", "relu_")
    )


def _run_of(model: fx.GraphModule, node: Any, pattern: tuple) -> list | None:
    """Nodes from this one on that follow a pattern, each used by the next only."""
    found = []
    for k, kind in enumerate(pattern):
        fits = _is_relu(model, node) if kind is nn.ReLU else type(_module(model, node)) is kind
        if not fits:
            return None
        found.append(node)
        if k + 1 < len(pattern):
            if len(node.users) != 1:
                return None
            node = next(iter(node.users))
    return found


def _fuse(model: fx.GraphModule, is_qat: bool) -> fx.GraphModule:
    for pattern in _PATTERNS:
        for first in list(model.graph.nodes):
            nodes = _run_of(model, first, pattern)
            if nodes is None or first.op != "call_module":
                continue
            modules = [_module(model, n) or nn.ReLU() for n in nodes]
            for module in modules:
                module.train(modules[0].training)
            _set(model, first.target, get_fuser_method(pattern)(is_qat, *modules))
            nodes[-1].replace_all_uses_with(first)
            for node in reversed(nodes[1:]):
                model.graph.erase_node(node)
    model.delete_all_unused_submodules()
    model.recompile()
    return model


def fuse_fx(
    model: nn.Module, fuse_custom_config: Any = None, backend_config: Any = None
) -> fx.GraphModule:
    """A recorded model whose modules are fused."""
    model = fx.symbolic_trace(copy.deepcopy(model))
    return _fuse(model, False)


# -- which QConfig a node has ----------------------------------------------------------------------


def _qconfig(mapping: QConfigMapping, model: fx.GraphModule, node: Any) -> Any:
    module = _module(model, node)
    kind = type(module) if module is not None else node.target
    first = module[0] if isinstance(module, nn.Sequential) and len(module) else module
    found = mapping.global_qconfig
    for one in (type(first), kind):
        found = mapping.object_type_qconfigs.get(one, found)
    if module is None:
        return found
    for pattern, qconfig in mapping.module_name_regex_qconfigs.items():
        if re.match(pattern, node.target):
            found = qconfig
            break
    parts = node.target.split(".")
    for end in range(1, len(parts) + 1):
        found = mapping.module_name_qconfigs.get(".".join(parts[:end]), found)
    return found


# -- preparing -------------------------------------------------------------------------------------

_MODULES = {**mappings.DEFAULT_STATIC_QUANT_MODULE_MAPPINGS}


def _keeps(model: fx.GraphModule, node: Any) -> bool:
    """Does a node leave the levels of its input as they are?"""
    if node.op == "call_module":
        return type(_module(model, node)) in _KEEPING_MODULES
    if node.op == "call_method":
        return node.target in _KEEPING_METHODS
    return node.op == "call_function" and node.target in _KEEPING_FUNCTIONS


def _is_quantizable(model: fx.GraphModule, node: Any) -> bool:
    if node.op == "call_module":
        kind = type(_module(model, node))
        known = kind in _MODULES or kind in mappings.DEFAULT_QAT_MODULE_MAPPINGS
        return known and not _keeps(model, node)
    if node.op != "call_function" or node.target not in _SUMS:
        return False
    if node.target is torch.cat:
        return True
    return all(isinstance(a, fx.Node) for a in node.args[:2])


def _prepare(model, mapping, is_qat):
    mapping = QConfigMapping.from_dict(mapping) if isinstance(mapping, dict) else mapping
    graph_module = fx.symbolic_trace(copy.deepcopy(model))
    graph_module = _fuse(graph_module, is_qat)
    static, dynamic = [], []
    for node in graph_module.graph.nodes:
        if not _is_quantizable(graph_module, node):
            continue
        qconfig = _qconfig(mapping, graph_module, node)
        if qconfig is None:
            continue
        module = _module(graph_module, node)
        if module is not None:
            module.qconfig = qconfig
        if activation_is_statically_quantized(qconfig):
            static.append((node, qconfig))
        elif module is not None and type(module) in mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS:
            dynamic.append(node.name)
    if is_qat:
        for node, _ in static:
            module = _module(graph_module, node)
            if type(module) in mappings.DEFAULT_QAT_MODULE_MAPPINGS:
                made = mappings.DEFAULT_QAT_MODULE_MAPPINGS[type(module)].from_float(module)
                _set(graph_module, node.target, made)
    _observe(graph_module, static)
    graph_module.meta["quantized"] = [node.name for node, _ in static]
    graph_module.meta["dynamic"] = dynamic
    return graph_module


def _observe(model, static):
    """Observers behind quantizable nodes and behind what reaches them from outside."""
    chosen = dict(static)
    seen_by: dict = {}  # node that observes -> its module

    def add(node, observer):
        name = f"activation_post_process_{len(seen_by)}"
        model.add_submodule(name, observer)
        with model.graph.inserting_after(node):
            seen = model.graph.call_module(name, (node,))
        for user in list(node.users):
            if user is not seen:
                user.replace_input_with(node, seen)
        seen_by[seen] = observer

    sources: dict = {}
    for node, qconfig in static:
        for source in _sources(model, node):
            if source not in chosen and source.op != "get_attr":
                sources.setdefault(source, qconfig)
    for node in list(model.graph.nodes):
        qconfig = chosen.get(node) or sources.get(node)
        if qconfig is not None:
            add(node, qconfig.activation())
        elif _keeps(model, node) and node.target is not operator.getitem:
            observers = {seen_by.get(source) for source in _inputs(node)}
            if len(observers) == 1 and None not in observers:  # levels stay: one observer for both
                add(node, observers.pop())
    model.recompile()


def _inputs(node):
    """Nodes whose values a node computes with."""
    if node.op == "call_function" and node.target is torch.cat:
        tensors = node.args[0] if node.args else node.kwargs.get("tensors", ())
        return [a for a in tensors if isinstance(a, fx.Node)]
    if node.op == "call_function" and node.target in _SUMS:
        return [a for a in node.args[:2] if isinstance(a, fx.Node)]
    return [a for a in node.args[:1] if isinstance(a, fx.Node)]


def _sources(model, node):
    """Where the values that reach a node come from, through ops that keep levels."""
    found, left = [], list(_inputs(node))
    while left:
        one = left.pop()
        if _keeps(model, one) and not _is_quantizable(model, one):
            left += _inputs(one)
        else:
            found.append(one)
    return found


def prepare_fx(
    model: nn.Module,
    qconfig_mapping: Any,
    example_inputs: tuple,
    prepare_custom_config: Any = None,
    _equalization_config: Any = None,
    backend_config: Any = None,
) -> fx.GraphModule:
    """A recorded model that observes what passes."""
    return _prepare(model, qconfig_mapping, False)


def prepare_qat_fx(
    model: nn.Module,
    qconfig_mapping: Any,
    example_inputs: tuple,
    prepare_custom_config: Any = None,
    backend_config: Any = None,
) -> fx.GraphModule:
    """A recorded model that trains as if it were quantized."""
    return _prepare(model, qconfig_mapping, True)


# -- converting ------------------------------------------------------------------------------------


class _Conversion:
    """Nodes in order; knows which values are quantized."""

    def __init__(self, model: fx.GraphModule) -> None:
        self.model, self.graph = model, model.graph
        self.chosen = set(model.meta.get("quantized", ()))
        self.dynamic = set(model.meta.get("dynamic", ()))
        self.quantized: set = set()
        self.floats: dict = {}  # quantized node -> its dequantized value

    def run(self) -> None:
        for node in list(self.graph.nodes):
            observer = _module(self.model, node)
            if _is_activation_post_process(observer):
                self._observer(node, observer)
            elif node.name in self.chosen and all(a in self.quantized for a in _inputs(node)):
                self._exchange(node)
            elif _keeps(self.model, node) and self._reached(node):
                self.quantized.add(node)
            else:
                if node.name in self.dynamic:
                    made = swap_module(observer, mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, {})
                    _set(self.model, node.target, made)
                self._with_floats(node)

    def _reached(self, node):
        inputs = _inputs(node)
        return bool(inputs) and all(a in self.quantized for a in inputs)

    def _observer(self, node, observer):
        """Behind a quantized value it has done its work; behind a float it becomes a conversion."""
        (source,) = node.args
        if source in self.quantized:
            node.replace_all_uses_with(source)
            self.graph.erase_node(node)
            return
        scale, zero_point = observer.calculate_qparams()
        user = next(iter(node.users), node)
        with self.graph.inserting_before(node):
            facts = [
                self._constant(f"{user.name}_input_{word}_0", value)
                for word, value in (("scale", scale), ("zero_point", zero_point))
            ]
            made = self.graph.call_function(
                torch.quantize_per_tensor, (source, *facts, observer.dtype)
            )
        node.replace_all_uses_with(made)
        self.graph.erase_node(node)
        self.quantized.add(made)

    def _constant(self, name, value):
        name = name.replace(".", "_")
        if not hasattr(self.model, name):
            kind = torch.float32 if value.is_floating_point() else torch.int64
            self.model.register_buffer(name, value.detach().reshape(()).to(kind))
        return self.graph.get_attr(name)

    def _exchange(self, node):
        """A quantized op in place of a float one."""
        watcher = next((u for u in node.users if u.op == "call_module" and
                        _is_activation_post_process(_module(self.model, u))), None)  # fmt: skip
        observer = None if watcher is None else _module(self.model, watcher)
        self.quantized.add(node)
        if node.op == "call_module":
            module = _module(self.model, node)
            if observer is not None:
                module.activation_post_process = observer
            _set(self.model, node.target, swap_module(module, _MODULES, {}))
            return
        scale, zero_point = observer.calculate_qparams()
        with self.graph.inserting_before(node):
            facts = [
                self._constant(f"{node.name}_{word}_0", value)
                for word, value in (("scale", scale), ("zero_point", zero_point))
            ]
            name = _SUMS[node.target]
            if name == "cat":
                tensors = node.args[0] if node.args else node.kwargs["tensors"]
                dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
                args = (tensors, dim, *facts)
            else:
                args = (*node.args[:2], *facts)
            made = self.graph.call_function(getattr(torch.ops.quantized, name), args)
        node.replace_all_uses_with(made)
        self.graph.erase_node(node)
        self.quantized.add(made)

    def _with_floats(self, node):
        """A float op takes floats."""
        for source in list(node.all_input_nodes):
            if source in self.quantized:
                if source not in self.floats:
                    with self.graph.inserting_after(source):
                        self.floats[source] = self.graph.call_method("dequantize", (source,))
                node.replace_input_with(source, self.floats[source])


def convert_fx(
    graph_module: fx.GraphModule,
    convert_custom_config: Any = None,
    _remove_qconfig: bool = True,
    qconfig_mapping: Any = None,
    backend_config: Any = None,
    keep_original_weights: bool = False,
) -> fx.GraphModule:
    """A recorded model whose ops are exchanged for quantized ones."""
    facts = graph_module.meta
    model = copy.deepcopy(graph_module)
    model.meta.update(facts)
    _Conversion(model).run()
    model.delete_all_unused_submodules()
    for name, module in list(model.named_children()):
        if _is_activation_post_process(module):  # one that several names share
            delattr(model, name)
    for module in model.modules():
        if "qconfig" in module.__dict__:
            del module.qconfig
    model.graph.lint()
    model.recompile()
    return model
