"""`torch.export`: models as programs of ops of aten, which other tools and processes can run."""

from flambeau.export.dynamic_shapes import AdditionalInputs, Constraint, Dim, ShapesCollection, dims
from flambeau.export.exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
    default_decompositions,
)
from flambeau.export.exporting import export
from flambeau.export.graph_signature import ExportBackwardSignature, ExportGraphSignature

__all__ = [
    "AdditionalInputs",
    "Constraint",
    "Dim",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "ExportedProgram",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "ShapesCollection",
    "default_decompositions",
    "dims",
    "export",
]
