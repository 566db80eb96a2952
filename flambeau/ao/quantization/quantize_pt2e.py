"""Quantization of exported programs: `prepare_pt2e`, `prepare_qat_pt2e`, `convert_pt2e`.

A quantizer annotates the nodes of `torch.export.export(model, args).module()`; observers (or fake
quantizations) stand where annotations ask for them; after the program has seen data, each becomes
a pair of ops of `torch.ops.quantized_decomposed`, to integers and back. Weights become integers.
"""

import itertools
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.quantization.exported_norms import fold_norms, fold_trained_norms, spread_norms
from flambeau.ao.quantization.fake_quantize import FixedQParamsFakeQuantize
from flambeau.ao.quantization.observer import FixedQParamsObserver, _is_activation_post_process
from flambeau.ao.quantization.observer_base import ObserverBase
from flambeau.ao.quantization.quantizer import (
    DerivedQuantizationSpec,
    FixedQParamsQuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)
from flambeau.ao.quantization.quantizer.patterns import KEY, base
from flambeau.ao.quantization.utils import getattr_from_fqn, is_per_channel
from flambeau.fx import GraphModule, Node

__all__ = [
    "convert_pt2e", "move_exported_model_to_eval", "move_exported_model_to_train", "prepare_pt2e",
    "prepare_qat_pt2e",
]  # fmt: skip


def prepare_pt2e(model: GraphModule, quantizer: Quantizer) -> GraphModule:
    """An exported model that observes what passes; batch norms are folded in."""
    fold_norms(model)
    return _prepared(model, quantizer, False)


def prepare_qat_pt2e(model: GraphModule, quantizer: Quantizer) -> GraphModule:
    """An exported model that trains as if it were quantized."""
    model = _prepared(model, quantizer, True)
    spread_norms(model)
    return model


def _prepared(model, quantizer, is_qat):
    model = quantizer.transform_for_annotation(model)
    quantizer.annotate(model)
    quantizer.validate(model)
    places = _Places(model, is_qat)
    quantizer.prepare_obs_or_fq_callback(model, places.observers)
    places.put_in()
    model.graph.lint()
    model.recompile()
    return model


# -- observers -------------------------------------------------------------------------------------


class _Places:
    """Where annotations ask for observers: results of nodes, and nodes as arguments of others."""

    def __init__(self, model: GraphModule, is_qat: bool) -> None:
        self.model, self.is_qat = model, is_qat
        self.specs: dict = {}
        for node in model.graph.nodes:
            said = node.meta.get(KEY)
            if said is None:
                continue
            for source, spec in said.input_qspec_map.items():
                if spec is not None:
                    self.specs[source, node] = spec
            if said.output_qspec is not None:
                self.specs[node] = said.output_qspec
        self.observers: dict = {}
        for place in self.specs:
            self._observer(place)

    def _observer(self, place: Any) -> Any:
        if place not in self.observers:
            self.observers[place] = self._found(place, self.specs[place])
        return self.observers[place]

    def _found(self, place: Any, spec: Any) -> Any:
        if isinstance(spec, SharedQuantizationSpec):
            return self._observer(spec.edge_or_node)
        if isinstance(spec, DerivedQuantizationSpec):
            return _Derived(spec, [self._observer(one) for one in spec.derived_from])
        if isinstance(place, tuple):
            source, _ = place
            if source in self.specs:  # its result is observed as it is
                return self._observer(source)
            for other, observer in self.observers.items():
                if isinstance(other, tuple) and other[0] is source and self.specs[other] == spec:
                    return observer
        return self._made(spec)

    def _made(self, spec: Any) -> nn.Module:
        names = ("dtype", "quant_min", "quant_max", "qscheme", "ch_axis", "is_dynamic")
        told = {n: getattr(spec, n) for n in names if getattr(spec, n, None) not in (None, False)}
        if isinstance(spec, FixedQParamsQuantizationSpec):
            make = FixedQParamsObserver.with_args(
                **told, scale=spec.scale, zero_point=spec.zero_point
            )
            return FixedQParamsFakeQuantize(make) if self.is_qat else make()
        return spec.observer_or_fake_quant_ctr(**told)

    def put_in(self) -> None:
        """Observers behind results come first: arguments are read from behind them."""
        graph, number = self.model.graph, itertools.count()
        seen: dict = {}  # (node, observer) -> the node that observes it

        def watched(node: Node, observer: nn.Module) -> Node:
            found = seen.get((node, observer))
            if found is None:
                name = f"activation_post_process_{next(number)}"
                self.model.add_submodule(name, observer)
                with graph.inserting_after(node):
                    found = seen[node, observer] = graph.call_module(name, (node,))
                found.meta.update({k: v for k, v in node.meta.items() if k == "val"})
            return found

        for node in list(graph.nodes):
            if node in self.specs:
                users = list(node.users)
                found = watched(node, self.observers[node])
                for user in users:
                    user.replace_input_with(node, found)
        for place in self.specs:
            if isinstance(place, tuple):
                source, reader = place
                observer = self.observers[place]
                if observer is not self.observers.get(source):
                    behind = source
                    if source in self.specs:
                        behind = seen[source, self.observers[source]]
                    reader.replace_input_with(behind, watched(behind, observer))


