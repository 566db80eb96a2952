"""Times of kernels, taken by native code around them, for the profiler.

A builtin looks up its native function at every call (`definition.function` in cpu.py), so putting
another address there while somebody measures costs nothing at other times. The other address is
that of a function that reads a clock, calls the kernel (a builtin is handed where its definition
is), reads the clock again and writes what it saw into a log. Python only reads the log when the
measuring ends. Meanwhile builtins have another hash, which follows that address: they must not be
keys of dictionaries.

Around kernels of a GPU events are recorded as well, if somebody asks for that (cuda_clock.py).
"""

import ctypes
import mmap
import os
import sys
import threading

from flambeau.runtime import cpu

CAPACITY = 1 << 20  # calls the log holds; later ones are counted, not kept
RECORD = 5  # words of a record: definition, thread, start, end in nanoseconds, pair of events or -1

_CLOCKS = {"linux": 1, "darwin": 8}  # the clock behind time.perf_counter_ns


def is_supported() -> bool:
    return (
        sys.platform in _CLOCKS
        and hasattr(os, "register_at_fork")
        and ctypes.sizeof(ctypes.c_void_p) == 8
    )


def clock_ir() -> str:
    """IR of the function that stands in for kernels."""
    return f"""
declare i32 @clock_gettime(i32, ptr)
declare i64 @pthread_self()
declare ptr @PyLong_AsVoidPtr(ptr)
; calls so far, how many the log holds, the log
@flambeau_clock_state = internal global [3 x i64] zeroinitializer, align 64
; the driver's cuEventRecord, what gives the stream, events, pairs that were used, pairs there are
@flambeau_clock_gpu = internal global [5 x i64] zeroinitializer, align 64

define ptr @flambeau_clock_block() {{
  ret ptr @flambeau_clock_state
}}

define ptr @flambeau_clock_events() {{
  ret ptr @flambeau_clock_gpu
}}

define internal i64 @pair(ptr %definition) {{
entry:
  %flagp = getelementptr i8, ptr %definition, i64 {cpu.AWAY}
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

define ptr @flambeau_clock_timed(ptr %self, ptr %args, i64 %n) {{
entry:
  %state = getelementptr i8, ptr @flambeau_clock_state, i64 0
  %definition = call ptr @PyLong_AsVoidPtr(ptr %self)
  %fp = getelementptr i8, ptr %definition, i64 {cpu.ENTRY}
  %f = load ptr, ptr %fp
  %pair = call i64 @pair(ptr %definition)
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
  store ptr %definition, ptr %p0
  store i64 %me, ptr %p1
  store i64 %start, ptr %p2
  store i64 %end, ptr %p3
  %p4 = getelementptr i8, ptr %p0, i64 32
  store i64 %pair, ptr %p4
  br label %out
out:
  ret ptr %result
}}
"""


class KernelClock:
    """Times every kernel that is called between start() and stop(); users are counted."""

    def __init__(self, addresses):
        block = ctypes.CFUNCTYPE(ctypes.c_void_p)
        state = block(addresses["flambeau_clock_block"])()
        self.state = (ctypes.c_int64 * 3).from_address(state)
        events = block(addresses["flambeau_clock_events"])()
        self.gpu_words = (ctypes.c_int64 * 5).from_address(events)
        self.gpu = None  # a GpuClock
        self.timed = addresses["flambeau_clock_timed"]
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
            if self.users > 1:
                return
            if self.memory is None:
                size = CAPACITY * RECORD * 8
                # pages cost nothing until they are written; a child process has its own
                self.memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                self.records = (ctypes.c_int64 * (CAPACITY * RECORD)).from_buffer(self.memory)
                self.state[2] = ctypes.addressof(self.records)
            self.state[0], self.state[1] = 0, CAPACITY
            cpu.on_new.append(self._divert)
            for definition in cpu.definitions():
                self._divert(definition)

    def stop(self):
        """No more times; what was logged stays readable until the next start."""
        with self.lock:
            self.users -= 1
            if self.users:
                return
            cpu.on_new.remove(self._divert)
            self.gpu, self.gpu_words[:] = None, [0] * 5
            for definition in cpu.definitions():
                definition.function = definition.entry

    def _divert(self, definition):
        definition.function = self.timed

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
        return [
            (
                cpu.name_of(words[k]),
                words[k + 1] & (1 << 64) - 1,
                *(times := (words[k + 2], words[k + 3])),
                None if self.gpu is None else self.gpu.span(words[k + 4], *times),
            )
            for k in range(0, len(words), RECORD)
        ]

    def lost(self):
        """Calls that found the log full."""
        return max(self.state[0] - CAPACITY, 0)
