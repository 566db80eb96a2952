"""Quantized models as float models with pairs of QuantizeLinear and DequantizeLinear.

Quantized tensors cannot be recorded, and runtimes want pairs anyway, which they fuse into kernels
for integers. So a copy of the model gets, for each quantized module, one that computes in floats
and rounds its results to the same levels. Weights stay integers.
"""

import copy
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import Tensor, fx, nn

__all__ = ["in_pairs", "is_quantized_model"]

_F = nn.functional


def is_quantized_model(model: nn.Module) -> bool:
    """Has a model modules on quantized tensors?"""
    return any(type(m).__module__.startswith(_PLACES) for m in model.modules())


_PLACES = ("flambeau.ao.nn.quantized", "flambeau.ao.nn.intrinsic.quantized")


def rounded(x: Tensor, scale: float, zero_point: int, dtype: Any) -> Tensor:
    """To integers and back."""
    plain = {torch.quint8: torch.uint8, torch.qint8: torch.int8}[dtype]
    facts = (scale, zero_point, *((0, 255) if plain is torch.uint8 else (-128, 127)), plain)
    ops = torch.ops.quantized_decomposed
    return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *facts), *facts)


class Pair(nn.Module):
    """What a module computes, rounded to its levels."""

    def __init__(
        self, run: Callable, scale: Any, zero_point: Any, dtype: Any = torch.quint8
    ) -> None:
        super().__init__()
        self.run, self.levels = run, (float(scale), int(zero_point), dtype)
        if isinstance(run, nn.Module):
            self.inner = run

    def forward(self, *args: Any) -> Tensor:
        return rounded(self.run(*args), *self.levels)


class Layer(nn.Module):
    """A layer whose weight is kept as integers."""

    def __init__(self, weight: Tensor, bias: Tensor | None, run: Callable) -> None:
        super().__init__()
        self.run = run
        self.register_buffer("weight", weight.int_repr())
        self.register_buffer("bias", None if bias is None else bias.detach())
        self.per_channel = "per_channel" in str(weight.qscheme())
        low, high = (-128, 127) if weight.dtype is torch.qint8 else (0, 255)
        self.ends = (low, high, self.weight.dtype)
        if self.per_channel:
            self.register_buffer("scales", weight.q_per_channel_scales().float())
            self.register_buffer("zeros", weight.q_per_channel_zero_points().long())
            self.axis = weight.q_per_channel_axis()
        else:
            self.scale = (weight.q_scale(), weight.q_zero_point())

    def forward(self, x: Tensor) -> Tensor:
        ops = torch.ops.quantized_decomposed
        if self.per_channel:
            facts = (self.scales, self.zeros, self.axis)
            weight = ops.dequantize_per_channel(self.weight, *facts, *self.ends)
        else:
            weight = ops.dequantize_per_tensor(self.weight, *self.scale, *self.ends)
        return self.run(x, weight, self.bias)


def _activated(run: Callable, m: Any) -> Callable:
    """A layer and the activation that its class has."""
    kind = type(m).__name__
    if "LeakyReLU" in kind:
        return lambda *args: _F.leaky_relu(run(*args), m.negative_slope)
    if "ReLU" in kind:
        return lambda *args: _F.relu(run(*args))
    return lambda *args: torch.tanh(run(*args)) if "Tanh" in kind else run(*args)


def _linear(m: Any) -> nn.Module:
    layer = Layer(m.weight(), m.bias(), _activated(_F.linear, m))
    if "Dynamic" in m._get_name():  # floats in, floats out: only the weight is rounded here
        return layer
    return Pair(layer, m.scale, m.zero_point)


