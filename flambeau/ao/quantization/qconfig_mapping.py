"""QConfigMapping: which QConfig the parts of a model get."""

from collections import OrderedDict
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.quantization import observer as ob
from flambeau.ao.quantization.fake_quantize import (
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
    default_weight_fake_quant,
)
from flambeau.ao.quantization.qconfig import (
    QConfig,
    QConfigAny,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)

_F = torch.nn.functional
_ZERO_TO_ONE: Any = (nn.Hardsigmoid, _F.hardsigmoid, "hardsigmoid", "hardsigmoid_", nn.Sigmoid,
                torch.sigmoid, "sigmoid", "sigmoid_", nn.Softmax)  # fmt: skip
_AROUND_ZERO: Any = (nn.Tanh, torch.tanh, "tanh", "tanh_")


# The tables of a mapping, from the least particular to the most, and the length of their keys.
_KEYS = {
    "object_type": 1,
    "module_name_regex": 1,
    "module_name": 1,
    "module_name_object_type_order": 3,
}


class QConfigMapping:
    """From the least particular to the most: all, by type, by pattern of names, by name."""

    global_qconfig: QConfigAny
    object_type_qconfigs: OrderedDict[Any, QConfigAny]
    module_name_regex_qconfigs: OrderedDict[str, QConfigAny]
    module_name_qconfigs: OrderedDict[str, QConfigAny]
    module_name_object_type_order_qconfigs: OrderedDict[tuple, QConfigAny]

    def __init__(self) -> None:
        self.global_qconfig = None
        for name in _KEYS:
            setattr(self, name + "_qconfigs", OrderedDict())

    def _put(self, table: str, key: Any, qconfig: QConfigAny) -> "QConfigMapping":
        getattr(self, table + "_qconfigs")[key] = qconfig
        return self

    def set_global(self, global_qconfig: QConfigAny) -> "QConfigMapping":
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: Any, qconfig: QConfigAny) -> "QConfigMapping":
        """For a class of modules, a function, or a method by its name."""
        return self._put("object_type", object_type, qconfig)

    def set_module_name_regex(
        self, module_name_regex: str, qconfig: QConfigAny
    ) -> "QConfigMapping":
        return self._put("module_name_regex", module_name_regex, qconfig)

    def set_module_name(self, module_name: str, qconfig: QConfigAny) -> "QConfigMapping":
        return self._put("module_name", module_name, qconfig)

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Any, index: int, qconfig: QConfigAny
    ) -> "QConfigMapping":
        return self._put(
            "module_name_object_type_order", (module_name, object_type, index), qconfig
        )

    def to_dict(self) -> dict[str, Any]:
        """The older form."""
        found: dict[str, Any] = {"": self.global_qconfig}
        for name, length in _KEYS.items():
            pairs = getattr(self, name + "_qconfigs").items()
            found[name] = [(*(key if length > 1 else (key,)), value) for key, value in pairs]
        return found

    @classmethod
    def from_dict(cls, qconfig_dict: dict[str, Any]) -> "QConfigMapping":
        """From the older form."""
        found = cls().set_global(qconfig_dict.get(""))
        for name, length in _KEYS.items():
            for *key, qconfig in qconfig_dict.get(name, ()):
                found._put(name, tuple(key) if length > 1 else key[0], qconfig)
        return found

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for name, value in vars(self).items():
            if isinstance(value, OrderedDict) and value:
                lines.append(f" {name}")
                lines += [f"  {key}: {item}" for key, item in value.items()]
            else:
                lines.append(f" {name}: {value}")
        return "\n".join([*lines, ")"])


def _default(backend: str, qconfig: QConfig, is_qat: bool) -> QConfigMapping:
    zero_to_one: Any = ob.default_fixed_qparams_range_0to1_observer
    around_zero: Any = ob.default_fixed_qparams_range_neg1to1_observer
    if is_qat:
        zero_to_one = default_fixed_qparams_range_0to1_fake_quant
        around_zero = default_fixed_qparams_range_neg1to1_fake_quant
    weight: Any = default_weight_fake_quant if is_qat else ob.default_weight_observer
    found = (
        QConfigMapping().set_global(qconfig).set_object_type("reshape", default_reuse_input_qconfig)
    )
    # weights of transposed convolutions and of embeddings have one scale
    per_tensor = QConfig(qconfig.activation, weight)
    kinds: Any = (
        nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, _F.conv_transpose1d,
        _F.conv_transpose2d, _F.conv_transpose3d,
    )  # fmt: skip
    for kind in kinds:
        found.set_object_type(kind, per_tensor)
    unweighed = QConfig(qconfig.activation, ob.default_placeholder_observer)
    found.set_object_type(_F.layer_norm, unweighed).set_object_type(nn.LayerNorm, unweighed)
    found.set_object_type(nn.PReLU, default_quint8_weight_qconfig)
    for one in _ZERO_TO_ONE:
        found.set_object_type(one, QConfig(zero_to_one, weight))
    for one in _AROUND_ZERO:
        found.set_object_type(one, QConfig(around_zero, weight))
    return found


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """What an engine is usually given, for quantization after training."""
    return _default(backend, get_default_qconfig(backend, version), False)


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """The same for training."""
    return _default(backend, get_default_qat_qconfig(backend, version), True)
