"""What graphs quantization asks about ops: of our own tables, or of a backend's config.

Both kinds of rules answer: which ops fuse, which are quantized, which leave the levels of their
input as they are, and what trains in the place of a module.
"""

import operator
from typing import Any

import flambeau as torch
from flambeau import fx, nn
from flambeau.ao.quantization import quantization_mappings as mappings
from flambeau.ao.quantization.backend_config import BackendConfig, ObservationType
from flambeau.ao.quantization.fuser_method_mappings import get_fuser_method
from flambeau.ao.quantization.utils import getattr_from_fqn

_F = torch.nn.functional
SUMS: dict[Any, str] = {
    operator.add: "add", torch.add: "add", operator.iadd: "add", operator.mul: "mul",
    torch.mul: "mul", torch.cat: "cat",
}  # fmt: skip
MODULES = dict(mappings.DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)
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
_IN_PIECES = frozenset({torch.chunk, torch.split, torch.unbind, "chunk", "split", "unbind"})
_KEEPING_MODULES = (
    nn.ReLU, nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool1d,
    nn.Flatten, nn.Dropout, nn.Dropout2d, nn.Identity, nn.Hardtanh, nn.Upsample, nn.PixelShuffle,
)  # fmt: skip
_PATTERNS: list[tuple[Any, ...]] = [
    (conv, norm, nn.ReLU)
    for conv, norm in (
        (nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d),
    )
]  # fmt: skip
_PATTERNS += [pattern[:2] for pattern in list(_PATTERNS)]
_PATTERNS += [(kind, nn.ReLU) for kind in (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)]
_PATTERNS += [(nn.Linear, nn.BatchNorm1d), (nn.BatchNorm2d, nn.ReLU), (nn.BatchNorm3d, nn.ReLU)]
# modules that do what functions do, where modules are fused
_AS_MODULES = {
    _F.relu: nn.ReLU, torch.relu: nn.ReLU, _F.leaky_relu: nn.LeakyReLU, torch.tanh: nn.Tanh,
}  # fmt: skip


def module_of(model: fx.GraphModule, node: Any) -> Any:
    return getattr_from_fqn(model, node.target) if node.op == "call_module" else None


def in_pieces(node: Any) -> bool:
    """Is a node's value a tuple of parts of its input?"""
    return node.op in ("call_function", "call_method") and node.target in _IN_PIECES


def exchangeable(model: fx.GraphModule, node: Any) -> bool:
    """Is there a quantized op that does what a node does?"""
    if node.op == "call_module":
        return type(module_of(model, node)) in MODULES
    return node.op == "call_function" and node.target in SUMS


class Rules:
    """Our own tables."""

    fusions: list[tuple[tuple[Any, ...], Any]] = [(p, get_fuser_method(p)) for p in _PATTERNS]
    trained = mappings.DEFAULT_QAT_MODULE_MAPPINGS

    def fits(self, model: fx.GraphModule, node: Any, kind: Any) -> bool:
        """Is a node of a kind that stands in a pattern?"""
        if kind is not nn.ReLU:
            return type(module_of(model, node)) is kind
        if node.op == "call_module":
            return type(module_of(model, node)) is nn.ReLU
        return (node.op == "call_function" and node.target in (_F.relu, torch.relu)) or (
            node.op == "call_method" and node.target in ("relu", "relu_")
        )

    def as_module(self, model: fx.GraphModule, node: Any) -> Any:
        """What a fuser method is given for a node."""
        module = module_of(model, node)
        return nn.ReLU() if module is None else module

    def keeps(self, model: fx.GraphModule, node: Any) -> bool:
        """Does a node leave the levels of its input as they are?"""
        if node.op == "call_module":
            return type(module_of(model, node)) in _KEEPING_MODULES
        if node.op == "call_method":
            return node.target in _KEEPING_METHODS
        return node.op == "call_function" and node.target in _KEEPING_FUNCTIONS

    def quantizes(self, model: fx.GraphModule, node: Any) -> bool:
        """Is a node one that can be quantized?"""
        if node.op == "call_module":
            kind = type(module_of(model, node))
            known = kind in MODULES or kind in mappings.DEFAULT_QAT_MODULE_MAPPINGS
            return known and not self.keeps(model, node)
        if node.op != "call_function" or node.target not in SUMS:
            return False
        return _takes_tensors(node)

    def takes(self, model: fx.GraphModule, node: Any, qconfig: Any) -> bool:
        """May it be quantized as a QConfig says?"""
        return True


