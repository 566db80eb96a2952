"""Tapes: kernels that were launched one after the other, to be launched again by one native call.

While somebody records, every kernel's definition leads to `recorder`, which writes down each launch
of one thread (definition, arguments and whether it gave None) and runs it. A silent recorder runs
nothing, and kernels that must not be left out lead to `refuser`, which raises. `replay` goes
through such launches again. Addresses that may differ from call to call are integers of the tape's
own, which are rewritten before the launches: see compiler/recording.py for which those are.

CPython's integers are written in place; `integers_are_known` makes sure that they look as they
should, on this very interpreter.
"""

import ctypes
import mmap
import struct
import sys
from typing import Any

from flambeau.runtime import cpu

LOG = 1 << 20  # words of the log
DIGIT = 30  # bits per digit of an integer
DIGITS = 24  # where they begin
MARK = 1 << 59  # an integer of two digits


def integers_are_known():
    """Are integers objects with two digits of 30 bits at the usual place?"""
    if sys.int_info.bits_per_digit != DIGIT or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    sample = 5 << DIGIT | 7
    digits = struct.unpack("II", ctypes.string_at(id(sample) + DIGITS, 8))
    return digits == (7, 5) and sys.getsizeof(sample) == DIGITS + 8


def tape_ir(storage: int, offset: int, pointer: int, function: int, entry: int) -> str:
    """IR of recorder and replay; the numbers say where slots and fields lie."""
    # where the tensor lies that %tp leads to
    place = f"""
  %tensor = load ptr, ptr %tp
  %sp = getelementptr i8, ptr %tensor, i64 {storage}
  %storage = load ptr, ptr %sp
  %pp = getelementptr i8, ptr %storage, i64 {pointer}
  %pointer = load ptr, ptr %pp
  %address = call i64 @PyLong_AsLongLong(ptr %pointer)
  %op = getelementptr i8, ptr %tensor, i64 {offset}
  %offset = load ptr, ptr %op
  %shift = call i64 @PyLong_AsLongLong(ptr %offset)
  %base = add i64 %address, %shift"""
    # %f is the code of the kernel %self; is this the thread that records?
    launched = f"""
  %definition = call ptr @PyLong_AsVoidPtr(ptr %self)
  %fp = getelementptr i8, ptr %definition, i64 {entry}
  %f = load ptr, ptr %fp
  %at = load i64, ptr @state  ; launches of one that calls Python are its own affair
  %me = call i64 @PyThread_get_thread_ident()
  %threadp = getelementptr i8, ptr @state, i64 24
  %thread = load i64, ptr %threadp
  %mine = icmp eq i64 %me, %thread"""
    return f"""
@_Py_NoneStruct = external global i8
@PyExc_RuntimeError = external global ptr
@refused = internal constant [23 x i8] c"this kernel has to run\\00"
@state = internal global [6 x i64] zeroinitializer, align 64
declare ptr @PyLong_AsVoidPtr(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare i64 @PyThread_get_thread_ident()
declare void @Py_IncRef(ptr)
declare void @PyErr_SetString(ptr, ptr)
declare void @Py_DecRef(ptr)

define ptr @flambeau_tape_state() {{
  ret ptr @state
}}

define ptr @flambeau_tape_none(ptr %self, ptr %args, i64 %n) {{
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}}

define ptr @flambeau_tape_recorder(ptr %self, ptr %args, i64 %n) {{
entry:
{launched}
  %silentp = getelementptr i8, ptr @state, i64 32
  %mode = load i64, ptr %silentp
  %silent = icmp ne i64 %mode, 0
  %skip = and i1 %mine, %silent
  br i1 %skip, label %leave, label %run
leave:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  br label %look
run:
  %given = call ptr %f(ptr %self, ptr %args, i64 %n)
  br i1 %mine, label %look, label %other
other:
  ret ptr %given
look:
  %result = phi ptr [ @_Py_NoneStruct, %leave ], [ %given, %run ]
  %need = add i64 %n, 3
  %next = add i64 %at, %need
  %capp = getelementptr i8, ptr @state, i64 8
  %cap = load i64, ptr %capp
  store i64 %next, ptr @state
  %room = icmp ule i64 %next, %cap
  br i1 %room, label %write, label %out
write:
  %logp = getelementptr i8, ptr @state, i64 16
  %log = load ptr, ptr %logp
  %p0 = getelementptr i64, ptr %log, i64 %at
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  store ptr %definition, ptr %p0
  store i64 %n, ptr %p1
  %none = icmp eq ptr %result, @_Py_NoneStruct
  %done = zext i1 %none to i64
  store i64 %done, ptr %p2
  br label %loop
loop:
  %k = phi i64 [ 0, %write ], [ %k1, %body ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %body, label %out
body:
  %from = getelementptr ptr, ptr %args, i64 %k
  %item = load ptr, ptr %from
  call void @Py_IncRef(ptr %item)
  %to = getelementptr ptr, ptr %p3, i64 %k
  store ptr %item, ptr %to
  %k1 = add i64 %k, 1
  br label %loop
out:
  ret ptr %result
}}

; a launch that must not be left out: an error for whoever records
define ptr @flambeau_tape_refuser(ptr %self, ptr %args, i64 %n) {{
entry:
{launched}
  br i1 %mine, label %refuse, label %run
refuse:
  %refusedp = getelementptr i8, ptr @state, i64 40
  store ptr %definition, ptr %refusedp
  %kind = load ptr, ptr @PyExc_RuntimeError
  call void @PyErr_SetString(ptr %kind, ptr @refused)
  ret ptr null
run:
  %result = call ptr %f(ptr %self, ptr %args, i64 %n)
  ret ptr %result
}}

; the addresses of some tensors as bytes; the words that they are put into on the way are enough
define ptr @flambeau_tape_places(ptr %self, ptr %args, i64 %n) {{
entry:
  %words = call ptr @PyLong_AsVoidPtr(ptr %self)
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %body ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %body, label %out
body:
  %tp = getelementptr ptr, ptr %args, i64 %k
{place}
  %to = getelementptr i64, ptr %words, i64 %k
  store i64 %base, ptr %to
  %k1 = add i64 %k, 1
  br label %loop
out:
  %size = mul i64 %n, 8
  %key = call ptr @PyBytes_FromStringAndSize(ptr %words, i64 %size)
  ret ptr %key
}}

; the words of a tape: busy (an address), launches, moves, bases, numbers, then lists of bases,
; moves, numbers and launches
define ptr @flambeau_tape_replay(ptr %self, ptr %args, i64 %n) {{
entry:
  %tape = call ptr @PyLong_AsVoidPtr(ptr %self)
  %busy = load ptr, ptr %tape
  %taken = load i64, ptr %busy
  %isbusy = icmp ne i64 %taken, 0
  br i1 %isbusy, label %refuse, label %begin
refuse:
  %false = call ptr @PyBool_FromLong(i64 0)
  ret ptr %false
begin:
  store i64 1, ptr %busy
  %t1 = getelementptr i64, ptr %tape, i64 1
  %launches = load i64, ptr %t1
  %t2 = getelementptr i64, ptr %tape, i64 2
  %moves = load i64, ptr %t2
  %t3 = getelementptr i64, ptr %tape, i64 3
  %bases = load i64, ptr %t3
  %t4 = getelementptr i64, ptr %tape, i64 4
  %numbers = load i64, ptr %t4
  %basep = getelementptr i64, ptr %tape, i64 5
  br label %bases.loop
bases.loop:
  %b = phi i64 [ 0, %begin ], [ %b1, %bases.body ]
  %bmore = icmp ult i64 %b, %bases
  br i1 %bmore, label %bases.body, label %bases.end
bases.body:
  %tp = getelementptr ptr, ptr %args, i64 %b
{place}
  %bp = getelementptr i64, ptr %basep, i64 %b
  store i64 %base, ptr %bp
  %b1 = add i64 %b, 1
  br label %bases.loop
bases.end:
  %movep = getelementptr i64, ptr %basep, i64 %bases
  br label %moves.loop
moves.loop:
  %m = phi i64 [ 0, %bases.end ], [ %m1, %moves.next ]
  %mmore = icmp ult i64 %m, %moves
  br i1 %mmore, label %moves.body, label %moves.end
moves.body:
  %mw = mul i64 %m, 4
  %mp0 = getelementptr i64, ptr %movep, i64 %mw
  %mp1 = getelementptr i64, ptr %mp0, i64 1
  %mp2 = getelementptr i64, ptr %mp0, i64 2
  %mp3 = getelementptr i64, ptr %mp0, i64 3
  %which = load i64, ptr %mp0
  %by = load i64, ptr %mp1
  %number = load ptr, ptr %mp2
  %fromp = getelementptr i64, ptr %basep, i64 %which
  %from = load i64, ptr %fromp
  %value = add i64 %from, %by
  %kind = load i64, ptr %mp3
  %raw = icmp ne i64 %kind, 0
  br i1 %raw, label %moves.word, label %moves.number
moves.word:
  store i64 %value, ptr %number
  br label %moves.next
moves.number:
  %low = and i64 %value, {(1 << DIGIT) - 1}
  %low32 = trunc i64 %low to i32
  %high = lshr i64 %value, {DIGIT}
  %high32 = trunc i64 %high to i32
  %d0 = getelementptr i8, ptr %number, i64 {DIGITS}
  %d1 = getelementptr i8, ptr %number, i64 {DIGITS + 4}
  store i32 %low32, ptr %d0
  store i32 %high32, ptr %d1
  br label %moves.next
moves.next:
  %m1 = add i64 %m, 1
  br label %moves.loop
moves.end:
  %msize = mul i64 %moves, 4
  %numberp = getelementptr i64, ptr %movep, i64 %msize
  %given = getelementptr ptr, ptr %args, i64 %bases
  br label %numbers.loop
numbers.loop:
  %q = phi i64 [ 0, %moves.end ], [ %q1, %numbers.body ]
  %qmore = icmp ult i64 %q, %numbers
  br i1 %qmore, label %numbers.body, label %numbers.end
numbers.body:
  %qfrom = getelementptr ptr, ptr %given, i64 %q
  %qitem = load ptr, ptr %qfrom
  %qp = getelementptr ptr, ptr %numberp, i64 %q
  %qto = load ptr, ptr %qp
  store ptr %qitem, ptr %qto  ; whoever plays holds it
  %q1 = add i64 %q, 1
  br label %numbers.loop
numbers.end:
  %launchp = getelementptr i64, ptr %numberp, i64 %numbers
  br label %run.loop
run.loop:
  %l = phi i64 [ 0, %numbers.end ], [ %l1, %run.next ]
  %lmore = icmp ult i64 %l, %launches
  br i1 %lmore, label %run.body, label %run.end
run.body:
  %lw = mul i64 %l, 4
  %lp0 = getelementptr i64, ptr %launchp, i64 %lw
  %lp1 = getelementptr i64, ptr %lp0, i64 1
  %lp2 = getelementptr i64, ptr %lp0, i64 2
  %lp3 = getelementptr i64, ptr %lp0, i64 3
  %definition = load ptr, ptr %lp0
  %own = load ptr, ptr %lp1
  %count = load i64, ptr %lp2
  %argv = load ptr, ptr %lp3
  %fp = getelementptr i8, ptr %definition, i64 {function}
  %f = load ptr, ptr %fp
  %result = call ptr %f(ptr %own, ptr %argv, i64 %count)
  %none = icmp eq ptr %result, @_Py_NoneStruct
  br i1 %none, label %run.next, label %stop
run.next:
  call void @Py_DecRef(ptr %result)
  %l1 = add i64 %l, 1
  br label %run.loop
stop:
  store i64 0, ptr %busy
  ret ptr %result
run.end:
  store i64 0, ptr %busy
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}}
"""


