"""A quantizer that knows layers: which nodes belong together, and where levels are needed."""

from collections.abc import Callable
from typing import Any

from flambeau.ao.quantization.quantizer import (
    QuantizationAnnotation,
    QuantizationConfig,
    Quantizer,
    SharedQuantizationSpec,
)
from flambeau.fx import GraphModule, Node

KEY = "quantization_annotation"
WEIGHED = frozenset(
    {"conv1d", "conv2d", "conv3d", "linear"}
    | {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}
)
NORMS = frozenset({"batch_norm"})
ENDS = frozenset({"relu", "relu_", "hardtanh", "hardtanh_", "relu6", "leaky_relu", "hardswish"})
SUMS = frozenset({"add", "add_", "mul", "mul_", "cat"})
SHARING = frozenset(
    "max_pool2d max_pool1d adaptive_avg_pool2d avg_pool2d mean flatten view reshape permute "
    "transpose squeeze unsqueeze slice select dropout clone contiguous hardtanh upsample_nearest2d "
    "pixel_shuffle".split()
)


def base(node: Any) -> str:
    """The name of an aten op, whatever its overload."""
    text = str(node.target)
    return text.split(".")[1] if node.op == "call_function" and text.startswith("aten.") else ""


def only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


class PatternQuantizer(Quantizer):
    """Annotates layers, sums and what keeps levels. `quantizes_results`: or only what is read."""

    quantizes_results = True

    def __init__(self) -> None:
        self.global_config: QuantizationConfig | None = None
        self._rules: list[tuple[Callable[[Node], bool], QuantizationConfig | None]] = []

    def set_global(self, quantization_config: QuantizationConfig | None) -> Any:
        self.global_config = quantization_config
        return self

    def _rule(self, fits: Callable[[Node], bool], config: QuantizationConfig | None) -> Any:
        self._rules.insert(0, (fits, config))
        return self

    def _of_module(self, name: str, config: QuantizationConfig | None) -> Any:
        """For what a submodule computes, and what is in it."""

        def fits(node: Node) -> bool:
            paths = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
            return any(path == name or path.startswith(name + ".") for path in paths)

        return self._rule(fits, config)

    def _of_module_type(self, kind: Any, config: QuantizationConfig | None) -> Any:
        wanted = _as_text(kind)

        def fits(node: Node) -> bool:
            kinds = [known for _, known in (node.meta.get("nn_module_stack") or {}).values()]
            return any(_as_text(known) == wanted for known in kinds)

        return self._rule(fits, config)

    def _of_operator(self, operator: Any, config: QuantizationConfig | None) -> Any:
        return self._rule(lambda node: node.target == operator, config)

    def _config(self, node: Node) -> QuantizationConfig | None:
        for fits, config in self._rules:
            if fits(node):
                return config
        return self.global_config

    def annotate(self, model: GraphModule) -> GraphModule:
        families = ((WEIGHED, self._layer), (SUMS, self._sum), (SHARING, self._sharing))
        for names, annotate in families:
            for node in model.graph.nodes:
                config = self._config(node) if base(node) in names else None
                if config is not None and not is_annotated(node):
                    annotate(node, config)
        return model

    def validate(self, model: GraphModule) -> None:
        """All annotations that it makes can be kept."""

    def _layer(self, node: Node, config: QuantizationConfig) -> None:
        """A layer with its batch norm and its activation, which are one step later."""
        x, weight, *rest = node.args
        told: dict = {x: config.input_activation, weight: config.weight}
        if rest and isinstance(rest[0], Node) and config.bias is not None:
            told[rest[0]] = config.bias
        chain = [node]
        for names in (NORMS, ENDS):
            after = only_user(chain[-1])
            if after is not None and base(after) in names and after.args[0] is chain[-1]:
                chain.append(after)
        for inner in chain[1:]:
            mark(inner)
        mark(node, told)
        if self.quantizes_results:
            chain[-1].meta[KEY].output_qspec = config.output_activation

    def _sum(self, node: Node, config: QuantizationConfig) -> None:
        parts = node.args[0] if base(node) == "cat" else node.args[:2]
        if not all(isinstance(part, Node) and _is_floating(part) for part in parts):
            return
        last = node
        after = only_user(node)
        if after is not None and base(after) in ENDS and base(node) != "cat":
            last = after
            mark(after)
        mark(node, dict.fromkeys(parts, config.input_activation))
        if base(node) == "cat":  # pieces have the levels of the whole
            first, *others = parts
            shared = SharedQuantizationSpec((first, node))
            node.meta[KEY].input_qspec_map |= dict.fromkeys(others, shared)
            node.meta[KEY].output_qspec = shared
        elif self.quantizes_results:
            last.meta[KEY].output_qspec = config.output_activation

    def _sharing(self, node: Node, config: QuantizationConfig) -> None:
        """What leaves levels as they are, behind something that has them."""
        source = node.args[0]
        if not isinstance(source, Node) or not _is_floating(source):
            return
        if source.meta.get(KEY) is None or not source.meta[KEY]._annotated:
            return
        mark(node, {source: config.input_activation})
        node.meta[KEY].output_qspec = SharedQuantizationSpec((source, node))


def _as_text(kind: Any) -> str:
    """A class, or its name, as exported programs write it."""
    text = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    return text.replace("flambeau.", "torch.", 1) if text.startswith("flambeau.") else text


def _is_floating(node: Node) -> bool:
    value = node.meta.get("val")
    return value is not None and hasattr(value, "dtype") and value.dtype.is_floating_point


def is_annotated(node: Node) -> bool:
    return KEY in node.meta and node.meta[KEY]._annotated


def mark(node: Node, told: dict | None = None) -> None:
    node.meta[KEY] = QuantizationAnnotation(input_qspec_map=told or {}, _annotated=True)
