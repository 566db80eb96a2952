"""What the inputs and outputs of an exported graph stand for."""

import dataclasses
import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = [
    "ConstantArgument",
    "CustomObjArgument",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "SymBoolArgument",
    "SymFloatArgument",
    "SymIntArgument",
    "TensorArgument",
    "TokenArgument",
]


@dataclasses.dataclass
class TensorArgument:
    """A tensor, the value of the node of that name."""

    name: str


@dataclasses.dataclass
class TokenArgument:
    """Keeps effects in order."""

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """A size."""

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A number made of sizes."""

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """An answer about sizes."""

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """An object of a class that the graph does not know."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclasses.dataclass
class ConstantArgument:
    """A value that is always the same."""

    name: str
    value: int | float | bool | str | None


ArgumentSpec = (
    TensorArgument
    | SymIntArgument
    | SymFloatArgument
    | SymBoolArgument
    | ConstantArgument
    | CustomObjArgument
    | TokenArgument
)


class InputKind(enum.Enum):
    """Where an input comes from."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()
    CUSTOM_OBJ = enum.auto()
    TOKEN = enum.auto()


class OutputKind(enum.Enum):
    """Where an output goes to."""

    USER_OUTPUT = enum.auto()
    LOSS_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()
    PARAMETER_MUTATION = enum.auto()
    GRADIENT_TO_PARAMETER = enum.auto()
    GRADIENT_TO_USER_INPUT = enum.auto()
    USER_INPUT_MUTATION = enum.auto()
    TOKEN = enum.auto()


def _shown(spec: Any) -> str:
    target = "" if spec.target is None else f" target='{spec.target}'"
    persistent = getattr(spec, "persistent", None)
    lasting = "" if persistent is None else f" persistent={persistent}"
    return f"{spec.arg.name}: {spec.kind.name}{target}{lasting}"


@dataclasses.dataclass
class InputSpec:
    """An input of the graph."""

    kind: InputKind
    arg: Any
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind is InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")

    def __str__(self) -> str:
        return _shown(self)


@dataclasses.dataclass
class OutputSpec:
    """An output of the graph."""

    kind: OutputKind
    arg: Any
    target: str | None

    def __str__(self) -> str:
        return _shown(self)


@dataclasses.dataclass
class ExportBackwardSignature:
    """Which outputs are gradients."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclasses.dataclass
class ExportGraphSignature:
    """Inputs and outputs of a graph, in order."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple(s.target for s in self.input_specs if s.kind is kind and s.target is not None)

    def _inputs(self, kind: InputKind) -> Mapping[str, str]:
        found = {s.arg.name: s.target for s in self.input_specs if s.kind is kind}
        return MappingProxyType({k: v for k, v in found.items() if v is not None})

    def _outputs(self, kind: OutputKind) -> Mapping[str, str]:
        found = {s.arg.name: s.target for s in self.output_specs if s.kind is kind}
        return MappingProxyType({k: v for k, v in found.items() if v is not None})

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        """Names of buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """Names of buffers that are not in the state."""
        found = [s for s in self.input_specs if s.kind is InputKind.BUFFER and not s.persistent]
        return tuple(str(s.target) for s in found)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Names of constants."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self) -> tuple[str, ...]:
        """Names of objects."""
        return self._targets(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """Inputs that callers give: names, and values of those that are constants."""
        found = [s.arg for s in self.input_specs if s.kind is InputKind.USER_INPUT]
        return tuple(a.value if isinstance(a, ConstantArgument) else a.name for a in found)

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """Outputs that callers get."""
        kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        found = [s.arg for s in self.output_specs if s.kind in kinds]
        return tuple(a.value if isinstance(a, ConstantArgument) else a.name for a in found)

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """Input -> name of the parameter."""
        return self._inputs(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """Input -> name of the buffer."""
        return self._inputs(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """Input -> name of the constant."""
        return self._inputs(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        """Input -> name of the object."""
        return self._inputs(InputKind.CUSTOM_OBJ)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """Output -> name of the buffer it is written to."""
        return self._outputs(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """Output -> name of the parameter it is written to."""
        return self._outputs(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """Output -> input it is written to."""
        return self._outputs(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """Which outputs are gradients, if there is a loss."""
        losses = [s.arg.name for s in self.output_specs if s.kind is OutputKind.LOSS_OUTPUT]
        if not losses:
            return None
        return ExportBackwardSignature(
            dict(self._outputs(OutputKind.GRADIENT_TO_PARAMETER)),
            dict(self._outputs(OutputKind.GRADIENT_TO_USER_INPUT)),
            losses[0],
        )

    @property
    def assertion_dep_token(self) -> None:
        """Graphs here have no such tokens."""
        return None

    input_tokens: tuple = dataclasses.field(default=(), init=False, repr=False, compare=False)
    output_tokens: tuple = dataclasses.field(default=(), init=False, repr=False, compare=False)

    def replace_all_uses(self, old: str, new: str) -> None:
        """Follow a node that got another name."""
        specs: list[Any] = [*self.input_specs, *self.output_specs]
        for spec in specs:
            if getattr(spec.arg, "name", None) == old:
                spec.arg.name = new

    def get_replace_hook(self, replace_inputs: bool = False) -> Any:
        """A hook for graph modules that calls replace_all_uses."""

        def hook(old: Any, new: str, user: Any) -> None:
            if user.op == "output" or replace_inputs:
                self.replace_all_uses(old.name, new)

        return hook

    def __str__(self) -> str:
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"
