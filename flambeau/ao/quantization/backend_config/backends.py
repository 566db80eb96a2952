"""The backends that PyTorch knows, by families of patterns.

A family is a function of dtypes that lists the configs of its patterns; a backend says which
families it has, with which dtypes.
"""

import operator
from collections.abc import Iterable
from typing import Any

import flambeau as torch
import flambeau.ao.nn.intrinsic as nni
import flambeau.ao.nn.intrinsic.qat as nniqat
import flambeau.ao.nn.qat as nnqat
from flambeau import nn
from flambeau.ao.quantization import fuser_method_mappings as fusers

from .backend_config import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    DTypeWithConstraints,
    ObservationType,
)

F = torch.nn.functional
Configs = list[BackendPatternConfig]
Dtypes = list[DTypeConfig]
RELUS = (nn.ReLU, F.relu)
SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
OWN = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
UNSEEN = ObservationType.INPUT_OUTPUT_NOT_OBSERVED
# an op on a tensor and a number keeps the levels of the tensor
BY_TENSORS = {0: OWN, 1: SHARED, 2: OWN}


# -- dtypes ----------------------------------------------------------------------------------------

_SMALL = 2**-12  # the least scale of XNNPACK
_ACTIVATION = DTypeWithConstraints(torch.qint8, scale_min_lower_bound=_SMALL)
_WEIGHT = DTypeWithConstraints(torch.qint8, -127, 127, _SMALL)
_UP_FROM_0 = DTypeWithConstraints(
    torch.quint8, 0, 255, scale_exact_match=1 / 256, zero_point_exact_match=0
)
_AROUND_0 = DTypeWithConstraints(
    torch.quint8, 0, 255, scale_exact_match=1 / 128, zero_point_exact_match=128
)

WEIGHTED = DTypeConfig(torch.quint8, torch.quint8, torch.qint8, torch.float)
BARE = DTypeConfig(torch.quint8, torch.quint8)
DYNAMIC = DTypeConfig(torch.quint8, torch.float, torch.qint8, torch.float, True)
HALF = DTypeConfig(torch.float16, torch.float, torch.float16, torch.float, True)
FLOAT_WEIGHT = DTypeConfig(torch.quint8, torch.quint8, torch.float, torch.float)
ROWS = DTypeConfig(torch.float, torch.float, torch.quint8)
ROWS_OF_4_BITS = DTypeConfig(torch.float, torch.float, torch.quint4x2)
SIGNED_ROWS = DTypeConfig(torch.float, torch.float, torch.qint8)
FIXED_UP_FROM_0 = DTypeConfig(_UP_FROM_0, _UP_FROM_0)
FIXED_AROUND_0 = DTypeConfig(_AROUND_0, _AROUND_0)
SYMMETRIC = DTypeConfig(_ACTIVATION, _ACTIVATION, _WEIGHT, torch.float)
SYMMETRIC_BARE = DTypeConfig(_ACTIVATION, _ACTIVATION)
SYMMETRIC_DYNAMIC = DTypeConfig(_ACTIVATION, torch.float, _WEIGHT, torch.float, True)
SIGNED = DTypeConfig(torch.qint8, torch.qint8, torch.qint8, torch.float)
SIGNED_BARE = DTypeConfig(torch.qint8, torch.qint8)


# -- families --------------------------------------------------------------------------------------


def _config(pattern: Any, dtypes: Dtypes, seen: ObservationType = OWN, **more: Any) -> Any:
    made = BackendPatternConfig(pattern).set_dtype_configs(list(dtypes)).set_observation_type(seen)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def _each(patterns: Iterable[Any], dtypes: Dtypes, seen: ObservationType = OWN) -> Configs:
    return [_config(pattern, dtypes, seen) for pattern in patterns]