def _takes_tensors(node: Any) -> bool:
    return node.target is torch.cat or all(isinstance(a, fx.Node) for a in node.args[:2])


class BackendRules(Rules):
    """What a backend's config says. Ops that it quantizes and we cannot run between floats."""

    def __init__(self, config: BackendConfig) -> None:
        self.configs = {config.pattern: config for config in config.configs if config.pattern}
        runs = [(p, c) for p, c in self.configs.items() if isinstance(p, tuple) and c.fuser_method]
        runs.sort(key=lambda run: -len(run[0]))
        self.fusions = [(pattern, found.fuser_method) for pattern, found in runs]
        self.trained = {p: c.qat_module for p, c in self.configs.items() if c.qat_module}

    def fits(self, model: fx.GraphModule, node: Any, kind: Any) -> bool:
        return self._key(model, node) is kind

    def as_module(self, model: fx.GraphModule, node: Any) -> Any:
        module = module_of(model, node)
        if module is None and node.target in _AS_MODULES:
            return _AS_MODULES[node.target]()
        return node.target if module is None else module

    def _key(self, model: fx.GraphModule, node: Any) -> Any:
        module = module_of(model, node)
        return node.target if module is None else type(module)

    def _found(self, model: fx.GraphModule, node: Any) -> Any:
        if node.op not in ("call_module", "call_function", "call_method"):
            return None
        return self.configs.get(self._key(model, node))

    def _is(self, model: fx.GraphModule, node: Any, kind: ObservationType) -> bool:
        found = self._found(model, node)
        return found is not None and found.observation_type is kind

    def keeps(self, model: fx.GraphModule, node: Any) -> bool:
        if node.target is operator.getitem:
            return True
        shared = self._is(model, node, ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT)
        return shared and super().keeps(model, node)

    def quantizes(self, model: fx.GraphModule, node: Any) -> bool:
        found = self._found(model, node)
        if found is None or self.keeps(model, node):
            return False
        if node.op == "call_function" and node.target in SUMS and not _takes_tensors(node):
            return False
        return found.observation_type is not ObservationType.INPUT_OUTPUT_NOT_OBSERVED

    def takes(self, model: fx.GraphModule, node: Any, qconfig: Any) -> bool:
        activation, weight = qconfig.activation(), qconfig.weight()
        weighted = node.op == "call_module" and hasattr(module_of(model, node), "weight")
        for config in self._found(model, node).dtype_configs:
            if bool(config.is_dynamic) != bool(getattr(activation, "is_dynamic", False)):
                continue
            wanted = [(activation, config.input_dtype_with_constraints)]
            if not config.is_dynamic:
                wanted.append((activation, config.output_dtype_with_constraints))
            if weighted:
                wanted.append((weight, config.weight_dtype_with_constraints))
            if all(_obeys(observer, dtype) for observer, dtype in wanted):
                return True
        return False


def _obeys(observer: Any, wanted: Any) -> bool:
    """Does an observer give the dtype, the levels and the scales that are wanted?"""
    if wanted.dtype is None:
        return True
    if observer.dtype is not wanted.dtype:
        return False
    least, most = getattr(observer, "quant_min", None), getattr(observer, "quant_max", None)
    low, high = wanted.quant_min_lower_bound, wanted.quant_max_upper_bound
    if low is not None and (least is None or least < low):
        return False
    if high is not None and (most is None or most > high):
        return False
    inner = getattr(observer, "activation_post_process", observer)
    for bound, name in (
        (wanted.scale_exact_match, "scale"),
        (wanted.zero_point_exact_match, "zero_point"),
    ):
        if bound is not None:
            value = getattr(inner, name, None)
            if value is None or float(value) != bound:
                return False
    eps = getattr(inner, "eps", None)
    small = wanted.scale_min_lower_bound
    return small is None or (eps is not None and float(eps) >= small)


def rules_of(backend_config: Any) -> Rules:
    """The rules of a backend's config, which may be a dict; our own without one."""
    if backend_config is None:
        return Rules()
    if isinstance(backend_config, dict):
        backend_config = BackendConfig.from_dict(backend_config)
    return BackendRules(backend_config)
