"""Kernels without Python: one object file that runs a list of launches.

Kernels are built as ever, with an entry that CPython calls. Here a few functions of CPython are
played by tiny stand-ins: an "integer" is three words with its value in the last, a description lies
where the content of a bytes object would lie. So the very machine code of eager mode runs, and a C
program needs neither Python nor a compiler of ours.
"""

import re
import struct
from collections.abc import Callable
from typing import NamedTuple

from flambeau.codegen.llvm_cpu import BYTES_HEADER, joined_object


class Address(NamedTuple):
    """A word that is worked out when the program runs: a base, and bytes behind it."""

    base: int
    offset: int


class Function(NamedTuple):
    """A word that is the address of a native function."""

    place: int


STAND_INS = """
@_Py_NoneStruct = global [3 x i64] zeroinitializer
@PyBytes_Type = global [3 x i64] zeroinitializer
@status = global [3 x i64] zeroinitializer
define i64 @PyLong_AsLongLong(ptr %item) {
  %p = getelementptr i8, ptr %item, i64 16
  %v = load i64, ptr %p
  ret i64 %v
}
define double @PyFloat_AsDouble(ptr %item) {
  %p = getelementptr i8, ptr %item, i64 16
  %v = load double, ptr %p
  ret double %v
}
define ptr @PyErr_Occurred() {
  ret ptr null
}
define i32 @PyErr_BadArgument() {
  ret i32 0
}
define ptr @PyLong_FromLongLong(i64 %v) {
  ret ptr @status
}
define void @Py_IncRef(ptr %item) {
  ret void
}
define ptr @PyEval_SaveThread() {
  ret ptr null
}
define void @PyEval_RestoreThread(ptr %state) {
  ret void
}
define void @flambeau_pool_run(ptr %body, ptr %block, i64 %chunks) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %work ]
  %more = icmp ult i64 %k, %chunks
  br i1 %more, label %work, label %done
work:
  call void %body(ptr %block, i64 %k)
  %next = add i64 %k, 1
  br label %loop
done:
  ret void
}
"""


