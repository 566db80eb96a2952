"""Which module stands for which, when models are quantized."""

import copy
from typing import Any

import flambeau as torch
import flambeau.ao.nn.intrinsic as nni
import flambeau.ao.nn.intrinsic.qat as nniqat
import flambeau.ao.nn.intrinsic.quantized as nniq
import flambeau.ao.nn.intrinsic.quantized.dynamic as nniqd
import flambeau.ao.nn.qat as nnqat
import flambeau.ao.nn.qat.dynamic as nnqatd
import flambeau.ao.nn.quantized as nnq
import flambeau.ao.nn.quantized.dynamic as nnqd
from flambeau import nn
from flambeau.ao.quantization import fake_quantize as fq
from flambeau.ao.quantization.stubs import DeQuantStub, QuantStub

_Plain = nn.modules.linear.NonDynamicallyQuantizableLinear  # the one inside of attention


def _same_names(source: Any, target: Any, names: str) -> dict:
    """Classes of one module and those that are called alike in another; # is 1, 2 and 3."""
    whole = [n.replace("#", k) for n in names.split() for k in ("123" if "#" in n else "1")]
    return {getattr(source, name): getattr(target, name) for name in whole}


def _other_names(source: Any, target: Any, pairs: str) -> dict:
    """The same with names of two kinds: "ConvBn#d:Conv#d"."""
    found = {}
    for pair in pairs.split():
        left, right = pair.split(":")
        for k in "123" if "#" in pair else "1":
            found[getattr(source, left.replace("#", k))] = getattr(target, right.replace("#", k))
    return found


DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: dict = {
    QuantStub: nnq.Quantize,
    DeQuantStub: nnq.DeQuantize,
    **_same_names(
        nn, nnq,
        "BatchNorm2d BatchNorm3d Dropout Conv#d ConvTranspose#d ELU Embedding EmbeddingBag "
        "GroupNorm Hardswish InstanceNorm#d LayerNorm LeakyReLU Linear ReLU6 PReLU",
    ),
    _Plain: nnq.Linear,
    nnq.FloatFunctional: nnq.QFunctional,
    **_same_names(
        nni, nniq,
        "BNReLU2d BNReLU3d ConvAdd2d ConvAddReLU2d ConvReLU#d LinearReLU LinearLeakyReLU "
        "LinearTanh",
    ),
    **_other_names(nniqat, nnq, "ConvBn#d:Conv#d LinearBn1d:Linear"),
    **_other_names(nniqat, nniq, "ConvBnReLU#d:ConvReLU#d"),
    **_same_names(nniqat, nniq, "ConvReLU#d LinearReLU"),
    **_same_names(nnqat, nnq, "Linear Conv#d Embedding EmbeddingBag"),
}  # fmt: skip
DEFAULT_QAT_MODULE_MAPPINGS: dict = {
    **_same_names(nn, nnqat, "Conv2d Conv3d Linear"),
    _Plain: nnqat.Linear,
    **_same_names(nni, nniqat, "ConvBn#d ConvBnReLU#d ConvReLU2d ConvReLU3d LinearReLU LinearBn1d"),
}
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: dict = {
    **_same_names(nn, nnqd, "Linear LSTM GRU LSTMCell GRUCell RNNCell"),
    **_same_names(nn, nnq, "Embedding EmbeddingBag"),
    nnqatd.Linear: nnqd.Linear,
    _Plain: nnqd.Linear,
    nni.LinearReLU: nniqd.LinearReLU,
}
DEFAULT_MODULE_TO_ACT_POST_PROCESS: dict = {
    nn.Tanh: fq.default_fixed_qparams_range_neg1to1_fake_quant,
    **dict.fromkeys(
        (nn.Sigmoid, nn.Softmax, nn.Hardsigmoid), fq.default_fixed_qparams_range_0to1_fake_quant
    ),
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


_TABLES = (
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
    DEFAULT_QAT_MODULE_MAPPINGS,
    DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
)


def get_default_qconfig_propagation_list() -> set:
    """Modules that get the QConfig of the module they are in."""
    return {nn.Sequential}.union(*_TABLES)


def get_default_compare_output_module_list() -> set:
    """Modules whose results the comparison tools look at."""
    return set().union(*_TABLES, *(table.values() for table in _TABLES))


def _class_for(float_module_class: Any, table: dict, more: dict | None) -> Any:
    found = (more or {}).get(float_module_class) or table.get(float_module_class)
    if found is None:
        raise AssertionError(
            f"Floating point module class {float_module_class} does not have a corresponding "
            "quantized module class"
        )
    return found


def get_static_quant_module_class(
    float_module_class: Any, additional_static_quant_mapping: Any = None, is_reference: bool = False
) -> Any:
    return _class_for(float_module_class, _TABLES[0], additional_static_quant_mapping)


def get_dynamic_quant_module_class(
    float_module_class: Any, additional_dynamic_quant_mapping: Any = None
) -> Any:
    return _class_for(float_module_class, _TABLES[2], additional_dynamic_quant_mapping)


def get_default_float_to_quantized_operator_mappings() -> dict:
    """Functions, and the quantized ops in their place."""
    F, ops = nn.functional, torch.ops.quantized
    names = "elu hardswish instance_norm layer_norm leaky_relu dropout".split()
    return {getattr(F, name): getattr(ops, name) for name in names}


def get_quantized_operator(float_op: Any) -> Any:
    """The quantized op in the place of a function."""
    found = get_default_float_to_quantized_operator_mappings().get(float_op)
    if found is None:
        raise AssertionError(f"Operator {float_op!s} does not have corresponding quantized op")
    return found