NAMES = tuple(
    f"flambeau_tape_{name}" for name in ("state", "none", "recorder", "refuser", "places", "replay")
)


class Flag:
    """A word that says whether somebody plays a tape; native code reads and writes it."""

    def __init__(self) -> None:
        self.word = ctypes.c_int64(0)
        self.address = ctypes.addressof(self.word)

    def is_up(self) -> bool:
        return bool(self.word.value)

    def put_up(self) -> None:
        self.word.value = 1

    def lower(self) -> None:
        self.word.value = 0


class Launch:
    """One launch: a kernel's definition, its arguments, and whether it gave None."""

    __slots__ = ("definition", "arguments", "quiet")

    def __init__(self, definition, arguments, quiet):
        self.definition, self.arguments, self.quiet = definition, arguments, quiet


class Recorder:
    """The native side: whose launches are written down, and what they were. silent: none is run."""

    def __init__(self, addresses: dict, thread: int, silent: bool = False):
        state = ctypes.CFUNCTYPE(ctypes.c_void_p)(addresses["flambeau_tape_state"])()
        self.state = (ctypes.c_int64 * 6).from_address(state)
        self.log = (ctypes.c_int64 * LOG).from_buffer(mmap.mmap(-1, 8 * LOG))  # zeros cost nothing
        self.state[:] = [0, LOG, ctypes.addressof(self.log), thread, silent, 0]

    def stop(self) -> None:
        """Write down no more."""
        self.state[3] = 0

    def refused(self) -> int:
        """The definition of a kernel that must not be left out, if there was one; 0 if not."""
        return self.state[5]

    def launches(self) -> list | None:
        """What was launched, in order; None if the log was too small."""
        end, at, found = self.state[0], 0, []
        while at < min(end, LOG):
            definition, count, quiet = self.log[at : at + 3]
            if at + 3 + count > LOG:
                break
            items = [_taken(place) for place in self.log[at + 3 : at + 3 + count]]
            found.append(Launch(definition, items, bool(quiet)))
            at += 3 + count
        return found if end <= LOG else None


