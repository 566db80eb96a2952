"""QConfig: which observers watch the activations and the weights of a module."""

import warnings
from collections import namedtuple
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.quantization import fake_quantize as fq
from flambeau.ao.quantization import observer as ob


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """Two classes, or classes with arguments: each module gets instances of its own."""

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> "QConfig":
        if isinstance(activation, nn.Module) or isinstance(weight, nn.Module):
            raise ValueError(
                "QConfig received observer instance, please pass observer class instead. Use "
                "MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)


class QConfigDynamic(namedtuple("QConfigDynamic", ["activation", "weight"])):
    """The older form for layers that quantize by the range of each input."""

    __slots__ = ()

    def __new__(cls, activation: Any = nn.Identity, weight: Any = nn.Identity) -> "QConfigDynamic":
        if isinstance(weight, nn.Module):
            raise ValueError(
                "QConfigDynamic received observer instance, please pass observer class instead. "
                "Use MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        warnings.warn(
            "QConfigDynamic is going to be deprecated in PyTorch 1.12, please use QConfig instead",
            stacklevel=2,
        )
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None

default_qconfig = QConfig(ob.default_observer, ob.default_weight_observer)
default_debug_qconfig = QConfig(ob.default_debug_observer, ob.default_weight_observer)
default_per_channel_qconfig = QConfig(ob.default_observer, ob.default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(ob.default_dynamic_quant_observer, ob.default_weight_observer)
float16_dynamic_qconfig = QConfig(
    ob.PlaceholderObserver.with_args(dtype=torch.float16, is_dynamic=True),
    ob.PlaceholderObserver.with_args(dtype=torch.float16),
)
float16_static_qconfig = QConfig(
    ob.PlaceholderObserver.with_args(dtype=torch.float16),
    ob.PlaceholderObserver.with_args(dtype=torch.float16),
)
per_channel_dynamic_qconfig = QConfig(
    ob.default_dynamic_quant_observer, ob.default_per_channel_weight_observer
)
float_qparams_weight_only_qconfig = QConfig(
    ob.default_placeholder_observer, ob.default_float_qparams_observer
)
float_qparams_weight_only_qconfig_4bit = QConfig(
    ob.default_placeholder_observer, ob.default_float_qparams_observer_4bit
)
default_quint8_weight_qconfig = QConfig(ob.HistogramObserver, ob.MinMaxObserver)
default_qat_qconfig = QConfig(fq.default_fake_quant, fq.default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(fq.default_dynamic_fake_quant, fq.default_weight_fake_quant)
default_weight_only_qconfig = QConfig(nn.Identity, fq.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(fq.default_fake_quant, nn.Identity)
default_qat_qconfig_v2 = QConfig(fq.default_fused_act_fake_quant, fq.default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(ob.default_reuse_input_observer, ob.NoopObserver)
_SMALL = 2**-12
_symmetric_activation = ob.HistogramObserver.with_args(
    dtype=torch.qint8, reduce_range=False, eps=_SMALL
)
default_symmetric_qnnpack_qconfig = QConfig(
    _symmetric_activation, ob.weight_observer_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    _symmetric_activation, ob.per_channel_weight_observer_range_neg_127_to_127
)
_symmetric_fake = fq.FusedMovingAvgObsFakeQuantize.with_args(
    observer=ob.MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8,
    reduce_range=False, eps=_SMALL,
)  # fmt: skip
default_symmetric_qnnpack_qat_qconfig = QConfig(
    _symmetric_fake, fq.fused_wt_fake_quant_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _symmetric_fake, fq.fused_per_channel_wt_fake_quant_range_neg_127_to_127
)
default_embedding_qat_qconfig = QConfig(
    ob.NoopObserver.with_args(dtype=torch.float32), fq.default_embedding_fake_quant
)
default_embedding_qat_qconfig_4bit = QConfig(
    ob.NoopObserver.with_args(dtype=torch.float32), fq.default_embedding_fake_quant_4bit
)

_ENGINES = ("fbgemm", "x86", "qnnpack", "onednn")


def _unsupported(function: str, version: int, backend: str, supported: str) -> AssertionError:
    return AssertionError(
        f"Version number: {version} in {function} is not supported. "
        f"Version number must be {supported}"
    )


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """What an engine is usually given, for quantization after training."""
    if backend not in _ENGINES:
        raise AssertionError(
            f"backend: {backend} not supported. backend must be one of {list(_ENGINES)}"
        )
    if version != 0:
        raise _unsupported("get_default_qconfig", version, backend, "0")
    if backend in ("fbgemm", "x86"):
        return QConfig(
            ob.HistogramObserver.with_args(reduce_range=True),
            ob.default_per_channel_weight_observer,
        )
    weight = ob.default_per_channel_weight_observer
    if backend == "qnnpack":
        weight = ob.default_weight_observer
    return QConfig(ob.HistogramObserver.with_args(reduce_range=False), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int | None = 1) -> QConfig:
    """The same for training."""
    if backend not in _ENGINES:
        raise AssertionError(
            f"backend: {backend} not supported. backend must be one of {list(_ENGINES)}"
        )
    if version not in (0, 1):
        raise _unsupported("get_default_qat_qconfig", version or 0, backend, "0 or 1")
    kind: Any = fq.FusedMovingAvgObsFakeQuantize if version else fq.FakeQuantize
    more = {} if backend == "onednn" else {"reduce_range": backend != "qnnpack"}
    activation = kind.with_args(
        observer=ob.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **more
    )
    if backend == "qnnpack":
        weight = fq.default_fused_wt_fake_quant if version else fq.default_weight_fake_quant
    elif version:
        weight = fq.default_fused_per_channel_wt_fake_quant
    else:
        weight = fq.default_per_channel_weight_fake_quant
    return QConfig(activation, weight)


def get_default_qconfig_dict(backend: str = "x86", version: int = 0) -> dict:
    from flambeau.ao.quantization.qconfig_mapping import get_default_qconfig_mapping

    return get_default_qconfig_mapping(backend, version).to_dict()


def get_default_qat_qconfig_dict(backend: str = "x86", version: int = 1) -> dict:
    from flambeau.ao.quantization.qconfig_mapping import get_default_qat_qconfig_mapping

    return get_default_qat_qconfig_mapping(backend, version).to_dict()


def _parts(constructor: Any) -> Any:
    p = getattr(constructor, "p", None)
    return (p.func, p.keywords) if p is not None else constructor


def qconfig_equals(q1: QConfigAny, q2: QConfigAny) -> bool:
    """Do both ask for the same observers?"""
    if q1 is None or q2 is None:
        return q1 is q2
    return _parts(q1.activation) == _parts(q2.activation) and _parts(q1.weight) == _parts(q2.weight)


def _assert_valid_qconfig(qconfig: QConfigAny, mod: nn.Module) -> None:
    """Complain about weights of transposed convolutions that are observed along the wrong axis."""
    if qconfig is None:
        return
    transposed = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    if not isinstance(mod, transposed) or qconfig.weight is None:
        return
    if isinstance(qconfig.weight(), ob.PerChannelMinMaxObserver):
        raise AssertionError(
            "Per channel weight observer is not supported yet for ConvTranspose{n}d."
        )


def _add_module_to_qconfig_obs_ctr(qconfig: QConfigAny, module: nn.Module | None) -> Any:
    return qconfig
