"""`torch.export`: models as programs of ops of aten, which other tools and processes can run."""

from flambeau.export.archive import load, save
from flambeau.export.dynamic_shapes import AdditionalInputs, Constraint, Dim, ShapesCollection, dims
from flambeau.export.exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
    default_decompositions,
)
from flambeau.export.exporting import draft_export, export, export_for_training
from flambeau.export.graph_signature import ExportBackwardSignature, ExportGraphSignature
from flambeau.export.unflatten import FlatArgsAdapter, UnflattenedModule, unflatten
from flambeau.utils._pytree import register_dataclass as _register_dataclass


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Let a dataclass be an input or an output of programs."""
    name = serialized_type_name or f"{cls.__module__}.{cls.__qualname__}"
    _register_dataclass(cls, serialized_type_name=name)


__all__ = [
    "AdditionalInputs",
    "Constraint",
    "Dim",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "ExportedProgram",
    "FlatArgsAdapter",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "ShapesCollection",
    "UnflattenedModule",
    "default_decompositions",
    "dims",
    "draft_export",
    "export",
    "export_for_training",
    "load",
    "register_dataclass",
    "save",
    "unflatten",
]
