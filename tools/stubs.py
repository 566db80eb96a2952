"""Write the stubs (`.pyi`) that editors and type checkers read for names that come from the table.

Usage: python tools/stubs.py [--check]

The functions of `torch`, `torch.linalg`, `torch.fft`, `torch.special` and `torch.nn.functional`,
and the methods of Tensor, are built from rows when first touched, so nobody who reads source finds
them. A stub has each name that is there, with PyTorch's overloads (tests/golden/public_names.json),
or with the parameters of the row where PyTorch tells none; types are those of aten's schemas.
`inspect` reads signatures from the same files (flambeau/eager/stub_signatures.py). With --check,
say which files are out of date instead of writing them.
"""

import argparse
import ast
import json
import keyword
import re
import sys
from pathlib import Path
from types import ModuleType

import flambeau
from flambeau.aten.schemas import schemas_of
from flambeau.ops.table import REQUIRED, TABLE

ROOT = Path(__file__).resolve().parents[1]
RECORDED = json.loads((ROOT / "tests/golden/public_names.json").read_text())["modules"]
HEADER = """# Written by tools/stubs.py; do not edit.
# mypy: ignore-errors
# ruff: noqa
import builtins
from collections.abc import Callable, Sequence
from typing import Any, overload

"""
# type of a schema -> annotation
TYPES = {
    "Tensor": "Tensor",
    "Scalar": "_Number",
    "int": "int",
    "SymInt": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "ScalarType": "dtype",
    "Device": "_Device",
    "Layout": "layout",
    "MemoryFormat": "memory_format",
    "Generator": "Generator",
}
# parameter -> annotation, where no schema has it
NAMED = {
    "input": "Tensor", "self": "", "other": "Tensor | _Number", "out": "Tensor | None",
    "dtype": "dtype | None", "device": "_Device | None", "layout": "layout | None",
    "requires_grad": "bool | None", "pin_memory": "bool | None", "generator": "Generator | None",
    "memory_format": "memory_format | None", "tensors": "Sequence[Tensor]", "keepdim": "bool",
    "reduction": "str", "inplace": "bool", "eps": "float", "weight": "Tensor | None",
}  # fmt: skip
# parameters that functions take as words where schemas have numbers
ASKED = {"reduction": "str", "compute_mode": "str | int | None", "mode": "Any"}
ROW_TYPES = {
    "tensor": "Tensor", "optional": "Tensor | None", "tensors": "Sequence[Tensor]",
    "float": "float", "int": "int", "scalar": "_Number",
}  # fmt: skip


def annotation(text):
    """The annotation of a type in a schema."""
    optional = text.endswith("?")
    plain = text.rstrip("?")
    listed = re.fullmatch(r"(\w+)\??\[(\d*)\]", plain)
    if listed:
        item = TYPES.get(listed[1], "Any")
        found = f"Sequence[{item}]" + (f" | {item}" if listed[2] else "")
    else:
        found = TYPES.get(plain, "Any")
    return found + " | None" if optional else found


def types_of(row):
    """(name -> annotation, what it returns) of an op, from its schemas."""
    names, returns = {}, []
    for schema in schemas_of(row).values():
        for a in schema.arguments:
            said = annotation(a.type)
            if names.setdefault(a.name, said) != said and said not in names[a.name]:
                names[a.name] += f" | {said}"
        returns.append([r.type for r in schema.returns])
    given = "Tensor"
    if returns and any(len(r) != 1 for r in returns):
        given = "Any"
    elif returns:
        names.update({k: v for k, v in ASKED.items() if k in names})
        kinds = {r[0] for r in returns}
        given = {"Tensor": "Tensor", "bool": "bool", "Tensor[]": "tuple[Tensor, ...]"}.get(
            kinds.pop() if len(kinds) == 1 else "", "Any"
        )
    return names, given


def default(text):
    """A default that stubs can say."""
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return "..."
    return text