def _conv(m: Any) -> nn.Module:
    function = getattr(_F, m._stem)
    facts: tuple = (m.stride, m.padding if m.padding_mode == "zeros" else 0)
    if m.transposed:
        facts += (m.output_padding, m.groups, m.dilation)
    else:
        facts += (m.dilation, m.groups)

    def run(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return function(m._padded(x), weight, bias, *facts)

    layer = Layer(m.weight(), m.bias(), _activated(run, m))
    return layer if "Dynamic" in m._get_name() else Pair(layer, m.scale, m.zero_point)


def _norm(m: Any) -> nn.Module:
    def run(x: Tensor) -> Tensor:
        return _F.batch_norm(
            x, m.running_mean, m.running_var, m.weight, m.bias, False, 0.0, m.eps
        )  # fmt: skip

    return Pair(_activated(run, m), m.scale, m.zero_point)


def _float_twin(m: Any) -> nn.Module:
    """Layers that are float layers with levels of their own: the class that they derive from."""
    kind = next(k for k in type(m).__mro__ if k.__module__.startswith("flambeau.nn."))
    twin = copy.copy(m)
    twin.__class__ = kind
    scale = m.output_scale if hasattr(m, "output_scale") else m.scale
    zero_point = m.output_zero_point if hasattr(m, "output_zero_point") else m.zero_point
    return Pair(twin, scale, zero_point)


class Sums(nn.Module):
    """QFunctional: methods whose results are rounded."""

    def __init__(self, m: Any) -> None:
        super().__init__()
        self.levels = (m.scale, m.zero_point, torch.quint8)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return rounded(x + y, *self.levels)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return rounded(x * y, *self.levels)

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        return rounded(x @ y, *self.levels)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        return rounded(_F.relu(x + y), *self.levels)

    def cat(self, x: Any, dim: int = 0) -> Tensor:
        return rounded(torch.cat(x, dim), *self.levels)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        return x + y

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        return x * y


def _table() -> dict[type, Callable]:
    from flambeau.ao.nn import quantized as q
    from flambeau.ao.nn.quantized.modules import batchnorm, conv

    def embedding(m: Any) -> nn.Module:
        return Layer(m.weight(), None, lambda x, weight, _: _F.embedding(x, weight))

    floats = (q.Hardswish, q.ELU, q.LeakyReLU, q.Sigmoid, q.Softmax, q.LayerNorm, q.GroupNorm,
              q.InstanceNorm1d, q.InstanceNorm2d, q.InstanceNorm3d)  # fmt: skip
    return {
        q.Quantize: lambda m: Pair(nn.Identity(), m.scale, m.zero_point, m.dtype),
        q.DeQuantize: lambda m: nn.Identity(),
        q.Linear: _linear,
        conv._ConvNd: _conv,
        batchnorm._BatchNorm: _norm,
        q.QFunctional: Sums,
        q.ReLU6: lambda m: nn.ReLU6(),
        q.Dropout: lambda m: nn.Identity(),
        q.PReLU: lambda m: Pair(
            Layer(m.weight, None, lambda x, w, _: _F.prelu(x, w)), m.scale, m.zero_point
        ),
        q.Embedding: embedding,
        **dict.fromkeys(floats, _float_twin),
    }


def in_pairs(model: nn.Module) -> nn.Module:
    """A copy of a quantized model that computes in floats."""
    found = copy.deepcopy(model)
    return _exchanged(found, _table())


def _exchanged(module: Any, table: dict[type, Callable]) -> Any:
    for kind, make in table.items():
        if isinstance(module, kind):
            return make(module)
    for name, child in list(module.named_children()):
        if not (isinstance(child, nn.Identity) and name == "activation_post_process"):
            module._modules[name] = _exchanged(child, table)
    if isinstance(module, fx.GraphModule):
        _rewrite(module)
    return module


# -- graphs of prepare_fx and convert_fx -----------------------------------------------------------

_OPS: dict[str, Callable] = {
    "add": lambda x, y, s, z: rounded(x + y, s, z, torch.quint8),
    "mul": lambda x, y, s, z: rounded(x * y, s, z, torch.quint8),
    "add_relu": lambda x, y, s, z: rounded(_F.relu(x + y), s, z, torch.quint8),
    "cat": lambda parts, dim, s, z: rounded(torch.cat(parts, dim), s, z, torch.quint8),
}


def _rewrite(model: fx.GraphModule) -> None:
    """Ops on quantized tensors become ops on floats; scales become numbers."""

    def plain(node: Any) -> Any:
        if isinstance(node, fx.Node) and node.op == "get_attr":
            value: Any = model
            for name in node.target.split("."):
                value = getattr(value, name)
            return value.item() if value.numel() == 1 else node
        return node

    for node in list(model.graph.nodes):
        space = getattr(node.target, "__module__", "")
        if node.op == "call_method" and node.target == "dequantize":
            node.replace_all_uses_with(node.args[0])
            model.graph.erase_node(node)
        elif node.op == "call_function" and node.target is torch.quantize_per_tensor:
            source, scale, zero_point, dtype = node.args
            node.args = (source, float(plain(scale)), int(plain(zero_point)), dtype)
            node.target = rounded
        elif node.op == "call_function" and space == "torch.ops.quantized":
            *rest, scale, zero_point = node.args
            node.args = (*rest, float(plain(scale)), int(plain(zero_point)))
            node.target = _OPS[node.target.__name__]
    model.graph.eliminate_dead_code()
    model.recompile()
