"""ExportedProgram: a graph with the state it works on."""

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.export.graph_signature import ExportGraphSignature, InputKind
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.readable import class_text
from flambeau.nn import Module
from flambeau.utils import _pytree as pytree

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]


@dataclasses.dataclass
class ModuleCallSignature:
    """What a module was called with and gave back."""

    inputs: list[Any]
    outputs: list[Any]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    forward_arg_names: list[str] | None = None


@dataclasses.dataclass
class ModuleCallEntry:
    """A module that was called."""

    fqn: str
    signature: ModuleCallSignature | None = None


@dataclasses.dataclass
class CallSpec:
    """How arguments and results are taken apart."""

    in_spec: pytree.TreeSpec | None
    out_spec: pytree.TreeSpec | None


class ExportedProgram:
    """A graph of ops of aten with parameters, buffers and constants as inputs.

    `module()` gives a module that runs it.
    """

    def __init__(
        self,
        root: Module | dict[str, Any],
        graph: Graph,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Tensor],
        range_constraints: dict[Any, Any],
        module_call_graph: list[ModuleCallEntry],
        example_inputs: tuple[tuple, dict[str, Any]] | None = None,
        constants: dict[str, Any] | None = None,
        *,
        verifiers: list[Any] | None = None,
    ) -> None:
        self._graph_module = GraphModule(root, graph)
        self._graph_signature = graph_signature
        self._state_dict, self._range_constraints = state_dict, range_constraints
        self._module_call_graph, self._example_inputs = module_call_graph, example_inputs
        self._constants = constants or {}
        self._guards: list[Any] = []  # beyond ranges: what must hold for sizes
        self._dialect = "TRAINING"
        self.validate()

    # -- parts -------------------------------------------------------------------------------
    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module whose inputs include the state."""
        return self._graph_module

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What inputs and outputs stand for."""
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and lasting buffers by name."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Any]:
        """Other tensors by name."""
        return self._constants

    @property
    def tensor_constants(self) -> dict[str, Any]:
        """Other tensors by name."""
        return self._constants

    @property
    def range_constraints(self) -> dict[Any, Any]:
        """The range of each symbol."""
        return self._range_constraints

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """Which modules were called."""
        return self._module_call_graph

    @property
    def example_inputs(self) -> tuple[tuple, dict[str, Any]] | None:
        """What the program was recorded with."""
        return self._example_inputs

    @property
    def call_spec(self) -> CallSpec:
        """How arguments and results are taken apart."""
        signature = self._module_call_graph[0].signature
        if signature is None:
            return CallSpec(None, None)
        return CallSpec(signature.in_spec, signature.out_spec)

    @property
    def dialect(self) -> str:
        """Which ops the graph is made of."""
        return self._dialect

    def parameters(self) -> Iterator[Tensor]:
        """Parameters, in the order of inputs."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters with names."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self) -> Iterator[Tensor]:
        """Buffers, in the order of inputs."""
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Buffers with names."""
        passing = set(self.graph_signature.non_persistent_buffers)
        for name in self.graph_signature.buffers:
            yield name, (self.constants if name in passing else self.state_dict)[name]

    # -- running -----------------------------------------------------------------------------
    def module(self, check_guards: bool = True) -> GraphModule:
        """A module that holds the state and is called as the one that was exported."""
        from flambeau.export.unlifting import unlifted

        return unlifted(self, check_guards)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. "
            "You should use `exported_program.module()` instead."
        )

    def run_decompositions(
        self,
        decomp_table: Mapping[Any, Any] | None = None,
        decompose_custom_triton_ops: bool = False,
    ) -> "ExportedProgram":
        """The program in fewer kinds of ops, with nothing written in place."""
        from flambeau.export.lowering import lowered

        return lowered(self, default_decompositions() if decomp_table is None else decomp_table)

    def validate(self) -> None:
        """Check that the graph is sound and has the inputs and outputs that are promised."""
        self.graph.lint()
        places = [node.name for node in self.graph.nodes if node.op == "placeholder"]
        specs = [spec.arg.name for spec in self.graph_signature.input_specs]
        if places != specs:
            raise ValueError(f"Graph has inputs {places}, but the signature says {specs}")
        for spec in self.graph_signature.input_specs:
            if spec.kind is InputKind.PARAMETER and spec.target not in self.state_dict:
                raise ValueError(f"Parameter {spec.target} is not in the state dict.")

    def _value_of(self, spec: Any) -> Any:
        """The tensor of an input that is not the user's."""
        if spec.target in self.state_dict:
            return self.state_dict[spec.target]
        return self.constants[spec.target]

    def __deepcopy__(self, memo: Any) -> "ExportedProgram":
        twin = ExportedProgram(
            self.graph_module,
            copy.deepcopy(self.graph),
            copy.deepcopy(self.graph_signature),
            dict(self.state_dict),
            dict(self.range_constraints),
            list(self.module_call_graph),
            self.example_inputs,
            dict(self.constants),
        )
        twin._guards, twin._dialect = list(self._guards), self._dialect
        return twin

    def __str__(self) -> str:
        text = class_text(self.graph_module, "GraphModule")
        shown = "\n".join("    " + line for line in text.splitlines())
        signature = str(self.graph_signature).replace("\n", "\n    ")
        ranges = ", ".join(f"{k}: {v}" for k, v in self.range_constraints.items())
        return (
            f"ExportedProgram:\n{shown}\n    \nGraph signature: {signature}\n"
            f"Range constraints: {{{ranges}}}\n"
        )


def default_decompositions() -> dict[Any, Any]:
    """What `run_decompositions()` takes apart: the way to core aten."""
    from flambeau._decomp import core_aten_decompositions

    return core_aten_decompositions()


def tensors_of(program: ExportedProgram) -> dict[str, flambeau.Tensor]:
    """All tensors of a program by name."""
    return {**program.state_dict, **program.constants}
