"""Times of kernels, taken by native code around them, for the profiler.

A builtin looks up its native function at every call (`definition.function` in cpu.py), so putting
another address there while somebody measures costs nothing at other times. The other address is one
of `SLOTS` tiny functions; each reads a clock, calls the kernel of its slot, reads the clock again
and writes what it saw into a log. Python only reads the log when the measuring ends. Meanwhile
builtins have another hash, which follows that address: they must not be keys of dictionaries.

Around kernels of a GPU events are recorded as well, if somebody asks for that (cuda_clock.py).
"""

import ctypes
import mmap
import os
import sys
import threading

from flambeau.runtime import cpu

SLOTS = 1024  # kernels that can be timed at once; others run as ever
ROOM = 128  # of these, for kernels that are made while somebody measures
CAPACITY = 1 << 20  # calls the log holds; later ones are counted, not kept
RECORD = 5  # words of a record: slot, thread, start and end in nanoseconds, pair of events or -1

_CLOCKS = {"linux": 1, "darwin": 8}  # the clock behind time.perf_counter_ns


def is_supported() -> bool:
    return (
        sys.platform in _CLOCKS
        and hasattr(os, "register_at_fork")
        and ctypes.sizeof(ctypes.c_void_p) == 8
    )


def clock_ir() -> str:
    """IR of the functions that stand in for kernels."""
    thunks = "\n".join(
        f"define internal ptr @thunk{k}(ptr %self, ptr %args, i64 %n) {{\n"
        f"  %r = tail call ptr @timed(i64 {k}, ptr %self, ptr %args, i64 %n)\n  ret ptr %r\n}}"
        for k in range(SLOTS)
    )
    table = ", ".join(f"ptr @thunk{k}" for k in range(SLOTS))
    return f"""
declare i32 @clock_gettime(i32, ptr)
declare i64 @pthread_self()
@flambeau_clock_state = internal global [{SLOTS + 4} x i64] zeroinitializer, align 64
; the driver's cuEventRecord, what gives the stream, events, pairs that were used, pairs there are
@flambeau_clock_gpu = internal global [5 x i64] zeroinitializer, align 64
@flags = internal global [{SLOTS} x i64] zeroinitializer, align 64  ; is it a kernel of a GPU?
@thunks = internal constant [{SLOTS} x ptr] [{table}], align 64

define ptr @flambeau_clock_block() {{
  ret ptr @flambeau_clock_state
}}

define ptr @flambeau_clock_events() {{
  ret ptr @flambeau_clock_gpu
}}

define ptr @flambeau_clock_flags() {{
  ret ptr @flags
}}

define internal i64 @pair(i64 %k) {{
entry:
  %flagp = getelementptr i64, ptr @flags, i64 %k
  %flag = load i64, ptr %flagp
  %is = icmp ne i64 %flag, 0
  br i1 %is, label %take, label %none
take:
  %nextp = getelementptr i64, ptr @flambeau_clock_gpu, i64 3
  %next = atomicrmw add ptr %nextp, i64 1 seq_cst
  %roomp = getelementptr i64, ptr @flambeau_clock_gpu, i64 4
  %room = load i64, ptr %roomp
  %fits = icmp ult i64 %next, %room
  br i1 %fits, label %found, label %none
found:
  ret i64 %next
none:
  ret i64 -1
}}

define internal void @mark(i64 %pair, i64 %which) {{
entry:
  %is = icmp sge i64 %pair, 0
  br i1 %is, label %go, label %out
go:
  %record = load ptr, ptr @flambeau_clock_gpu
  %current.p = getelementptr i64, ptr @flambeau_clock_gpu, i64 1
  %current = load ptr, ptr %current.p
  %stream = call ptr %current()
  %events.p = getelementptr i64, ptr @flambeau_clock_gpu, i64 2
  %events = load ptr, ptr %events.p
  %twice = mul i64 %pair, 2
  %at = add i64 %twice, %which
  %eventp = getelementptr ptr, ptr %events, i64 %at
  %event = load ptr, ptr %eventp
  %r = call i32 %record(ptr %event, ptr %stream)
  br label %out
out:
  ret void
}}

define ptr @flambeau_clock_thunks() {{
  ret ptr @thunks
}}

define internal i64 @now() {{
  %t = alloca [2 x i64], align 8
  %r = call i32 @clock_gettime(i32 {_CLOCKS[sys.platform]}, ptr %t)
  %s = load i64, ptr %t
  %np = getelementptr i8, ptr %t, i64 8
  %n = load i64, ptr %np
  %ns = mul i64 %s, 1000000000
  %sum = add i64 %ns, %n
  ret i64 %sum
}}

define internal ptr @timed(i64 %k, ptr %self, ptr %args, i64 %n) noinline {{
entry:
  %state = getelementptr i8, ptr @flambeau_clock_state, i64 0
  %slot = add i64 %k, 4
  %fp = getelementptr i64, ptr %state, i64 %slot
  %f = load ptr, ptr %fp
  %pair = call i64 @pair(i64 %k)
  call void @mark(i64 %pair, i64 0)
  %start = call i64 @now()
  %result = call ptr %f(ptr %self, ptr %args, i64 %n)
  %end = call i64 @now()
  call void @mark(i64 %pair, i64 1)
  %at = atomicrmw add ptr %state, i64 1 seq_cst
  %capp = getelementptr i8, ptr %state, i64 8
  %cap = load i64, ptr %capp
  %room = icmp ult i64 %at, %cap
  br i1 %room, label %write, label %out
write:
  %logp = getelementptr i8, ptr %state, i64 16
  %log = load ptr, ptr %logp
  %word = mul i64 %at, {RECORD}
  %p0 = getelementptr i64, ptr %log, i64 %word
  %p1 = getelementptr i8, ptr %p0, i64 8
  %p2 = getelementptr i8, ptr %p0, i64 16
  %p3 = getelementptr i8, ptr %p0, i64 24
  %me = call i64 @pthread_self()
  store i64 %k, ptr %p0
  store i64 %me, ptr %p1
  store i64 %start, ptr %p2
  store i64 %end, ptr %p3
  %p4 = getelementptr i8, ptr %p0, i64 32
  store i64 %pair, ptr %p4
  br label %out
out:
  ret ptr %result
}}
{thunks}
"""