def _convolution(dims: int, dtypes: Dtypes) -> Configs:
    def named(source: Any, name: str) -> Any:
        return getattr(source, f"{name}{dims}d")

    conv, norm = named(nn, "Conv"), named(nn, "BatchNorm")
    function = named(torch, "conv")
    with_relu, with_norm = named(nni, "ConvReLU"), named(nni, "ConvBn")
    with_both = named(nni, "ConvBnReLU")
    joined = fusers.sequential_method(with_relu)
    trained, trained_relu = named(nnqat, "Conv"), named(nniqat, "ConvReLU")
    trained_norm, trained_both = named(nniqat, "ConvBn"), named(nniqat, "ConvBnReLU")
    found = [
        _config(conv, dtypes, root_module=conv, qat_module=trained),
        _config(trained, dtypes, root_module=conv),
        _config(function, dtypes, _input_type_to_index={"weight": 1, "bias": 2}),
    ]
    for relu in RELUS:
        found.append(_config((conv, relu), dtypes, fuser_method=joined, fused_module=with_relu))
    found.append(_config(with_relu, dtypes, qat_module=trained_relu))
    found.append(_config(trained_relu, dtypes, root_module=conv))
    found += _each([(function, relu) for relu in RELUS], dtypes)
    found.append(
        _config((conv, norm), dtypes, fuser_method=fusers.fuse_conv_bn, fused_module=with_norm)
    )
    for relu in RELUS:
        both = _config((conv, norm, relu), dtypes, fused_module=with_both)
        both.fuser_method = fusers.fuse_conv_bn_relu
        if relu is F.relu:
            both.root_module = conv
        found.append(both)
    found.append(_config(with_norm, dtypes, qat_module=trained_norm))
    found.append(_config(with_both, dtypes, qat_module=trained_both))
    for kind in (trained_norm, trained_both):
        found.append(_config(kind, dtypes, root_module=conv))
    return found


def _transposed_convolution(dims: int, dtypes: Dtypes) -> Configs:
    conv, norm = getattr(nn, f"ConvTranspose{dims}d"), getattr(nn, f"BatchNorm{dims}d")
    function = getattr(torch, f"conv_transpose{dims}d")
    fuser = fusers.fuse_convtranspose_bn
    return [
        _config(conv, dtypes, root_module=conv),
        _config((conv, norm), dtypes, root_module=conv, fuser_method=fuser),
        _config(function, dtypes, _input_type_to_index={"weight": 1, "bias": 2}),
    ]


def convolutions(dtypes: Dtypes) -> Configs:
    found = []
    for dims in (1, 2, 3):
        found += _convolution(dims, dtypes) + _transposed_convolution(dims, dtypes)
    return found


def _linear_alone(dtypes: Dtypes) -> Configs:
    return [
        _config(nn.Linear, dtypes, root_module=nn.Linear, qat_module=nnqat.Linear),
        _config(nnqat.Linear, dtypes, root_module=nn.Linear),
        _config(F.linear, dtypes, _input_type_to_index={"weight": 1, "bias": 2}),
    ]


def _linear_before(functions: Any, fused: Any, dtypes: Dtypes) -> Configs:
    """A linear layer and an activation, as one module."""
    joined = fusers.sequential_method(fused)
    return [
        _config((nn.Linear, activation), dtypes, fuser_method=joined, fused_module=fused)
        for activation in functions
    ]


def linears(dtypes: Dtypes) -> Configs:
    fused, normed = nni.LinearReLU, nni.LinearBn1d
    trained, trained_norm = nniqat.LinearReLU, nniqat.LinearBn1d
    return [
        *_linear_alone(dtypes),
        *_linear_before(RELUS, fused, dtypes),
        _config(fused, dtypes, root_module=nn.Linear, qat_module=trained),
        _config(trained, dtypes, root_module=nn.Linear),
        *_each([(F.linear, relu) for relu in RELUS], dtypes),
        _config(
            (nn.Linear, nn.BatchNorm1d),
            dtypes,
            fuser_method=fusers.fuse_linear_bn,
            fused_module=normed,
        ),
        _config(normed, dtypes, root_module=nn.Linear, qat_module=trained_norm),
        _config(trained_norm, dtypes, root_module=nn.Linear),
    ]


def _linears_of_onednn(dtypes: Dtypes) -> Configs:
    found = []
    for functions, fused in (
        ((nn.LeakyReLU, F.leaky_relu), nni.LinearLeakyReLU),
        ((nn.Tanh, torch.tanh), nni.LinearTanh),
    ):
        found += _linear_before(functions, fused, dtypes)
        found.append(_config(fused, dtypes, root_module=nn.Linear))
        found += _each([(F.linear, function) for function in functions], dtypes)
    found.append(
        _config(
            (nn.Linear, nn.BatchNorm1d, nn.LeakyReLU),
            dtypes,
            fuser_method=fusers.fuse_linear_bn_leaky_relu,
            fused_module=nni.LinearLeakyReLU,
        )
    )
    return found


