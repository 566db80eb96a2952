"""Quantization of graphs: a model is recorded, and needs neither stubs nor lists of names.

`prepare_fx` records the model, fuses what belongs together and puts observers behind the inputs and
the ops that can be quantized; `convert_fx` exchanges ops for quantized ones and puts conversions
where quantized and float parts meet. Ops that keep the levels of their input (pooling, reshapes,
relu) are left as they are, between quantized ones.
"""

import copy
import itertools
import operator
import re
from typing import Any

import flambeau as torch
from flambeau import fx, nn
from flambeau.ao.quantization import quantization_mappings as mappings
from flambeau.ao.quantization.backend_rules import (
    MODULES,
    SUMS,
    Rules,
    exchangeable,
    in_pieces,
    module_of,
    rules_of,
)
from flambeau.ao.quantization.observer import _is_activation_post_process
from flambeau.ao.quantization.qconfig_mapping import QConfigMapping
from flambeau.ao.quantization.quantize import swap_module
from flambeau.ao.quantization.utils import activation_is_statically_quantized, getattr_from_fqn


def _set(model: nn.Module, name: str, module: nn.Module) -> None:
    *parents, last = name.split(".")
    setattr(getattr_from_fqn(model, ".".join(parents)) if parents else model, last, module)


# -- recording -------------------------------------------------------------------------------------


class _Recorder(fx.Tracer):
    """Modules that a config names are called as they are."""

    def __init__(self, custom: dict) -> None:
        super().__init__()
        self.names = set(custom.get("non_traceable_module_name", ()))
        self.kinds = tuple(custom.get("non_traceable_module_class", ()))

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        whole = module_qualified_name in self.names or isinstance(m, self.kinds)
        return whole or super().is_leaf_module(m, module_qualified_name)


def _recorded(model: nn.Module, custom: dict) -> fx.GraphModule:
    model = copy.deepcopy(model)
    found = fx.GraphModule(model, _Recorder(custom).trace(model), type(model).__name__)
    return _with_attributes(found, model, custom)


def _with_attributes(made: Any, source: Any, custom: dict) -> Any:
    """Attributes that a config wants to see on what is made."""
    for name in custom.get("preserved_attributes", ()):
        setattr(made, name, getattr(source, name))
    return made


# -- fusing ----------------------------------------------------------------------------------------


def _run_of(model: fx.GraphModule, node: Any, pattern: tuple, rules: Rules) -> list | None:
    """Nodes from this one on that follow a pattern, each used by the next only."""
    found = []
    for k, kind in enumerate(pattern):
        if not rules.fits(model, node, kind):
            return None
        found.append(node)
        if k + 1 < len(pattern):
            if len(node.users) != 1:
                return None
            node = next(iter(node.users))
    return found


def _fuse(model: fx.GraphModule, is_qat: bool, rules: Rules) -> fx.GraphModule:
    for pattern, method in rules.fusions:
        for first in list(model.graph.nodes):
            nodes = _run_of(model, first, pattern, rules)
            if nodes is None or first.op != "call_module":
                continue
            modules = [rules.as_module(model, n) for n in nodes]
            for module in modules:
                if isinstance(module, nn.Module):
                    module.train(modules[0].training)
            _set(model, first.target, method(is_qat, *modules))
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
    return _fuse(_recorded(model, fuse_custom_config or {}), False, rules_of(backend_config))


# -- which QConfig a node has ----------------------------------------------------------------------


def _qconfig(mapping: QConfigMapping, model: fx.GraphModule, node: Any) -> Any:
    module = module_of(model, node)
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


def _prepare(model, mapping, is_qat, rules, custom):
    mapping = QConfigMapping.from_dict(mapping) if isinstance(mapping, dict) else mapping
    graph_module = _fuse(_recorded(model, custom or {}), is_qat, rules)
    static, dynamic = [], []
    for node in graph_module.graph.nodes:
        if not rules.quantizes(graph_module, node):
            continue
        qconfig = _qconfig(mapping, graph_module, node)
        if qconfig is None or not rules.takes(graph_module, node, qconfig):
            continue
        module = module_of(graph_module, node)
        if module is not None:
            module.qconfig = qconfig
        if activation_is_statically_quantized(qconfig):
            static.append((node, qconfig))
        elif module is not None and type(module) in mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS:
            dynamic.append(node.name)
    if is_qat:
        for node, _ in static:
            module = module_of(graph_module, node)
            if type(module) in rules.trained:
                made = rules.trained[type(module)].from_float(module)
                _set(graph_module, node.target, made)
    _observe(graph_module, static, rules)
    graph_module.meta["quantized"] = [node.name for node, _ in static]
    graph_module.meta["dynamic"] = dynamic
    return graph_module


def _observe(model, static, rules):
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
        for source in _sources(model, node, rules):
            if source not in chosen and source.op != "get_attr":
                sources.setdefault(source, qconfig)
    for node in list(model.graph.nodes):
        qconfig = chosen.get(node) or sources.get(node)
        if qconfig is not None:
            add(node, qconfig.activation())
        elif in_pieces(node) or node.target is operator.getitem:
            continue
        elif rules.keeps(model, node):
            observers = {seen_by.get(source) for source in _inputs(node)}
            if len(observers) == 1 and None not in observers:  # levels stay: one observer for both
                add(node, observers.pop())
    model.recompile()


