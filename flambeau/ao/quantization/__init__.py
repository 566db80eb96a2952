"""`torch.ao.quantization`: models with integers in place of floats."""

import importlib

from flambeau.ao.quantization import fake_quantize as _fakes
from flambeau.ao.quantization import observer as _observers
from flambeau.ao.quantization import qconfig as _qconfigs
from flambeau.ao.quantization.fake_quantize import *  # noqa: F403
from flambeau.ao.quantization.fuse_modules import fuse_modules, fuse_modules_qat
from flambeau.ao.quantization.fuser_method_mappings import (
    fuse_conv_bn,
    fuse_conv_bn_relu,
    fuse_convtranspose_bn,
    fuse_linear_bn,
    get_fuser_method,
    get_fuser_method_new,
)
from flambeau.ao.quantization.observer import *  # noqa: F403
from flambeau.ao.quantization.qconfig import *  # noqa: F403
from flambeau.ao.quantization.qconfig_mapping import (
    QConfigMapping,
    get_default_qat_qconfig_mapping,
    get_default_qconfig_mapping,
)
from flambeau.ao.quantization.quant_type import QuantType, quant_type_to_str
from flambeau.ao.quantization.quantization_mappings import (
    get_default_compare_output_module_list,
    get_default_dynamic_quant_module_mappings,
    get_default_float_to_quantized_operator_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    get_dynamic_quant_module_class,
    get_embedding_qat_module_mappings,
    get_embedding_static_quant_module_mappings,
    get_quantized_operator,
    get_static_quant_module_class,
    no_observer_set,
)
from flambeau.ao.quantization.quantize import (
    add_quant_dequant,
    convert,
    get_default_custom_config_dict,
    prepare,
    prepare_qat,
    propagate_qconfig_,
    quantize,
    quantize_dynamic,
    quantize_qat,
    swap_module,
)
from flambeau.ao.quantization.stubs import DeQuantStub, QuantStub, QuantWrapper
from flambeau.ao.quantization.utils import MatchAllNode, Pattern, get_combined_dict

ObserverOrFakeQuantize = _observers.ObserverBase | _fakes.FakeQuantizeBase  # for annotations

__all__ = [
    "MatchAllNode",
    "ObserverOrFakeQuantize",
    "Pattern",
    "get_combined_dict",
    "DeQuantStub",
    "QConfigMapping",
    "QuantStub",
    "QuantType",
    "QuantWrapper",
    "add_quant_dequant",
    "convert",
    "fuse_conv_bn",
    "fuse_conv_bn_relu",
    "fuse_convtranspose_bn",
    "fuse_linear_bn",
    "fuse_modules",
    "fuse_modules_qat",
    "get_default_compare_output_module_list",
    "get_default_custom_config_dict",
    "get_default_float_to_quantized_operator_mappings",
    "get_default_dynamic_quant_module_mappings",
    "get_default_qat_module_mappings",
    "get_default_qat_qconfig_mapping",
    "get_default_qconfig_mapping",
    "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings",
    "get_dynamic_quant_module_class",
    "get_embedding_qat_module_mappings",
    "get_embedding_static_quant_module_mappings",
    "get_fuser_method",
    "get_fuser_method_new",
    "get_quantized_operator",
    "get_static_quant_module_class",
    "no_observer_set",
    "prepare",
    "prepare_qat",
    "propagate_qconfig_",
    "quant_type_to_str",
    "quantize",
    "quantize_dynamic",
    "quantize_qat",
    "swap_module",
    *[n for m in (_observers, _fakes, _qconfigs) for n in vars(m) if n[0] != "_" and n != "torch"],
]
_MODULES = frozenset(
    "quantize_fx quantize_pt2e quantizer fuse_modules fuser_method_mappings observer fake_quantize "
    "qconfig qconfig_mapping quantize quantization_mappings stubs utils quant_type "
    "backend_config".split()
)


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name.startswith("move_exported_model_to_"):
        return getattr(importlib.import_module(f"{__name__}.quantize_pt2e"), name)
    if name.startswith("DEFAULT_"):
        return getattr(importlib.import_module(f"{__name__}.quantization_mappings"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def default_eval_fn(model, calib_data):
    """Runs a model on pairs of inputs and targets, to let its observers see the inputs."""
    for data, _target in calib_data:
        model(data)