def sums(dtypes: Dtypes, names: str = "add mul") -> Configs:
    found = []
    for name in names.split():
        for op in (getattr(operator, name), getattr(torch, name)):
            patterns = [(op, relu) for relu in (*RELUS, torch.relu)] + [op]
            for config in _each(patterns, dtypes):
                found.append(config._set_num_tensor_args_to_observation_type(BY_TENSORS))
    return found


def activations(dtypes: Dtypes) -> Configs:
    """Ops that choose levels of their own for their results."""
    return [
        *_each(
            [
                nn.ELU, nn.LeakyReLU, nn.Hardswish, nn.InstanceNorm1d, nn.InstanceNorm2d,
                nn.InstanceNorm3d, nn.Dropout, nn.PReLU, F.elu, F.hardswish, F.leaky_relu,
                F.dropout,
            ],
            dtypes,
        ),
        _config(F.group_norm, dtypes, _input_type_to_index={"weight": 2, "bias": 3}),
        _config(F.instance_norm, dtypes, _input_type_to_index={"weight": 3, "bias": 4}),
    ]  # fmt: skip


def fixed(up_from_0: Dtypes, around_0: Dtypes) -> Configs:
    """Ops whose results lie in a known range."""
    patterns = [
        nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_", nn.Sigmoid, torch.sigmoid,
        "sigmoid", "sigmoid_", nn.Softmax,
    ]  # fmt: skip
    return _each(patterns, up_from_0) + _each([nn.Tanh, torch.tanh, "tanh", "tanh_"], around_0)


SHARING = [
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool1d, nn.AvgPool2d,
    nn.AvgPool3d, nn.Hardtanh, nn.Identity, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d,
    nn.PixelShuffle, nn.PixelUnshuffle, nn.ReLU, nn.ReLU6, F.adaptive_avg_pool1d,
    F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.hardtanh, F.hardtanh_, F.interpolate,
    F.max_pool1d, F.max_pool2d, F.max_pool3d, torch.pixel_shuffle, torch.pixel_unshuffle, F.relu,
    F.relu6, torch.avg_pool1d, F.avg_pool2d, F.avg_pool3d, torch.clamp, torch.flatten, torch.mean,
    torch.narrow, torch.repeat_interleave, torch.transpose, torch.squeeze, torch.stack,
    torch.unsqueeze, operator.floordiv, "contiguous", "clamp", "detach", "detach_", "mean",
    "permute", "repeat", "repeat_interleave", "reshape", "resize_", "relu", "relu_", "squeeze",
    "squeeze_", "transpose", "unsqueeze", "unsqueeze_", "view",
]  # fmt: skip


def sharing(dtypes: Dtypes) -> Configs:
    """Ops that keep the levels of what they are given."""
    return _each(SHARING, dtypes, SHARED)


def shapes(dtypes: Dtypes) -> Configs:
    """Questions about shapes."""
    return _each(["shape", "size"], dtypes, UNSEEN)


def batch_norms(dtypes: Dtypes) -> Configs:
    found = []
    for norm, fused in ((nn.BatchNorm2d, nni.BNReLU2d), (nn.BatchNorm3d, nni.BNReLU3d)):
        joined = fusers.sequential_method(fused)
        for relu in RELUS:
            found.append(_config((norm, relu), dtypes, fuser_method=joined, fused_module=fused))
        found.append(_config(norm, dtypes))
    return found + _each([nni.BNReLU2d, nni.BNReLU3d], dtypes)


def layer_norms(dtypes: Dtypes) -> Configs:
    function = _config(F.layer_norm, dtypes, _input_type_to_index={"weight": 2, "bias": 3})
    return [_config(nn.LayerNorm, dtypes), function]


def recurrent(dtypes: Dtypes) -> Configs:
    kinds = (nn.GRUCell, nn.LSTMCell, nn.RNNCell, nn.LSTM, nn.GRU)
    return [_config(kind, dtypes, root_module=kind) for kind in kinds]


def embeddings(dtypes: Dtypes) -> Configs:
    found = []
    for kind, trained in ((nn.Embedding, nnqat.Embedding), (nn.EmbeddingBag, nnqat.EmbeddingBag)):
        found.append(_config(kind, dtypes, root_module=kind, qat_module=trained))
        found.append(_config(trained, dtypes, root_module=kind))
    return found


# -- backends --------------------------------------------------------------------------------------


def _backend(name: str, *families: Configs) -> BackendConfig:
    return BackendConfig(name).set_backend_pattern_configs(
        [c for family in families for c in family]
    )