class KernelClock:
    """Times every kernel that is called between start() and stop(); users are counted."""

    def __init__(self, addresses):
        block = ctypes.CFUNCTYPE(ctypes.c_void_p)
        state = block(addresses["flambeau_clock_block"])()
        thunks = block(addresses["flambeau_clock_thunks"])()
        self.state = (ctypes.c_int64 * (SLOTS + 4)).from_address(state)
        events = block(addresses["flambeau_clock_events"])()
        flags = block(addresses["flambeau_clock_flags"])()
        self.gpu_words = (ctypes.c_int64 * 5).from_address(events)
        self.flags = (ctypes.c_int64 * SLOTS).from_address(flags)
        self.gpu = None  # a GpuClock
        self.thunks = list((ctypes.c_uint64 * SLOTS).from_address(thunks))
        self.slots: list = []  # definitions of builtins by slot
        self.users = 0
        self.memory: mmap.mmap | None = None
        self.lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self):
        """Nobody in a child process asks for times."""
        self.lock = threading.Lock()
        if self.users:
            self.users = 1
            self.stop()

    def start(self, gpu=None):
        """gpu: a GpuClock, if times of its kernels are of interest, too."""
        with self.lock:
            self.users += 1
            if gpu is not None and self.gpu is None:
                self.gpu, self.gpu_words[:] = gpu, gpu.begin()
                self._flag(self.slots if self.users > 1 else [])
            if self.users > 1:
                return
            if self.memory is None:
                size = CAPACITY * RECORD * 8
                # pages cost nothing until they are written; a child process has its own
                self.memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                self.records = (ctypes.c_int64 * (CAPACITY * RECORD)).from_buffer(self.memory)
                self.state[2] = ctypes.addressof(self.records)
            self.state[0], self.state[1] = 0, CAPACITY
            self.slots = []
            cpu.on_new.append(self._divert)
            # the latest first, with room for those that are made meanwhile
            for definition in list(cpu.definitions())[: ROOM - SLOTS - 1 : -1]:
                self._divert(definition)

    def stop(self):
        """No more times; what was logged stays readable until the next start."""
        with self.lock:
            self.users -= 1
            if self.users:
                return
            cpu.on_new.remove(self._divert)
            self.gpu, self.flags[:] = None, [0] * SLOTS
            for k, definition in enumerate(self.slots):
                definition.function = self.state[4 + k] & (1 << 64) - 1

    def _divert(self, definition):
        slot = len(self.slots)
        if slot < SLOTS:
            self.slots.append(definition)
            self.flags[slot] = self._is_timed(definition)
            self.state[4 + slot] = definition.function
            definition.function = self.thunks[slot]

    def _is_timed(self, definition):
        return int(self.gpu is not None and ctypes.addressof(definition) in self.gpu.kernels)

    def _flag(self, slots):
        for k, definition in enumerate(slots):
            self.flags[k] = self._is_timed(definition)

    def position(self):
        """How many calls have been logged; read() takes it as its beginning."""
        return min(self.state[0], CAPACITY)

    def read(self, since=0):
        """(name, thread, start, end, span) of calls, in the order in which they ended.

        span: begin and end on a GPU; None for kernels of the host.
        """
        if self.gpu is not None:
            self.gpu.end()
        words = self.records[since * RECORD : self.position() * RECORD]
        names = [definition.name.decode() for definition in self.slots]
        return [
            (
                names[words[k]],
                words[k + 1] & (1 << 64) - 1,
                *(times := (words[k + 2], words[k + 3])),
                None if self.gpu is None else self.gpu.span(words[k + 4], *times),
            )
            for k in range(0, len(words), RECORD)
        ]

    def lost(self):
        """Calls that found the log full."""
        return max(self.state[0] - CAPACITY, 0)