def written(name, signature, types, returns, method):
    """A definition with PyTorch's parameters; signature is a text such as (input, *, out=None)."""
    tree = ast.parse(f"def f{signature}: ...").body[0].args
    parts = []
    positional = [*tree.posonlyargs, *tree.args]
    first = len(positional) - len(tree.defaults)

    def typed(a, value=None):
        if a.arg == "self" and method:
            return "self"
        said = types.get(a.arg) or NAMED.get(a.arg) or "Any"
        if a.arg == "input" and "input" not in types:
            said = types.get("self") or "Tensor"
        if value == "None" and said != "Any" and "None" not in said:
            said += " | None"
        end = "" if value is None else f" = {default(value)}"
        return f"{a.arg}: {said}{end}"

    for k, a in enumerate(positional):
        value = ast.unparse(tree.defaults[k - first]) if k >= first else None
        parts.append(typed(a, value))
        if tree.posonlyargs and k + 1 == len(tree.posonlyargs):
            parts.append("/")
    if tree.vararg:
        said = "int" if tree.vararg.arg in ("size", "sizes", "shape", "dims") else "Any"
        parts.append(f"*{tree.vararg.arg}: {said}")
    elif tree.kwonlyargs:
        parts.append("*")
    for a, value in zip(tree.kwonlyargs, tree.kw_defaults, strict=True):
        parts.append(typed(a, None if value is None else ast.unparse(value)))
    if tree.kwarg:
        parts.append(f"**{tree.kwarg.arg}: Any")
    return f"def {name}({', '.join(parts)}) -> {returns}: ..."


def of_row(op, method):
    """The signature of a row as text, for names that PyTorch says nothing about."""
    parts, starred = [], False
    for p in op.params:
        if p.keyword_only and not starred:
            parts.append("*")
            starred = True
        parts.append(p.name if p.default is REQUIRED else f"{p.name}={p.default!r}")
    if "out" in op.variants and not method:
        parts += [] if starred else ["*"]
        parts.append("out=None")
    text = f"({', '.join(parts)})"
    try:
        ast.parse(f"def f{text}: ...")
    except SyntaxError:
        return "(*args, **kwargs)"
    return text.replace("(input", "(self", 1) if method else text


def definitions(name, row, recorded, method=False):
    """Lines of the definitions of a name: one, or its overloads."""
    if keyword.iskeyword(name):
        return []
    types, returns = types_of(row)
    op = TABLE.get(row)
    if op is not None and not types:
        types = {p.name: ROW_TYPES.get(p.kind, "Any") for p in op.params}
    texts = [t for t in recorded.get(name, ()) if t]
    if not texts:
        texts = [of_row(op, method)] if op is not None else ["(*args, **kwargs)"]
    if method:
        texts = [t if t.startswith(("(self", "(cls", "(*")) else "(self, " + t[1:] for t in texts]
        texts = ["(self, " + t[1:] if t.startswith("(*") else t for t in texts]
        texts = [re.sub(r"^\(self, \)", "(self)", t) for t in texts]
    lines = [written(name, t, types, returns, method) for t in dict.fromkeys(texts)]
    lines = list(dict.fromkeys(lines))
    return lines if len(lines) == 1 else [line for d in lines for line in ("@overload", d)]


# -- the files -------------------------------------------------------------------------------------

NUMBERS = """
_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_Number = builtins.int | builtins.float | builtins.complex | builtins.bool
_Device = device | str | builtins.int
"""
BUILTINS = ("int", "float", "bool")
SHARED = (
    "from flambeau._device import device as device\n"
    "from flambeau._dtype import dtype as dtype\n"
    "from flambeau._memory_format import layout as layout\n"
    "from flambeau._memory_format import memory_format as memory_format\n"
    "from flambeau.random import Generator as Generator\n"
)