def _inputs(node):
    """Nodes whose values a node computes with."""
    if node.op == "call_function" and node.target is torch.cat:
        tensors = node.args[0] if node.args else node.kwargs.get("tensors", ())
        return [a for a in tensors if isinstance(a, fx.Node)]
    if node.op == "call_function" and node.target in SUMS:
        return [a for a in node.args[:2] if isinstance(a, fx.Node)]
    return [a for a in node.args[:1] if isinstance(a, fx.Node)]


def _sources(model, node, rules):
    """Where the values that reach a node come from, through ops that keep levels."""
    found, left = [], list(_inputs(node))
    while left:
        one = left.pop()
        if (
            rules.keeps(model, one)
            and not rules.quantizes(model, one)
            and not (_is_part(model, one, rules))
        ):
            left += _inputs(one)
        else:
            found.append(one)
    return found


def _is_part(model, node, rules):
    """Is it taken from a value that need be no tensor?"""
    if node.target is not operator.getitem:
        return False
    (whole, *_) = _inputs(node)
    return not (rules.keeps(model, whole) or rules.quantizes(model, whole))


def prepare_fx(
    model: nn.Module,
    qconfig_mapping: Any,
    example_inputs: tuple,
    prepare_custom_config: Any = None,
    _equalization_config: Any = None,
    backend_config: Any = None,
) -> fx.GraphModule:
    """A recorded model that observes what passes."""
    rules = rules_of(backend_config)
    return _prepare(model, qconfig_mapping, False, rules, prepare_custom_config)


def prepare_qat_fx(
    model: nn.Module,
    qconfig_mapping: Any,
    example_inputs: tuple,
    prepare_custom_config: Any = None,
    backend_config: Any = None,
) -> fx.GraphModule:
    """A recorded model that trains as if it were quantized."""
    rules = rules_of(backend_config)
    return _prepare(model, qconfig_mapping, True, rules, prepare_custom_config)


# -- converting ------------------------------------------------------------------------------------


class _Conversion:
    """Nodes in order; knows which values are quantized."""

    def __init__(self, model: fx.GraphModule, rules: Rules) -> None:
        self.model, self.graph, self.rules = model, model.graph, rules
        self.chosen = set(model.meta.get("quantized", ()))
        self.dynamic = set(model.meta.get("dynamic", ()))
        self.quantized: set = set()
        self.exchanged: set = set()  # modules that more than one node may call
        self.floats: dict = {}  # quantized node -> its dequantized value

    def run(self) -> None:
        for node in list(self.graph.nodes):
            observer = module_of(self.model, node)
            if _is_activation_post_process(observer):
                self._observer(node, observer)
            elif self._is_exchanged(node):
                self._exchange(node)
            elif self.rules.keeps(self.model, node) and self._reached(node):
                self.quantized.add(node)
            else:
                if node.name in self.dynamic:
                    made = swap_module(observer, mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, {})
                    _set(self.model, node.target, made)
                self._with_floats(node)

    def _is_exchanged(self, node):
        known = node.target in self.exchanged or exchangeable(self.model, node)
        if node.name not in self.chosen or not known:
            return False
        return all(a in self.quantized for a in _inputs(node))

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
                self._constant(f"{user.name}_input_{word}", value)
                for word, value in (("scale", scale), ("zero_point", zero_point))
            ]
            made = self.graph.call_function(
                torch.quantize_per_tensor, (source, *facts, observer.dtype)
            )
        node.replace_all_uses_with(made)
        self.graph.erase_node(node)
        self.quantized.add(made)

    def _constant(self, stem, value):
        """A number as a buffer of its own: an op may have several inputs that are converted."""
        stem = stem.replace(".", "_")
        name = next(n for n in (f"{stem}_{k}" for k in itertools.count())
                    if not hasattr(self.model, n))  # fmt: skip
        kind = torch.float32 if value.is_floating_point() else torch.int64
        self.model.register_buffer(name, value.detach().reshape(()).to(kind))
        return self.graph.get_attr(name)

    def _exchange(self, node):
        """A quantized op in place of a float one."""
        watcher = next((u for u in node.users if u.op == "call_module" and
                        _is_activation_post_process(module_of(self.model, u))), None)  # fmt: skip
        observer = None if watcher is None else module_of(self.model, watcher)
        self.quantized.add(node)
        if node.op == "call_module":
            if node.target in self.exchanged:
                return
            self.exchanged.add(node.target)
            module = module_of(self.model, node)
            if observer is not None:
                module.activation_post_process = observer
            _set(self.model, node.target, swap_module(module, MODULES, {}))
            return
        scale, zero_point = observer.calculate_qparams()
        with self.graph.inserting_before(node):
            facts = [
                self._constant(f"{node.name}_{word}", value)
                for word, value in (("scale", scale), ("zero_point", zero_point))
            ]
            name = SUMS[node.target]
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
    _Conversion(model, rules_of(backend_config)).run()
    model.delete_all_unused_submodules()
    for name, module in list(model.named_children()):
        if _is_activation_post_process(module):  # one that several names share
            delattr(model, name)
    for module in model.modules():
        if "qconfig" in module.__dict__:
            del module.qconfig
    model.graph.lint()
    model.recompile()
    return _with_attributes(model, graph_module, convert_custom_config or {})