class Writer:
    """Collects launches, data and functions, and writes the object."""

    def __init__(self, name: str, source_of: Callable) -> None:
        self.name, self.source_of = name, source_of
        self.globals: list[str] = []
        self.body: list[str] = []
        self.modules: dict[int, tuple[str, str]] = {}  # place -> (symbol, IR)
        self.count = 0

    def _symbol(self, letter: str) -> str:
        self.count += 1
        return f"@{letter}{self.count}"

    def function(self, place: int) -> str:
        """The symbol of a kernel's entry, or of another native function."""
        if place not in self.modules:
            ir = self.source_of(place)
            if ir is None:
                raise RuntimeError("a kernel of this model cannot be written to a file")
            number = len(self.modules)
            wanted = "entry" if re.search(r"define [^\n]*@entry\(", ir) else "tile"
            for public in re.findall(r"^define (?!internal)[^@\n]*@([\w.]+)\(", ir, re.M):
                ir = re.sub(rf"@{re.escape(public)}\b", f"@{public}_{number}", ir)
            self.modules[place] = f"@{wanted}_{number}", ir
        return self.modules[place][0]

    def data(self, content: bytes) -> str:
        """Constant bytes."""
        symbol = self._symbol("data")
        text = "".join(f"\\{byte:02x}" for byte in content)
        self.globals.append(
            f'{symbol} = internal constant [{len(content)} x i8] c"{text}", align 64'
        )
        return symbol

    def room(self, count: int) -> str:
        """So many bytes to work in."""
        symbol = self._symbol("room")
        self.globals.append(f"{symbol} = internal global [{count} x i8] zeroinitializer, align 64")
        return symbol

    def launch(self, place: int, arguments: list) -> None:
        """A launch. Arguments: int, float, Address, or a list of words (a description)."""
        given = [self._argument(a) for a in arguments]
        symbol = self._symbol("args")
        items = ", ".join(f"ptr {a}" for a in given)
        self.globals.append(f"{symbol} = internal constant [{len(given)} x ptr] [{items}]")
        self.count += 1
        k, entry = self.count, self.function(place)
        self.body += [
            f"  %r{k} = call ptr {entry}(ptr null, ptr {symbol}, i64 {len(given)})",
            f"  %n{k} = icmp eq ptr %r{k}, @_Py_NoneStruct",
            f"  br i1 %n{k}, label %l{k}, label %failed",
            f"l{k}:",
        ]

    def _argument(self, value) -> str:
        symbol = self._symbol("a")
        head = "i64 1, i64 0"
        if isinstance(value, Address):
            self._store(value, symbol, 16)
            value = 0
        if type(value) is list:
            words = [self._word(w, symbol, BYTES_HEADER + 8 * k) for k, w in enumerate(value)]
            fill = BYTES_HEADER // 8 - 2
            self.globals.append(
                f"{symbol} = internal global {{i64, ptr, [{fill} x i64], [{len(words)} x i64]}} "
                f"{{i64 1, ptr @PyBytes_Type, [{fill} x i64] zeroinitializer, "
                f"[{len(words)} x i64] [{', '.join(words)}]}}, align 16"
            )
        elif type(value) is float:
            (number,) = struct.unpack("q", struct.pack("d", value))
            self.globals.append(f"{symbol} = internal global [3 x i64] [{head}, i64 {number}]")
        else:
            self.globals.append(f"{symbol} = internal global [3 x i64] [{head}, i64 {value}]")
        return symbol

    def _word(self, word, symbol: str, at: int) -> str:
        if isinstance(word, Address):
            self._store(word, symbol, at)
            return "i64 0"
        if isinstance(word, Function):
            return f"i64 ptrtoint (ptr {self.function(word.place)} to i64)"
        return f"i64 {word}"

    def _store(self, word: Address, symbol: str, at: int) -> None:
        self.count += 1
        k = self.count
        self.body += [
            f"  %v{k} = add i64 %base{word.base}, {word.offset}",
            f"  %p{k} = getelementptr i8, ptr {symbol}, i64 {at}",
            f"  store i64 %v{k}, ptr %p{k}",
        ]

    def text(self, bases: list[str], parameters: int, variables: list[str]) -> str:
        """IR of the program: bases are symbols, or numbers of parameters as "%pN"."""
        given = ", ".join(f"ptr %p{k}" for k in range(parameters))
        lines = [*self.globals, *variables]
        lines += self._declared()
        lines.append(f"define i32 @{self.name}({given}) {{")
        for k, base in enumerate(bases):
            if base.startswith("load "):
                lines.append(f"  %at{k} = load ptr, ptr {base[5:]}")
                base = f"%at{k}"
            lines.append(f"  %base{k} = ptrtoint ptr {base} to i64")
        lines += [*self.body, "  ret i32 0", "failed:", "  ret i32 1", "}"]
        return STAND_INS + "\n".join(lines) + "\n"

    def _declared(self) -> list[str]:
        return [
            f"declare ptr {symbol}(ptr, ptr, i64)" if "entry" in symbol else _declaration(ir)
            for symbol, ir in self.modules.values()
        ]

    def object(self, text: str) -> bytes:
        """The object file: everything in one module, of which only `name` can be seen."""
        texts = [text, *(ir for _, ir in self.modules.values())]
        return joined_object(texts, {self.name, f"{self.name}_weights"})


def _declaration(ir: str) -> str:
    """The declaration of a tile, from its definition."""
    line = re.search(r"^define (?!internal)([^\n]*?)\s*(?:#\d+)?\s*\{", ir, re.M)
    if line is None:
        raise RuntimeError("there is no function in a kernel")
    return "declare " + re.sub(r"%[\w.]+(?=[,)])", "", line[1])