def renamed(body, words):
    """Definitions whose annotations say _int for int: names here hide those of types."""
    for word in words:
        body = re.sub(rf"(?<=[:\[|>] ){word}(?=[\s,)\]:=]|$)", f"_{word}", body)
        body = re.sub(rf"(?<=\[){word}(?=[\],])", f"_{word}", body)
    return body


def space_of_rows(path, prefix):
    """A stub of a namespace whose functions are rows."""
    module = eval(path, {"flambeau": flambeau})
    recorded = RECORDED[path.replace("flambeau", "torch")]
    lines = []
    for name in sorted({*recorded, *dir(module)}):
        if name.startswith("_") or not callable(getattr(module, name, None)):
            continue
        if isinstance(getattr(module, name), type):
            lines.append(f"{name}: Any")
            continue
        row = prefix + name if prefix + name in TABLE else name
        lines += definitions(name, row, recorded)
    head = HEADER + SHARED + "from flambeau._tensor import Tensor as Tensor\n" + NUMBERS + "\n"
    return head + "\n".join(lines) + "\n\ndef __getattr__(name: str) -> Any: ...\n"


PROPERTIES = {
    "shape": "Size", "dtype": "dtype", "device": "device", "layout": "layout", "ndim": "int",
    "requires_grad": "bool", "is_leaf": "bool", "grad": "Tensor | None", "data": "Tensor",
    "nbytes": "int", "itemsize": "int", "T": "Tensor", "mT": "Tensor", "H": "Tensor",
    "mH": "Tensor", "real": "Tensor", "imag": "Tensor", "grad_fn": "Any", "names": "Any",
    "output_nr": "int", "retains_grad": "bool", "name": "Any", "volatile": "bool",
    "grad_dtype": "Any",
}  # fmt: skip
TWO = "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul \
rmatmul and rand or ror xor rxor lshift rlshift rshift rrshift iadd isub imul itruediv \
ifloordiv imod ipow iand ior ixor lt le gt ge".split()
OPERATORS = [
    *(f"def __{word}__(self, other: Any) -> Tensor: ..." for word in TWO),
    "def __eq__(self, other: Any) -> Tensor: ...",
    "def __ne__(self, other: Any) -> Tensor: ...",
    *(f"def __{word}__(self) -> Tensor: ..." for word in "neg pos abs invert".split()),
    "def __hash__(self) -> int: ...",
    "def __bool__(self) -> bool: ...",
    "def __int__(self) -> int: ...",
    "def __float__(self) -> float: ...",
    "def __complex__(self) -> complex: ...",
    "def __index__(self) -> int: ...",
    "def __len__(self) -> int: ...",
    "def __iter__(self) -> Iterator[Tensor]: ...",
    "def __contains__(self, item: Any) -> bool: ...",
    "def __getitem__(self, index: Any) -> Tensor: ...",
    "def __setitem__(self, index: Any, value: Any) -> None: ...",
    "def __init__(self, *args: Any, **kwargs: Any) -> None: ...",
]
# methods that give something else than a tensor
GIVEN = {
    "size": [
        "def size(self, dim: None = None) -> Size: ...",
        "def size(self, dim: int) -> int: ...",
    ],
    "stride": [
        "def stride(self, dim: None = None) -> tuple[int, ...]: ...",
        "def stride(self, dim: int) -> int: ...",
    ],
    **{name: [f"def {name}(self) -> int: ..."] for name in
       "dim numel nelement element_size ndimension storage_offset data_ptr get_device".split()},
    **{name: [f"def {name}(self) -> bool: ..."] for name in
       "is_complex is_floating_point is_signed is_inference is_pinned is_shared is_conj is_neg "
       "is_coalesced is_nonzero is_distributed".split()},
    "q_scale": ["def q_scale(self) -> float: ..."],
    "q_zero_point": ["def q_zero_point(self) -> int: ..."],
    "qscheme": ["def qscheme(self) -> Any: ..."],
    "as_subclass": ["def as_subclass(self, cls: Any) -> Any: ..."],
    "item": ["def item(self) -> Any: ..."],
    "tolist": ["def tolist(self) -> Any: ..."],
    "numpy": ["def numpy(self, *, force: bool = False) -> Any: ..."],
    "backward": ["def backward(self, gradient: Tensor | None = None, retain_graph: bool | None = "
                 "None, create_graph: bool = False, inputs: Any = None) -> None: ..."],
    "type": ["def type(self, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> "
             "Any: ..."],
    "to": ["def to(self, *args: Any, **kwargs: Any) -> Tensor: ..."],
    "view": ["def view(self, *size: Any, dtype: Any = None) -> Tensor: ..."],
    "unique": ["def unique(self, sorted: bool = True, return_inverse: bool = False, "
               "return_counts: bool = False, dim: int | None = None) -> Any: ..."],
}  # fmt: skip