def _taken(place: int) -> Any:
    """The object at an address, whose reference was ours."""
    item = ctypes.cast(place, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(item))
    return item


class Tape:
    """Launches that `replay(*tensors)` makes again: with None, or False if the arena was busy.

    moves: (number of a tensor, bytes behind its begin, launch, argument, word) for each address
    that follows a tensor; word is None, or which of the words of a packed argument it is. numbers:
    (launch, argument) of each number that is handed in behind the tensors. What else a kernel
    returns (a status, an error) ends the replay.
    """

    def __init__(
        self,
        address: int,
        busy: Flag,
        launches: list,
        moves: list,
        bases: int,
        numbers: list | None = None,
    ):
        self.kept: list = [launches, busy]
        self.launches, self.bases = launches, bases
        numbers = numbers or []
        words = [busy.address, len(launches), len(moves), bases, len(numbers), *[0] * bases]
        arguments = [list(launch.arguments) for launch in launches]
        copies: dict = {}
        for base, by, launch, place, word in moves:
            if word is None:
                number = MARK | len(self.kept)
                self.kept.append(number)
                arguments[launch][place] = number
                words += (base, by, id(number), 0)
                continue
            if (launch, place) not in copies:  # words of our own, which nobody else reads
                copies[launch, place] = bytes(bytearray(arguments[launch][place]))
                arguments[launch][place] = copies[launch, place]
            words += (base, by, cpu.place_of(copies[launch, place]) + 8 * word, 1)
        blocks = [(ctypes.c_void_p * max(1, len(given)))(*map(id, given)) for given in arguments]
        words += [ctypes.addressof(blocks[launch]) + 8 * place for launch, place in numbers]
        for launch, given, block in zip(launches, arguments, blocks):
            self.kept += (given, block)
            own = cpu.own_of(launch.definition)
            words += (launch.definition, id(own), len(given), ctypes.addressof(block))
        self.words = (ctypes.c_int64 * len(words))(*words)
        self.replay, self.definition = cpu.bound("replay", address, ctypes.addressof(self.words))


class Places:
    """`key(*tensors)` gives the addresses of some tensors as bytes, in one native call."""

    def __init__(self, address: int, count: int):
        self.words = (ctypes.c_int64 * max(1, count))()
        self.place = ctypes.addressof(self.words)
        self.key, self.definition = cpu.bound("places", address, self.place)
