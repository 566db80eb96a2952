"""`torch.package`: objects together with the code that they need, in one file.

`PackageExporter` writes objects, modules and other files; each module that they need is taken
along, left to the reader's environment or replaced by a mock, as patterns say. `PackageImporter`
loads them into modules of its own, beside those of the program.
"""

from .analyze import is_from_package
from .file_structure_representation import Directory
from .glob_group import GlobGroup
from .importer import (
    Importer,
    ObjMismatchError,
    ObjNotFoundError,
    OrderedImporter,
    sys_importer,
)
from .package_exporter import EmptyMatchError, PackageExporter, PackagingError
from .package_importer import PackageImporter

__all__ = [
    "Directory",
    "EmptyMatchError",
    "GlobGroup",
    "Importer",
    "ObjMismatchError",
    "ObjNotFoundError",
    "OrderedImporter",
    "PackageExporter",
    "PackageImporter",
    "PackagingError",
    "is_from_package",
    "sys_importer",
]