WRITABLE = {"requires_grad", "grad", "data", "names", "name", "real", "imag"}


def as_property(name, kind):
    """Lines of a property; those that programs set are plain attributes."""
    if name in WRITABLE:
        return [f"{name}: {kind}"]
    return ["@property", f"def {name}(self) -> {kind}: ..."]


def private(module, kept=()):
    """Names with an underscore (and others) that other files of the package ask for."""
    names = [
        name
        for name, value in vars(module).items()
        if name.startswith("_") and not name.startswith("__") and not isinstance(value, ModuleType)
    ]
    return [f"{name}: Any" for name in sorted({*names, *kept})]


def tensor_class():
    recorded = RECORDED["torch.Tensor"]
    own = [n for n in dir(flambeau.Tensor) if not n.startswith("_")]
    lines = list(OPERATORS)
    for name in sorted(set(own)):
        member = getattr(flambeau.Tensor, name)
        if name in PROPERTIES or isinstance(member, property):
            kind = PROPERTIES.get(name, "bool" if name[:3] == "is_" else "Any")
            lines += as_property(name, kind)
        elif name in GIVEN:
            several = len(GIVEN[name]) > 1
            lines += [w for d in GIVEN[name] for w in (("@overload", d) if several else (d,))]
        elif callable(member):
            lines += definitions(name, name, recorded, method=True)
    head = HEADER.replace("Callable, Sequence", "Callable, Iterator, Sequence") + SHARED
    head += "from flambeau._layout import Size as Size\n" + NUMBERS + "\nclass Tensor:\n    "
    body = "\n    ".join(lines)
    for word in ("dtype", "device", "layout"):
        head = head.replace("\nclass Tensor", f"_{word} = {word}\n\nclass Tensor")
    return (
        head
        + renamed(body, (*BUILTINS, "dtype", "device", "layout"))
        + "\n    def __getattr__(self, name: str) -> Any: ...\n"
        + "    def __setattr__(self, name: str, value: Any) -> None: ...\n\n"
        + "\n".join(private(flambeau._tensor, ("make_tensor", "extra_of", "Extra", "View")))
        + "\n\ndef __getattr__(name: str) -> Any: ...\n"
    )


