"""Pointwise work on what a kernel stores: expressions of the value, of others and of numbers.

Operands have one element for each of the result's, at the same place in memory, counted in elements
from its beginning. Arguments of the kernel: addresses of outputs, of inputs, then numbers.
"""

from collections.abc import Hashable
from typing import Any

from flambeau.codegen.llvm import Emitter, load_element, masked_store, store_element
from flambeau.codegen.llvm_names import MEMORY_TYPE
from flambeau.codegen.loops import I64, bytes_of, width_of


class Tail:
    """What follows. values: of each output; their argument 0 is the result, then come the others.

    identity: what tells it from other tails, as expressions cannot be compared.
    """

    def __init__(
        self, outputs: tuple, inputs: tuple, scalars: str, values: tuple, is_stored: bool,
        identity: Hashable,
    ) -> None:  # fmt: skip
        self.outputs, self.inputs, self.scalars = outputs, inputs, scalars  # dtype names, letters
        self.values, self.is_stored = values, is_stored  # is the result stored itself?
        self.identity = outputs, inputs, scalars, is_stored, identity

    def __eq__(self, other: object) -> bool:
        return type(other) is Tail and other.identity == self.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def kinds(self) -> str:
        return "p" * (len(self.outputs) + len(self.inputs)) + self.scalars


LINE = 64  # bytes of a line of the cache


def expect(fn: Any, pointer: Any, count: int, to_write: bool = False) -> None:
    """Ask for lines of memory that will be needed soon."""
    facts = [fn.value(k, "i32") for k in (int(to_write), 3, 1)]
    for k in range(count):
        fn.call("llvm.prefetch.p0", "void", fn.gep(pointer, k * LINE, "i8"), *facts)


def expect_delivery(
    tail: Tail | None, fn: Any, place: Any, lines: int, code: str, given: Any
) -> None:
    """Ask for what `deliver` will read and write at a place."""
    if tail is None or tail.is_stored:
        expect(fn, place, lines, to_write=True)
    if tail is None:
        return
    origin, *rest = given()
    for k, (base, dtype) in enumerate(zip(rest, (*tail.outputs, *tail.inputs))):
        expect(fn, _at(fn, place, origin, base, code, dtype), lines, k < len(tail.outputs))


def _at(fn, place, origin, base, code, dtype):
    """Where an operand has the element that lies at a place of the result."""
    offset = fn.convert("ptrtoint", place, I64) - fn.convert("ptrtoint", origin, I64)
    item, size = bytes_of(MEMORY_TYPE[code]), bytes_of(MEMORY_TYPE[dtype])
    by = offset * (size // item) if size >= item else offset / (item // size)
    return fn.gep(base, by, "i8")


def deliver(
    tail: Tail | None, fn: Any, value: Any, place: Any, mask: Any, code: str, given: Any
) -> None:
    """Store a result of dtype `code` (f32 or f64), or what becomes of it.

    given(): the address of the first result, then the tail's arguments.
    """
    if tail is None or tail.is_stored:
        masked_store(fn, value, place, mask)
    if tail is None:
        return
    origin, *rest = given()
    width = width_of(value.type)
    count, values = len(tail.outputs), [value]

    def at(base, dtype):
        return _at(fn, place, origin, base, code, dtype)

    for base, dtype in zip(rest[count:], tail.inputs):
        values.append(load_element(fn, at(base, dtype), dtype, width, "c", None, mask))
    values += [fn.splat(x, width) for x in rest[count + len(tail.inputs) :]]
    emitter = Emitter(fn, width, dict(enumerate(values)))
    found = [emitter.emit(v) for v in tail.values]
    for base, dtype, result in zip(rest, tail.outputs, found):
        store_element(fn, result, at(base, dtype), dtype, width, "c", None, mask)