def _of_cpus(name: str, **others: Dtypes) -> BackendConfig:
    """What backends of CPUs have in common; `others` are dtypes of families that differ."""
    bare = others.get("bare", [BARE])
    rows = others.get("rows", [ROWS, ROWS_OF_4_BITS])
    first = others.get("first", [])
    families = [
        convolutions([*first, WEIGHTED]),
        linears(others.get("linear", [*first, WEIGHTED, DYNAMIC, HALF])),
        sums(bare),
        _each([torch.matmul], bare),
        _each([torch.cat], bare, SHARED),
        activations(bare),
        fixed(
            [*others.get("fixed", []), FIXED_UP_FROM_0], [*others.get("fixed", []), FIXED_AROUND_0]
        ),
        sharing(bare),
        batch_norms(bare),
        recurrent(others.get("recurrent", [DYNAMIC, HALF])),
        embeddings(rows),
    ]
    return _backend(name, *families)


def get_native_backend_config() -> BackendConfig:
    """What either FBGEMM or QNNPACK can do."""
    native = _of_cpus("native")
    more = shapes([BARE]) + layer_norms([FLOAT_WEIGHT])
    return native.set_backend_pattern_configs(more)


def get_native_backend_config_dict() -> dict[str, Any]:
    """The same as a dict."""
    return get_native_backend_config().to_dict()


def get_fbgemm_backend_config() -> BackendConfig:
    """FBGEMM, for servers."""
    return _of_cpus("fbgemm").set_backend_pattern_configs(shapes([BARE]))


def get_qnnpack_backend_config() -> BackendConfig:
    """QNNPACK and XNNPACK, for telephones."""
    bare = [SYMMETRIC_BARE, BARE]
    return _of_cpus("qnnpack", bare=bare, first=[SYMMETRIC], fixed=[SYMMETRIC_BARE])


def get_onednn_backend_config() -> BackendConfig:
    """oneDNN, with activations in linear layers."""
    linear = [WEIGHTED, DYNAMIC]
    made = _of_cpus("onednn", linear=linear, recurrent=[DYNAMIC], rows=[SIGNED_ROWS])
    more = _linears_of_onednn(linear) + layer_norms([FLOAT_WEIGHT])
    return made.set_backend_pattern_configs(more)


def get_executorch_backend_config() -> BackendConfig:
    """ExecuTorch."""
    bare = [SYMMETRIC_BARE, BARE]
    mixed = [SYMMETRIC_BARE, WEIGHTED]
    alone = [SYMMETRIC, WEIGHTED, DYNAMIC, SYMMETRIC_DYNAMIC, HALF]
    keeping = [
        nn.Flatten, F.adaptive_avg_pool2d, F.elu, F.hardtanh, F.max_pool2d, F.pad, F.relu, F.relu6,
        F.leaky_relu, F.leaky_relu_, nn.AdaptiveAvgPool2d, nn.ConstantPad2d, nn.ELU, nn.MaxPool2d,
        nn.ReLU6, nn.Hardtanh, nn.LeakyReLU, torch.clamp, torch.flatten, torch.mean, torch.permute,
        torch.permute_copy, torch.squeeze, "clamp", "mean", "permute", "reshape", "relu", "relu_",
        "squeeze", "squeeze_", "leaky_relu",
    ]  # fmt: skip
    return _backend(
        "executorch",
        _linear_alone(alone),
        _convolution(2, [SYMMETRIC, WEIGHTED]),
        sums(mixed, "add sub mul"),
        _each(keeping, bare, SHARED),
        _each([nn.BatchNorm2d], bare),
        _each([torch.cat, torch.concat, torch.concatenate], bare, SHARED),
        embeddings([ROWS]),
        [_config(F.embedding, [ROWS], _input_type_to_index={"weight": 1})],
    )


def get_tensorrt_backend_config() -> BackendConfig:
    """TensorRT."""
    signed = [SIGNED]
    indices = {"bias": 0, "input": 1, "weight": 2}
    return _backend(
        "tensorrt",
        convolutions(signed),
        [_config(torch.addmm, signed, _input_type_to_index=indices)],
        _each([torch.cat], [SIGNED_BARE], SHARED),
        linears(signed),
        sums(signed),
        _each([torch.matmul], signed),
        sharing([SIGNED_BARE]),
        shapes([SIGNED_BARE]),
    )


def get_tensorrt_backend_config_dict() -> dict[str, Any]:
    """The same as a dict."""
    return get_tensorrt_backend_config().to_dict()
