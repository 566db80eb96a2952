"""Eager quantization: prepare a model, let it see data (or train), convert it."""

import copy
from collections.abc import Callable
from typing import Any

import flambeau as torch
import flambeau.ao.nn.quantized as nnq
from flambeau import nn
from flambeau.ao.nn.intrinsic.modules.fused import _FusedModule
from flambeau.ao.quantization import quantization_mappings as mappings
from flambeau.ao.quantization.observer import _is_activation_post_process
from flambeau.ao.quantization.qconfig import (
    _assert_valid_qconfig,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from flambeau.ao.quantization.stubs import DeQuantStub, QuantWrapper

__all__ = [
    "get_default_custom_config_dict", "propagate_qconfig_", "add_quant_dequant", "prepare",
    "quantize", "quantize_dynamic", "prepare_qat", "quantize_qat", "convert", "swap_module",
]  # fmt: skip


def get_default_custom_config_dict() -> dict:
    """Modules that are observed and quantized as a whole."""
    from flambeau.ao.nn import quantizable

    observed = {
        nn.LSTM: quantizable.LSTM,
        nn.MultiheadAttention: quantizable.MultiheadAttention,
    }
    return {
        "float_to_observed_custom_module_class": observed,
        "observed_to_quantized_custom_module_class": {
            kind: getattr(nnq, kind.__name__) for kind in observed.values()
        },
    }


# -- which QConfig a module has --------------------------------------------------------------------


def propagate_qconfig_(
    module: nn.Module, qconfig_dict: dict | None = None, prepare_custom_config_dict: Any = None
) -> None:
    """Every module gets the QConfig of its name, of its class, or of the module it is in."""
    custom = prepare_custom_config_dict or {}
    _propagate(module, qconfig_dict or {}, None, "", custom)


def _propagate(module, given, inherited, prefix, custom):
    mine = given.get(type(module), inherited)
    mine = given.get(prefix, mine)  # that of "" is everybody's
    mine = getattr(module, "qconfig", mine)
    _assert_valid_qconfig(mine, module)
    module.qconfig = mine
    skipped = set(custom.get("non_traceable_module_name", []))
    for name, child in module.named_children():
        path = f"{prefix}.{name}" if prefix else name
        if path not in skipped:
            _propagate(child, given, mine, path, custom)


# -- preparing -------------------------------------------------------------------------------------


def _observer_forward_hook(self: Any, input: Any, output: Any) -> Any:
    """What a module gives passes its observer."""
    return self.activation_post_process(output)


def _observe(module: nn.Module, observer: Any = None) -> None:
    """An observer behind a module: its QConfig's, if no other is given."""
    made = observer if observer is not None else module.qconfig.activation()
    module.add_module("activation_post_process", made)
    module.register_forward_hook(_observer_forward_hook, prepend=True)


def _wants(module: nn.Module) -> bool:
    return getattr(module, "qconfig", None) is not None


def _add_observers(module, kinds, whole, custom):
    """whole: modules that are observed although there are others in them."""
    swapped = custom.get("float_to_observed_custom_module_class", {})
    for name, child in list(module.named_children()):
        if type(child) is DeQuantStub or isinstance(child, nn.Dropout):
            continue
        if isinstance(child, (nnq.FloatFunctional, nnq.QFunctional)):
            if _wants(child):
                child.activation_post_process = child.qconfig.activation()
        elif isinstance(child, _FusedModule) or type(child) in whole:
            if _wants(child):
                _observe(child)
        elif _wants(child) and type(child) in swapped:
            observed = swapped[type(child)].from_float(child)
            setattr(module, name, observed)
            if not isinstance(observed, _observing_themselves()):
                _observe(observed)
        elif child.training and type(child) in mappings.DEFAULT_MODULE_TO_ACT_POST_PROCESS:
            if _wants(child):  # whose results lie in a range that is known
                _observe(child, mappings.DEFAULT_MODULE_TO_ACT_POST_PROCESS[type(child)]())
        elif not hasattr(module, "weight_fake_quant"):  # what is in such a layer is its own affair
            _add_observers(child, kinds, whole, custom)
    is_leaf = not [m for m in module.children() if not _is_activation_post_process(m)]
    counts = type(module) in kinds and not isinstance(module, nn.Sequential)
    alone = is_leaf or hasattr(module, "weight_fake_quant")
    fresh = not hasattr(module, "activation_post_process")
    if _wants(module) and alone and counts and fresh:
        _observe(module)


def _observing_themselves() -> tuple:
    """Observed modules with observers inside."""
    return tuple(get_default_custom_config_dict()["observed_to_quantized_custom_module_class"])


def prepare(
    model: nn.Module,
    inplace: bool = False,
    allow_list: Any = None,
    observer_non_leaf_module_list: Any = None,
    prepare_custom_config_dict: Any = None,
) -> nn.Module:
    """A model that observes what passes between its modules."""
    custom = prepare_custom_config_dict or get_default_custom_config_dict()
    model = _worked_on(model, inplace)
    kinds = set(allow_list) if allow_list is not None else (
        mappings.get_default_qconfig_propagation_list())  # fmt: skip
    propagate_qconfig_(model)
    if not any(_wants(m) for m in model.modules()):
        import warnings

        warnings.warn(
            "None of the submodule got qconfig applied. Make sure you passed correct "
            "configuration through `qconfig_dict` or by assigning the `.qconfig` attribute "
            "directly on submodules",
            stacklevel=2,
        )
    _add_observers(model, kinds, set(observer_non_leaf_module_list or ()), custom)
    return model


def prepare_qat(model: nn.Module, mapping: dict | None = None, inplace: bool = False) -> nn.Module:
    """A model that trains as if it were quantized."""
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    table = mapping or mappings.DEFAULT_QAT_MODULE_MAPPINGS
    found = _worked_on(model, inplace)
    propagate_qconfig_(found)
    convert(found, table, inplace=True, remove_qconfig=False)
    kinds = mappings.get_default_qconfig_propagation_list().union(table.values())
    return prepare(found, inplace=True, allow_list=kinds)


# -- converting ------------------------------------------------------------------------------------


def swap_module(
    mod: Any,
    mapping: dict,
    custom_module_class_mapping: dict,
    use_precomputed_fake_quant: bool = False,
) -> Any:
    """The module that stands for another in a mapping, if it has a QConfig."""
    kind = type(mod)
    if not _wants(mod):
        return mod
    if kind in custom_module_class_mapping:
        found = custom_module_class_mapping[kind].from_observed(mod)
    elif kind in mapping:
        if kind in (nn.Embedding, nn.EmbeddingBag) and not _has_float_scales(mod):
            return mod
        found = mapping[kind].from_float(mod)
    else:
        return mod
    for hook in mod._forward_pre_hooks.values():
        found.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observer_forward_hook:
            found.register_forward_hook(hook)
    return found


def _has_float_scales(mod: Any) -> bool:
    weight = mod.qconfig.weight()
    return getattr(weight, "qscheme", None) is torch.per_channel_affine_float_qparams


def _convert(module, mapping, custom):
    for name, child in list(module.named_children()):
        whole = isinstance(child, _FusedModule) or type(child) in custom
        if not whole and not hasattr(child, "weight_fake_quant"):
            _convert(child, mapping, custom)
        setattr(module, name, swap_module(child, mapping, custom))


def convert(
    module: nn.Module,
    mapping: dict | None = None,
    inplace: bool = False,
    remove_qconfig: bool = True,
    is_reference: bool = False,
    convert_custom_config_dict: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> nn.Module:
    """A model whose modules are exchanged for quantized ones."""
    custom = convert_custom_config_dict or get_default_custom_config_dict()
    found = _worked_on(module, inplace)
    table = mapping or mappings.DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    _convert(found, table, custom.get("observed_to_quantized_custom_module_class", {}))
    if remove_qconfig:
        _clean(found)
    return found


def _clean(module: nn.Module) -> None:
    """Nothing of the way there stays."""
    for m in list(module.modules()):
        if "qconfig" in m.__dict__:
            del m.qconfig
        process = m._modules.get("activation_post_process")
        if process is not None and _is_activation_post_process(process):
            del m._modules["activation_post_process"]
        for key, hook in list(m._forward_hooks.items()):
            if hook is _observer_forward_hook:
                del m._forward_hooks[key]


# -- all in one ------------------------------------------------------------------------------------


def add_quant_dequant(module: nn.Module) -> nn.Module:
    """Modules with a QConfig of their own between stubs."""
    if not list(module.children()) and _wants(module):
        return QuantWrapper(module)
    for name, child in list(module.named_children()):
        module._modules[name] = add_quant_dequant(child)
    return module


def _worked_on(model: nn.Module, inplace: bool) -> nn.Module:
    """The model itself, or a copy that may be changed."""
    return model if inplace else copy.deepcopy(model)


def quantize(
    model: nn.Module, run_fn: Callable, run_args: Any, mapping: dict | None = None,
    inplace: bool = False,
) -> nn.Module:  # fmt: skip
    """Prepare, run a function on the model, convert."""
    found = prepare(_worked_on(model, inplace).eval(), inplace=True)
    run_fn(found, *run_args)
    return convert(found, mapping, inplace=True)


def quantize_qat(
    model: nn.Module, run_fn: Callable, run_args: Any, inplace: bool = False
) -> nn.Module:
    """The same by training."""
    found = prepare_qat(_worked_on(model, inplace).train(), inplace=True)
    run_fn(found, *run_args)
    return convert(found, inplace=True)


_DYNAMIC = (nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)


def quantize_dynamic(
    model: nn.Module,
    qconfig_spec: Any = None,
    dtype: Any = torch.qint8,
    mapping: dict | None = None,
    inplace: bool = False,
) -> nn.Module:
    """A model whose layers have quantized weights and quantize inputs by their own range."""
    chosen = _spec(qconfig_spec, dtype)
    found = _worked_on(model, inplace).eval()
    propagate_qconfig_(found, chosen)
    return convert(found, mapping or mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, inplace=True)


def _spec(spec: Any, dtype: Any) -> dict:
    if isinstance(spec, dict):
        return spec
    usual = {
        torch.qint8: default_dynamic_qconfig,
        torch.float16: float16_dynamic_qconfig,
        torch.quint8: float_qparams_weight_only_qconfig,
        torch.quint4x2: float_qparams_weight_only_qconfig_4bit,
    }
    if dtype not in usual:
        raise RuntimeError(f"Don't know how to quantize with default settings for {dtype}. "
                           "Provide full qconfig please")  # fmt: skip
    if spec is None:
        tables = (nn.EmbeddingBag, nn.Embedding)
        spec = tables if dtype in (torch.quint8, torch.quint4x2) else _DYNAMIC
    return dict.fromkeys(spec, usual[dtype])
