"""Which names a file of weights may speak of, and what is said of the others.

`rebuilding.ALLOWED` is the list that comes with flambeau; `add_safe_globals` adds to it. What a
file would ask for can be listed without loading it.
"""

import contextlib
import pickletools
import re
from pickle import UnpicklingError

from flambeau.serialization import files
from flambeau.serialization.archive import ArchiveReader
from flambeau.serialization.rebuilding import ALLOWED, spoken_name

BLOCKED = frozenset({"sys", "os", "posix", "nt", "subprocess"})
OLD_NAMES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_safe: list = []


def add_safe_globals(safe_globals):
    """Allow these classes and functions, or (object, "its name in files"), in files of weights."""
    for item in safe_globals:
        name_of(item)
        if item not in _safe:
            _safe.append(item)


def get_safe_globals():
    return list(_safe)


def clear_safe_globals():
    _safe.clear()


class safe_globals(contextlib.AbstractContextManager):
    """Allow classes and functions within a `with` block."""

    def __init__(self, safe_globals):
        self.added = safe_globals

    def __enter__(self):
        self.before = list(_safe)
        add_safe_globals(self.added)
        return self

    def __exit__(self, *error):
        _safe[:] = self.before


def name_of(item):
    if isinstance(item, tuple):
        if len(item) != 2 or not isinstance(item[1], str):
            raise ValueError(
                "Expected a tuple of a callable and its full path as a string, "
                f"but got {item!r:.100}"
            )
        return item[1]
    if not callable(item) or not hasattr(item, "__qualname__"):
        raise TypeError(f"add_safe_globals expects classes and functions, but got {item!r:.100}")
    return ".".join(spoken_name(item) or (item.__module__, item.__qualname__))


# what PyTorch allows in files and is not here: small floats and sparse tensors
_NOT_HERE = re.compile(
    r"torch\.(cuda\.)?((float[48]|u?int\dx?|bits\d)\w*"
    r"|(Float[48]|Bits)\w*Storage|sparse\.\w+)"
    r"|torch\._utils\._rebuild_(sparse_tensor|wrapper_subclass|device_\w+)"
)


def refusal(name):
    """What to raise for a global that is not allowed."""
    module = name.rpartition(".")[0]
    head = "Weights only load failed. "
    if module.partition(".")[0] in BLOCKED:
        return UnpicklingError(
            f"{head}WeightsUnpickler error: Trying to load unsupported GLOBAL {name} whose module "
            f"{module} is blocked.\n"
            "Files of weights never ask for it; the file may be hostile."
        )
    if _NOT_HERE.fullmatch(name):
        return UnpicklingError(
            f"{head}The file holds tensors of a kind that flambeau does not have yet: {name}."
        )
    short = name.removeprefix("builtins.")
    return UnpicklingError(
        f"{head}This file can still be loaded, to do so you have two options, do those steps only "
        "if you trust the source of the checkpoint.\n"
        "\t(1) torch.load with weights_only=False, which lets the file run any code.\n"
        "\t(2) allow the name below and keep weights_only=True.\n"
        f"\tWeightsUnpickler error: Unsupported global: GLOBAL {short} was not an allowed global "
        f"by default. Please use `torch.serialization.add_safe_globals([{short}])` or the "
        f"`torch.serialization.safe_globals([{short}])` context manager to allowlist this global "
        "if you trust this class/function."
    )


def allowed(full):
    if full == "torch.nn.parameter.Parameter":
        from flambeau.nn.parameter import Parameter  # nn is large

        return Parameter
    if full == "torch.nested._internal.nested_tensor.NestedTensor":
        from flambeau.nested.jagged import NestedTensor  # so is this

        return NestedTensor
    return ALLOWED.get(full)


def globals_of(data):
    """Full names of the globals of a pickle, in order."""
    found, strings = {}, []
    try:
        for op, argument, _ in pickletools.genops(data):
            if op.name in ("GLOBAL", "INST"):
                module, name = argument.split(" ", 1)
                found[f"{OLD_NAMES.get(module, module)}.{name}"] = None
            elif op.name == "STACK_GLOBAL" and len(strings) >= 2:
                found[".".join(strings[-2:])] = None
            elif isinstance(argument, str):
                strings = [*strings[-1:], argument]
    except ValueError as error:
        raise UnpicklingError(f"the file is corrupted: {error}") from None
    return list(found)


def get_unsafe_globals_in_checkpoint(f) -> list[str]:
    """Names in a file that `torch.load(f, weights_only=True)` would refuse."""
    with files.opened_for_reading(f) as file:
        if file.read(4) != b"PK\x03\x04":
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        file.seek(0)
        archive = ArchiveReader(file)
        if archive.is_torchscript:
            raise ValueError(
                "Expected input to be a checkpoint returned by torch.save but got a torchscript "
                "checkpoint"
            )
        names = globals_of(archive.read("data.pkl"))
    safe = {name_of(item) for item in get_safe_globals()}
    return [name for name in names if name not in safe and allowed(name) is None]