PLAIN = """from flambeau import (
    accelerator as accelerator, amp as amp, autograd as autograd, backends as backends,
    compiler as compiler, cpu as cpu, cuda as cuda, distributed as distributed, export as export,
    fft as fft, func as func, fx as fx, hub as hub,
    jit as jit, library as library, linalg as linalg, multiprocessing as multiprocessing, nn as nn,
    onnx as onnx, optim as optim, overrides as overrides, profiler as profiler, random as random,
    signal as signal, special as special, testing as testing, types as types, utils as utils,
    version as version, vision as vision,
)
from flambeau._dtype import finfo as finfo, iinfo as iinfo
from flambeau._layout import Size as Size
from flambeau._tensor import Tensor as Tensor
from flambeau.autograd.grad_mode import (
    enable_grad as enable_grad, inference_mode as inference_mode, no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from flambeau.compiler import compile as compile
from flambeau.serialization import load as load, save as save

inf: float
nan: float
pi: float
e: float
__version__: str
"""
# functions that give something else than a tensor
QUESTIONS = {
    **dict.fromkeys("is_tensor is_complex is_floating_point is_grad_enabled allclose equal "
                    "is_inference_mode_enabled is_storage is_nonzero can_cast".split(), "bool"),
    **dict.fromkeys("numel get_num_threads initial_seed seed".split(), "int"),
    **dict.fromkeys("get_default_dtype result_type promote_types".split(), "dtype"),
    **dict.fromkeys("set_default_dtype set_default_device set_num_threads set_printoptions "
                    "use_deterministic_algorithms".split(), "None"),
    "get_default_device": "device", "manual_seed": "Generator", "get_rng_state": "Tensor",
    "unique": "Any", "unique_consecutive": "Any", "typename": "str", "q_scale": "float",
    "q_zero_point": "int", "broadcast_shapes": "Size",
}  # fmt: skip


def top():
    recorded, lines = RECORDED["torch"], []
    taken = set(re.findall(r"as (\w+)", PLAIN)) | {"device", "dtype", "layout", "memory_format"}
    taken |= {"Generator", "inf", "nan", "pi", "e"}
    names = {*recorded, *(n for n in TABLE if n not in recorded), *dir(flambeau)}
    names |= {name for name, home in flambeau._ELSEWHERE.items() if home == "_array_api"}
    for name in sorted(names):
        value = getattr(flambeau, name, None)
        if name.startswith("_") or name in taken or value is None or "autocast" in name:
            continue
        if name == "broadcast_shapes":
            lines.append("def broadcast_shapes(*shapes: Any) -> Size: ...")
        elif isinstance(value, flambeau.dtype):
            lines.append(f"{name}: dtype")
        elif isinstance(value, flambeau.layout | flambeau.memory_format):
            lines.append(f"{name}: {type(value).__name__}")
        elif isinstance(value, type):
            lines.append(f"{name}: Any")
        elif getattr(value, "__module__", "") == "flambeau._array_api":
            lines.append(f"from flambeau._array_api import {name} as {name}")
        elif callable(value):
            found = definitions(name, name, recorded)
            if name in QUESTIONS:
                found = [
                    re.sub(r"-> [^:]*: \.\.\.$", f"-> {QUESTIONS[name]}: ...", d) for d in found
                ]
            lines += found
    lines += private(flambeau, ("is_autocast_enabled", "_weight_norm"))
    text = HEADER + SHARED + renamed(PLAIN, BUILTINS) + NUMBERS + "\n"
    text += renamed("\n".join(lines), BUILTINS)
    return text + "\n\ndef __getattr__(name: str) -> Any: ...\n"


FILES = {
    "flambeau/__init__.pyi": top,
    "flambeau/_tensor/__init__.pyi": tensor_class,
    "flambeau/linalg/__init__.pyi": lambda: space_of_rows("flambeau.linalg", "linalg_"),
    "flambeau/fft/__init__.pyi": lambda: space_of_rows("flambeau.fft", "fft_"),
    "flambeau/special/__init__.pyi": lambda: space_of_rows("flambeau.special", "special_"),
    "flambeau/nn/functional.pyi": lambda: space_of_rows("flambeau.nn.functional", "functional_"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="say what is out of date")
    settings = parser.parse_args()
    old = []
    for path, made in FILES.items():
        text, file = made(), ROOT / path
        ast.parse(text)
        if not file.exists() or file.read_text() != text:
            old.append(path)
            if not settings.check:
                file.write_text(text)
    print(f"{'out of date' if settings.check else 'written'}: {', '.join(old) or 'nothing'}")
    return 1 if settings.check and old else 0


if __name__ == "__main__":
    sys.exit(main())
