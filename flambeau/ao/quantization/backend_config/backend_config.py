"""What a backend can quantize: patterns of ops, and for each the dtypes and how it is observed."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import flambeau as torch

__all__ = [
    "BackendConfig",
    "BackendPatternConfig",
    "DTypeConfig",
    "DTypeWithConstraints",
    "ObservationType",
]


class ObservationType(Enum):
    """Where the results of an op are observed."""

    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


@dataclass
class DTypeWithConstraints:
    """A dtype, and what scales and levels must obey.

    Args:
        dtype: the dtype.
        quant_min_lower_bound: the least level that may be used.
        quant_max_upper_bound: the largest.
        scale_min_lower_bound: the least scale.
        scale_max_upper_bound: the largest.
        scale_exact_match: the only scale.
        zero_point_exact_match: the only zero point.
    """

    dtype: Any = None
    quant_min_lower_bound: float | None = None
    quant_max_upper_bound: float | None = None
    scale_min_lower_bound: float | None = None
    scale_max_upper_bound: float | None = None
    scale_exact_match: float | None = None
    zero_point_exact_match: int | None = None


def _constrained(dtype: Any) -> DTypeWithConstraints:
    return dtype if isinstance(dtype, DTypeWithConstraints) else DTypeWithConstraints(dtype=dtype)


@dataclass
class DTypeConfig:
    """Dtypes that belong together.

    Args:
        input_dtype: of activations that come, with or without constraints.
        output_dtype: of those that go.
        weight_dtype: of weights.
        bias_dtype: of biases.
        is_dynamic: whether activations are quantized by the range of each batch.
    """

    input_dtype_with_constraints: DTypeWithConstraints
    output_dtype_with_constraints: DTypeWithConstraints
    weight_dtype_with_constraints: DTypeWithConstraints
    bias_dtype: Any
    is_dynamic: bool | None

    def __init__(
        self,
        input_dtype: Any = None,
        output_dtype: Any = None,
        weight_dtype: Any = None,
        bias_dtype: Any = None,
        is_dynamic: bool | None = None,
    ) -> None:
        self.input_dtype_with_constraints = _constrained(input_dtype)
        self.output_dtype_with_constraints = _constrained(output_dtype)
        self.weight_dtype_with_constraints = _constrained(weight_dtype)
        self.bias_dtype, self.is_dynamic = bias_dtype, is_dynamic

    @property
    def input_dtype(self) -> Any:
        return self.input_dtype_with_constraints.dtype

    @property
    def output_dtype(self) -> Any:
        return self.output_dtype_with_constraints.dtype

    @property
    def weight_dtype(self) -> Any:
        return self.weight_dtype_with_constraints.dtype

    @classmethod
    def from_dict(cls, dtype_config_dict: dict[str, Any]) -> "DTypeConfig":
        """Of a dict with the names of the arguments."""
        for name in ("input_dtype", "output_dtype", "weight_dtype"):
            value = dtype_config_dict.get(name)
            if value is not None and not isinstance(value, (torch.dtype, DTypeWithConstraints)):
                raise ValueError(
                    f"Expected dtype to be a torch.dtype or DTypeWithConstraints, got {type(value)}"
                )
        names = ("input_dtype", "output_dtype", "weight_dtype", "bias_dtype", "is_dynamic")
        return cls(*(dtype_config_dict.get(name) for name in names))

    def to_dict(self) -> dict[str, Any]:
        """What is set, by the names of the arguments."""
        found: dict[str, Any] = {}
        for name in ("input_dtype", "output_dtype", "weight_dtype"):
            value = getattr(self, f"{name}_with_constraints")
            if value.dtype is not None:
                found[name] = value
        if self.bias_dtype:
            found["bias_dtype"] = self.bias_dtype
        if self.is_dynamic:
            found["is_dynamic"] = self.is_dynamic
        return found


# attributes of a pattern's config that are left out of its dict when they say nothing -> their keys
_PATTERN_KEYS = {
    "pattern": "pattern",
    "root_module": "root_module",
    "qat_module": "qat_module",
    "reference_quantized_module": "reference_quantized_module_for_root",
    "fused_module": "fused_module",
    "fuser_method": "fuser_method",
    "_root_node_getter": "root_node_getter",
    "_extra_inputs_getter": "extra_inputs_getter",
    "_num_tensor_args_to_observation_type": "num_tensor_args_to_observation_type",
    "_input_type_to_index": "input_type_to_index",
    "_pattern_complex_format": "pattern_complex_format",
}


class BackendPatternConfig:
    """What a backend does with a pattern.

    Args:
        pattern: a class of modules, a function, the name of a method, or a tuple of these for ops
            that follow one another.

    Example:
        >>> from flambeau.ao.quantization import backend_config
        >>> backend_config.BackendPatternConfig(flambeau.nn.Linear).observation_type.value
        0
    """

    def __init__(self, pattern: Any = None) -> None:
        self.pattern = pattern
        self.observation_type = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        self.dtype_configs: list[DTypeConfig] = []
        self.root_module: Any = None
        self.qat_module: Any = None
        self.reference_quantized_module: Any = None
        self.fused_module: Any = None
        self.fuser_method: Callable[..., Any] | None = None
        self._root_node_getter: Callable[..., Any] | None = None
        self._extra_inputs_getter: Callable[..., Any] | None = None
        self._num_tensor_args_to_observation_type: dict[int, ObservationType] = {}
        self._input_type_to_index: dict[str, int] = {}
        self._pattern_complex_format: Any = None

    def __repr__(self) -> str:
        shown = {
            name: value for name, value in vars(self).items() if value and name != "dtype_configs"
        }
        return f"BackendPatternConfig({shown})"

    def _set(self, name: str, value: Any) -> "BackendPatternConfig":
        setattr(self, name, value)
        return self

    def set_pattern(self, pattern: Any) -> "BackendPatternConfig":
        """The pattern."""
        if self._pattern_complex_format is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        return self._set("pattern", pattern)

    def set_observation_type(self, observation_type: ObservationType) -> "BackendPatternConfig":
        """Where its results are observed."""
        return self._set("observation_type", observation_type)

    def add_dtype_config(self, dtype_config: DTypeConfig) -> "BackendPatternConfig":
        """Dtypes that it takes, besides those before."""
        self.dtype_configs.append(dtype_config)
        return self

    def set_dtype_configs(self, dtype_configs: list[DTypeConfig]) -> "BackendPatternConfig":
        """All dtypes that it takes."""
        return self._set("dtype_configs", dtype_configs)

    def set_root_module(self, root_module: Any) -> "BackendPatternConfig":
        """The module whose weights are quantized."""
        return self._set("root_module", root_module)

    def set_qat_module(self, qat_module: Any) -> "BackendPatternConfig":
        """The module that trains in its place."""
        return self._set("qat_module", qat_module)

    def set_reference_quantized_module(self, module: Any) -> "BackendPatternConfig":
        """The module with quantized weights that computes in floats."""
        return self._set("reference_quantized_module", module)

    def set_fused_module(self, fused_module: Any) -> "BackendPatternConfig":
        """What the modules become."""
        return self._set("fused_module", fused_module)

    def set_fuser_method(self, fuser_method: Callable[..., Any]) -> "BackendPatternConfig":
        """How they become it: a function of `is_qat` and the modules."""
        return self._set("fuser_method", fuser_method)

    def _set_root_node_getter(self, getter: Any) -> "BackendPatternConfig":
        return self._set("_root_node_getter", getter)

    def _set_extra_inputs_getter(self, getter: Any) -> "BackendPatternConfig":
        return self._set("_extra_inputs_getter", getter)

    def _set_num_tensor_args_to_observation_type(self, types: Any) -> "BackendPatternConfig":
        return self._set("_num_tensor_args_to_observation_type", types)

    def _set_input_type_to_index(self, indices: Any) -> "BackendPatternConfig":
        return self._set("_input_type_to_index", indices)

    def _set_pattern_complex_format(self, pattern: Any) -> "BackendPatternConfig":
        if self.pattern is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        return self._set("_pattern_complex_format", pattern)

    @classmethod
    def from_dict(cls, backend_pattern_config_dict: dict[str, Any]) -> "BackendPatternConfig":
        """Of a dict as `to_dict` gives it."""
        given = backend_pattern_config_dict
        made = cls()
        for name, key in _PATTERN_KEYS.items():
            if key in given:
                setattr(made, name, given[key])
        if "observation_type" in given:
            made.set_observation_type(given["observation_type"])
        for dtype_config in given.get("dtype_configs", []):
            if isinstance(dtype_config, dict):
                dtype_config = DTypeConfig.from_dict(dtype_config)
            elif not isinstance(dtype_config, DTypeConfig):
                raise ValueError(
                    "Expected a list of DTypeConfigs in "
                    f"backend_pattern_config_dict[\"dtype_configs\"], got '{type(dtype_config)}'"
                )
            made.add_dtype_config(dtype_config)
        return made

    def to_dict(self) -> dict[str, Any]:
        """What is set, by the names of the setters."""
        found: dict[str, Any] = {
            "observation_type": self.observation_type,
            "dtype_configs": [config.to_dict() for config in self.dtype_configs],
        }
        for name, key in _PATTERN_KEYS.items():
            value = getattr(self, name)
            if value is not None and value != {}:
                found[key] = value
        return found


class BackendConfig:
    """What a backend can quantize.

    Args:
        name: of the backend.

    Example:
        >>> from flambeau.ao.quantization import backend_config as b
        >>> linear = b.BackendPatternConfig(flambeau.nn.Linear)
        >>> _ = linear.add_dtype_config(
        ...     b.DTypeConfig(flambeau.quint8, flambeau.quint8, flambeau.qint8)
        ... )
        >>> len(b.BackendConfig("mine").set_backend_pattern_config(linear).configs)
        1
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._pattern_complex_format_to_config: dict[Any, BackendPatternConfig] = {}

    def __repr__(self) -> str:
        return f"BackendConfig({vars(self)})"

    def set_name(self, name: str) -> "BackendConfig":
        """The name of the backend."""
        self.name = name
        return self

    def set_backend_pattern_config(self, config: BackendPatternConfig) -> "BackendConfig":
        """What it does with a pattern, in place of what was said before."""
        key = _complex_format(config)
        self._pattern_complex_format_to_config[key] = config
        return self

    def set_backend_pattern_configs(self, configs: list[BackendPatternConfig]) -> "BackendConfig":
        """The same for several patterns."""
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    @property
    def configs(self) -> list[BackendPatternConfig]:
        return list(self._pattern_complex_format_to_config.values())

    @classmethod
    def from_dict(cls, backend_config_dict: dict[str, Any]) -> "BackendConfig":
        """Of a dict as `to_dict` gives it."""
        made = cls(backend_config_dict.get("name", ""))
        for config in backend_config_dict.get("configs", []):
            if isinstance(config, dict):
                config = BackendPatternConfig.from_dict(config)
            elif not isinstance(config, BackendPatternConfig):
                raise ValueError(
                    'Expected backend_config_dict["configs"] to be a list of BackendPatternConfigs'
                )
            made.set_backend_pattern_config(config)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Name and patterns."""
        return {"name": self.name, "configs": [config.to_dict() for config in self.configs]}


def _complex_format(config: BackendPatternConfig) -> Any:
    """A pattern with the last op first, and what it takes behind it."""
    if config._pattern_complex_format is not None:
        return config._pattern_complex_format
    if config.pattern is None:
        raise ValueError("At least one of 'pattern' or 'pattern_complex_format' must be specified")
    pattern = config.pattern
    if not isinstance(pattern, tuple):
        return pattern
    if len(pattern) not in (2, 3):
        raise ValueError(f"Expected a tuple with 2 or 3 elements, got: {pattern}")
    first, *rest = pattern
    for op in rest:
        first = (op, first)
    return first