class _Derived(ObserverBase):
    """Scales that follow from those of other observers."""

    def __init__(self, spec: DerivedQuantizationSpec, sources: list) -> None:
        ObserverBase.__init__(self, spec.dtype)
        vars(self).update(sources=sources, derive=spec.derive_qparams_fn, ch_axis=spec.ch_axis or 0)
        self.qscheme = spec.qscheme or torch.per_tensor_affine
        low, high = (-(2**31), 2**31 - 1) if spec.quant_min is None else (
            spec.quant_min, spec.quant_max)  # fmt: skip
        self.quant_min, self.quant_max = low, high

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def calculate_qparams(self) -> Any:
        return self.derive(self.sources)


# -- converting ------------------------------------------------------------------------------------


def convert_pt2e(
    model: GraphModule, use_reference_representation: bool = False, fold_quantize: bool = True
) -> GraphModule:
    """An exported model with ops to integers and back in place of observers."""
    if use_reference_representation:
        raise NotImplementedError("use_reference_representation: programs compute in floats here")
    fold_trained_norms(model)
    for node in list(model.graph.nodes):
        if node.op == "call_module":
            observer = getattr_from_fqn(model, node.target)
            if _is_activation_post_process(observer):
                _Exchange(model, node, observer).run(fold_quantize)
    model.graph.eliminate_dead_code()
    for node in model.graph.nodes:
        node.meta.pop(KEY, None)
    _drop_unread(model)
    model.graph.lint()
    model.recompile()
    return model


def _drop_unread(model: GraphModule) -> None:
    """Observers, and float weights for which there are integers now."""
    read = {node.target for node in model.graph.nodes if node.op == "get_attr"}
    for path, module in list(model.named_modules(remove_duplicate=False)):
        for table in (module._parameters, module._buffers):
            for name in list(table):
                if (f"{path}.{name}" if path else name) not in read:
                    del table[name]
    for name, module in list(model._modules.items()):
        if _is_activation_post_process(module):
            delattr(model, name)


class _Exchange:
    """One observer that becomes a pair of ops."""

    def __init__(self, model: GraphModule, node: Node, observer: Any) -> None:
        self.model, self.node, self.observer = model, node, observer
        self.dtype = {torch.quint8: torch.uint8, torch.qint8: torch.int8}.get(
            observer.dtype, observer.dtype
        )

    def run(self, fold: bool) -> None:
        graph, (source,) = self.model.graph, self.node.args
        facts, kind = self._facts(), "tensor"
        with graph.inserting_before(self.node):
            if is_per_channel(self.observer.qscheme):
                kind = "channel"
                names = [self._held(w, t) for w, t in zip(("scale", "zero_point"), facts)]
                facts = (*(graph.get_attr(name) for name in names), self.observer.ch_axis)
            ends = (self.observer.quant_min, self.observer.quant_max, self.dtype)
            ops = torch.ops.quantized_decomposed
            there = getattr(ops, f"quantize_per_{kind}").default
            back = getattr(ops, f"dequantize_per_{kind}").default
            if fold and source.op == "get_attr":
                plain = [getattr_from_fqn(self.model, f.target) if isinstance(f, Node) else f
                         for f in facts]  # fmt: skip
                value = getattr_from_fqn(self.model, source.target).detach()
                with torch.no_grad():
                    levels = there(value, *plain, *ends)
                whole = graph.get_attr(self._held("frozen_param", levels))
            else:
                whole = graph.call_function(there, (source, *facts, *ends))
            found = graph.call_function(back, (whole, *facts, *ends))
        found.meta.update({k: v for k, v in self.node.meta.items() if k == "val"})
        self.node.replace_all_uses_with(found)
        graph.erase_node(self.node)

    def _facts(self) -> tuple:
        scale, zero_point = self.observer.calculate_qparams()
        if is_per_channel(self.observer.qscheme):
            return scale.detach().float(), zero_point.detach().to(torch.int64)
        return float(scale), int(zero_point)

    def _held(self, word: str, value: torch.Tensor) -> str:
        name = next(n for k in itertools.count() if not hasattr(self.model, n := f"_{word}{k}"))
        self.model.register_buffer(name, value)
        return name


# -- modes -----------------------------------------------------------------------------------------

# Ops that do something else while a model trains, and which argument says so.
_MODES = {"batch_norm": 5, "dropout": 2, "dropout_": 2}


def _move(model: GraphModule, training: bool) -> GraphModule:
    for node in model.graph.nodes:
        place = _MODES.get(base(node))
        if place is not None:
            node.update_arg(place, training)
    model.recompile()
    return model


def move_exported_model_to_eval(model: GraphModule) -> GraphModule:
    """Dropout drops nothing, batch norms use what they have learnt."""
    return _move(model, False)


def move_exported_model_to_train(model: GraphModule) -> GraphModule:
    """The other way round."""
    return _move(model, True)
