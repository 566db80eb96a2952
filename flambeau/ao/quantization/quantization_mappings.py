"""Which module stands for which, when models are quantized."""

import copy
from typing import Any

import flambeau.ao.nn.intrinsic as nni
import flambeau.ao.nn.intrinsic.qat as nniqat
import flambeau.ao.nn.intrinsic.quantized as nniq
import flambeau.ao.nn.intrinsic.quantized.dynamic as nniqd
import flambeau.ao.nn.qat as nnqat
import flambeau.ao.nn.quantized as nnq
import flambeau.ao.nn.quantized.dynamic as nnqd
from flambeau import nn
from flambeau.ao.quantization import fake_quantize as fq
from flambeau.ao.quantization.stubs import DeQuantStub, QuantStub

_NAMES = (
    "BatchNorm2d BatchNorm3d Dropout Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d "
    "ConvTranspose3d ELU Embedding EmbeddingBag GroupNorm Hardswish InstanceNorm1d InstanceNorm2d "
    "InstanceNorm3d LayerNorm LeakyReLU Linear ReLU6 PReLU"
).split()
_FUSED = "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU LinearLeakyReLU LinearTanh"

DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: dict = {
    QuantStub: nnq.Quantize,
    DeQuantStub: nnq.DeQuantize,
    **{getattr(nn, name): getattr(nnq, name) for name in _NAMES},
    nn.modules.linear.NonDynamicallyQuantizableLinear: nnq.Linear,
    nnq.FloatFunctional: nnq.QFunctional,
    **{getattr(nni, name): getattr(nniq, name) for name in _FUSED.split()},
    **{getattr(nniqat, f"ConvBn{n}d"): getattr(nnq, f"Conv{n}d") for n in (1, 2, 3)},
    **{getattr(nniqat, f"ConvBnReLU{n}d"): getattr(nniq, f"ConvReLU{n}d") for n in (1, 2, 3)},
    **{getattr(nniqat, f"ConvReLU{n}d"): getattr(nniq, f"ConvReLU{n}d") for n in (1, 2, 3)},
    nniqat.LinearReLU: nniq.LinearReLU,
    nniqat.LinearBn1d: nnq.Linear,
    nnqat.Linear: nnq.Linear,
    **{getattr(nnqat, f"Conv{n}d"): getattr(nnq, f"Conv{n}d") for n in (1, 2, 3)},
    nnqat.Embedding: nnq.Embedding,
    nnqat.EmbeddingBag: nnq.EmbeddingBag,
}
DEFAULT_QAT_MODULE_MAPPINGS: dict = {
    nn.Conv2d: nnqat.Conv2d,
    nn.Conv3d: nnqat.Conv3d,
    nn.Linear: nnqat.Linear,
    nn.modules.linear.NonDynamicallyQuantizableLinear: nnqat.Linear,
    **{
        getattr(nni, name): getattr(nniqat, name)
        for name in (
            "ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU2d "
            "ConvReLU3d LinearReLU LinearBn1d"
        ).split()
    },
}
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: dict = {
    nn.GRUCell: nnqd.GRUCell,
    nn.Linear: nnqd.Linear,
    nnqat.Linear: nnqd.Linear,
    nn.modules.linear.NonDynamicallyQuantizableLinear: nnqd.Linear,
    nn.LSTM: nnqd.LSTM,
    nn.GRU: nnqd.GRU,
    nn.LSTMCell: nnqd.LSTMCell,
    nn.RNNCell: nnqd.RNNCell,
    nni.LinearReLU: nniqd.LinearReLU,
    nn.EmbeddingBag: nnq.EmbeddingBag,
    nn.Embedding: nnq.Embedding,
}
DEFAULT_MODULE_TO_ACT_POST_PROCESS: dict = {
    nn.Hardsigmoid: fq.default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: fq.default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: fq.default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: fq.default_fixed_qparams_range_neg1to1_fake_quant,
}


def no_observer_set() -> set:
    """Modules that quantized tensors pass without being observed."""
    return {nn.Dropout, DeQuantStub}


def get_default_static_quant_module_mappings() -> dict:
    return copy.deepcopy(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings() -> dict:
    return copy.deepcopy(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_dynamic_quant_module_mappings() -> dict:
    return DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS


def get_embedding_qat_module_mappings() -> dict:
    found = get_default_qat_module_mappings()
    return {**found, nn.Embedding: nnqat.Embedding, nn.EmbeddingBag: nnqat.EmbeddingBag}


def get_embedding_static_quant_module_mappings() -> dict:
    return get_default_static_quant_module_mappings()


def get_default_qconfig_propagation_list() -> set:
    """Modules that get the QConfig of the module they are in."""
    return {
        *DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
        *DEFAULT_QAT_MODULE_MAPPINGS,
        *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
        nn.Sequential,
    }


def get_default_compare_output_module_list() -> set:
    """Modules whose results the comparison tools look at."""
    return {
        *DEFAULT_STATIC_QUANT_MODULE_MAPPINGS.values(),
        *DEFAULT_QAT_MODULE_MAPPINGS.values(),
        *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS.values(),
        *DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
        *DEFAULT_QAT_MODULE_MAPPINGS,
        *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    }


def get_static_quant_module_class(
    float_module_class: Any, additional_static_quant_mapping: Any = None, is_reference: bool = False
) -> Any:
    found = {**DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, **(additional_static_quant_mapping or {})}
    if float_module_class not in found:
        raise AssertionError(
            f"Floating point module class {float_module_class} does not have a corresponding "
            "quantized module class"
        )
    return found[float_module_class]


def get_dynamic_quant_module_class(
    float_module_class: Any, additional_dynamic_quant_mapping: Any = None
) -> Any:
    found = {**DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, **(additional_dynamic_quant_mapping or {})}
    if float_module_class not in found:
        raise AssertionError(
            f"Floating point module class {float_module_class} does not have a corresponding "
            "quantized module class"
        )
    return found[float_module_class]
