"""The thread pool: Python threads parked inside native code, which claim chunks of a kernel.

`flambeau_pool_run(body, block, chunks)` is called by kernels, once for each of their regions.
Chunks are fixed before the threads are known and each is claimed by one atomic instruction, so
results never depend on the number of threads, and the caller never waits for a worker that got no
core. Idle workers spin for a moment, then sleep.
"""

import ctypes
import os
import sys
import threading

from flambeau import config

# Note [Pool protocol]
# Words of the shared block, a cache line each where they are contended:
#   0 generation (44 bits, the first 32 are a futex word), how many take part (from bit 48 on), are
#   chunks counted by all together (bit 63); 8 body, 16 block, 24 chunks: what a job is, in the
#   line that idle workers watch
#   64 next chunk   128 sleeping   192 busy lock
#   272 workers started, 280 threads allowed, 292 stop, 296 spin count
#   1024 + 64 k: a line for each that takes part: a generation (44 bits) and how many of its own
#   chunks of that job are taken (20 bits, all ones when none is left), 8 is it inside?
# Worker k of T (the caller is number 0) owns the chunks from k n / T to (k + 1) n / T, and takes
# them by writing to its line, which hardly anybody else looks at. So a job costs each worker a few
# transfers of cache lines, and the same part of a tensor meets the same core, and its cache, from
# op to op. Who has none left helps the others; the caller takes the chunks of workers that have
# not come, so it never waits for one that has no core.
# More chunks than lines can count are claimed from a counter of all: chunk k < T belongs to worker
# k, and the others to whoever asks next.
# A worker marks its line (inside) before it claims. When no chunk is left the caller waits until no
# line is marked. Who takes part, and how, is read together with the generation, and all lines of a
# job say that none is left before it ends, so one who comes late finds nothing, or helps with the
# next job. Body, block and chunks are read after a claim, and stay until the claimed chunk is done;
# chunks also between two looks at a line, which has not changed if the claim succeeds.
HUGE = 1 << 60
MOST = 256  # threads that may take part
LINES = 1024  # where their lines begin
GENERATIONS = (1 << 44) - 1  # bits of the first word
OWN = (1 << 20) - 1  # bits of a line that count chunks; as a number: none is left

# Note [Where a worker wakes]
# Linux likes to wake a thread on the processor of whoever wakes it, and in a virtual machine it
# takes a halted processor for a busy one, so worker and caller would share a core while another
# idles. Before a sleeping worker is woken, the caller's processor is therefore taken out of the
# worker's set (words 512..639 hold the processors of this process, 640..767 the reduced set, 320
# the number of workers this is done for, 328.. their thread ids).
MOVED = 8  # workers that are kept off the caller's processor

_LINUX_WAIT = """
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %p, i64 128, i32 %last, ptr null)
"""
_LINUX_WAKE = """
  call void @keep_apart(ptr %p)
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %p, i64 129, i32 2147483647)
"""
_FUTEX = {"x86_64": 202, "aarch64": 98}
_GETTID = {"x86_64": 186, "aarch64": 178}
_SETAFFINITY = {"x86_64": 203, "aarch64": 122}

_LINUX_HELPERS = """
declare i32 @sched_getcpu()

define internal void @say_who(ptr %p, i64 %me) {{
entry:
  %few = icmp sle i64 %me, {moved}
  br i1 %few, label %write, label %out
write:
  %tid = call i64 (i64, ...) @syscall(i64 {gettid})
  %slot = sub i64 %me, 1
  %base = getelementptr i8, ptr %p, i64 328
  %at = getelementptr i64, ptr %base, i64 %slot
  store atomic i64 %tid, ptr %at release, align 8
  br label %out
out:
  ret void
}}

define internal void @keep_apart(ptr %p) {{
entry:
  %all = getelementptr i8, ptr %p, i64 512
  %set = getelementptr i8, ptr %p, i64 640
  call void @llvm.memcpy.p0.p0.i64(ptr %set, ptr %all, i64 128, i1 false)
  %cpu = call i32 @sched_getcpu()
  %known = icmp ult i32 %cpu, 1024
  br i1 %known, label %clear, label %out
clear:
  %wide = zext i32 %cpu to i64
  %word = lshr i64 %wide, 6
  %bit = and i64 %wide, 63
  %one = shl i64 1, %bit
  %keep = xor i64 %one, -1
  %at = getelementptr i64, ptr %set, i64 %word
  %old = load i64, ptr %at
  %new = and i64 %old, %keep
  store i64 %new, ptr %at
  %np = getelementptr i8, ptr %p, i64 320
  %n = load atomic i64, ptr %np acquire, align 8
  %tids = getelementptr i8, ptr %p, i64 328
  br label %head
head:
  %k = phi i64 [0, %clear], [%k1, %next]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %one_worker, label %out
one_worker:
  %tp = getelementptr i64, ptr %tids, i64 %k
  %tid = load atomic i64, ptr %tp acquire, align 8
  %there = icmp ne i64 %tid, 0
  br i1 %there, label %move, label %next
move:
  %r = call i64 (i64, ...) @syscall(i64 {setaffinity}, i64 %tid, i64 128, ptr %set)
  br label %next
next:
  %k1 = add i64 %k, 1
  br label %head
out:
  ret void
}}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def _relax(machine):
    if machine in ("x86_64", "AMD64"):
        return "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
    return "", "fence seq_cst"


def pool_ir(system, machine):
    """IR of the pool for an operating system and a kind of processor."""
    declare, pause = _relax(machine)
    if system == "linux" and machine in _FUTEX:
        declare += "\ndeclare i64 @syscall(i64, ...)"
        wait, wake = (t.format(futex=_FUTEX[machine]) for t in (_LINUX_WAIT, _LINUX_WAKE))
        hello, nap = "call void @say_who(ptr %p, i64 %me)", "%y = call i32 @sched_yield()"
        declare += "\ndeclare i32 @sched_yield()" + _LINUX_HELPERS.format(
            moved=MOVED, gettid=_GETTID[machine], setaffinity=_SETAFFINITY[machine]
        )
    elif system == "win32":
        declare += "\ndeclare void @Sleep(i32)"
        wait, wake = "  call void @Sleep(i32 1)", ""
        hello, nap = "", "call void @Sleep(i32 0)"
    else:
        declare += "\ndeclare i32 @usleep(i32)"
        wait, wake = "  %r = call i32 @usleep(i32 200)", ""
        hello, nap = "", "%y = call i32 @sched_yield()"
        declare += "\ndeclare i32 @sched_yield()"
    return f"""
{declare}
@flambeau_pool = internal global [{(LINES + 64 * MOST) // 8} x i64] zeroinitializer, align 64

define ptr @flambeau_pool_block() {{
  ret ptr @flambeau_pool
}}

define internal void @work(ptr %p, i64 %c) {{
  %bodyp = getelementptr i8, ptr %p, i64 8
  %blockp = getelementptr i8, ptr %p, i64 16
  %body = load ptr, ptr %bodyp
  %block = load ptr, ptr %blockp
  call void %body(ptr %block, i64 %c)
  ret void
}}

define internal i64 @take(ptr %p, i64 %who, i64 %word) {{
entry:
  %g = and i64 %word, {GENERATIONS}
  %upper = lshr i64 %word, 48
  %parts = and i64 %upper, 32767
  %ordered = icmp slt i64 %word, 0
  %at = shl i64 %who, 6
  %far = add i64 %at, {LINES}
  %linep = getelementptr i8, ptr %p, i64 %far
  %chunksp = getelementptr i8, ptr %p, i64 24
  %whole = shl i64 %g, 20
  %all = or i64 %whole, {OWN}
  br label %look
look:
  %old = load atomic i64, ptr %linep acquire, align 8
  %was = lshr i64 %old, 20
  %late = icmp ugt i64 %was, %g
  %closed = icmp eq i64 %old, %all
  %none = or i1 %late, %closed
  br i1 %none, label %nothing, label %some
some:
  %n = load atomic i64, ptr %chunksp acquire, align 8
  %fresh = icmp ult i64 %was, %g
  %count = and i64 %old, {OWN}
  %taken = select i1 %fresh, i64 0, i64 %count
  %low = mul i64 %who, %n
  %first = udiv i64 %low, %parts
  %high = add i64 %low, %n
  %end = udiv i64 %high, %parts
  %mine = add i64 %first, %taken
  %chunk = select i1 %ordered, i64 %who, i64 %mine
  %after = add i64 %mine, 1
  %empty = icmp uge i64 %after, %end
  %last = or i1 %ordered, %empty
  %more = add i64 %taken, 1
  %going = or i64 %whole, %more
  %new = select i1 %last, i64 %all, i64 %going
  %pair = cmpxchg ptr %linep, i64 %old, i64 %new seq_cst seq_cst
  %got = extractvalue {{i64, i1}} %pair, 1
  br i1 %got, label %out, label %look
nothing:
  br label %out
out:
  %result = phi i64 [%chunk, %some], [-1, %nothing]
  ret i64 %result
}}

define internal void @drain(ptr %p, i64 %who, i64 %word) {{
entry:
  br label %again
again:
  %c = call i64 @take(ptr %p, i64 %who, i64 %word)
  %some = icmp sge i64 %c, 0
  br i1 %some, label %run, label %out
run:
  call void @work(ptr %p, i64 %c)
  br label %again
out:
  ret void
}}

define internal void @others(ptr %p, i64 %me, i64 %word) {{
entry:
  %upper = lshr i64 %word, 48
  %parts = and i64 %upper, 32767
  br label %head
head:
  %k = phi i64 [1, %entry], [%k1, %body]
  %more = icmp slt i64 %k, %parts
  br i1 %more, label %body, label %out
body:
  %next = add i64 %me, %k
  %beyond = icmp sge i64 %next, %parts
  %around = sub i64 %next, %parts
  %who = select i1 %beyond, i64 %around, i64 %next
  call void @drain(ptr %p, i64 %who, i64 %word)
  %k1 = add i64 %k, 1
  br label %head
out:
  ret void
}}

define internal void @claim(ptr %p) {{
entry:
  %nextp = getelementptr i8, ptr %p, i64 64
  %chunksp = getelementptr i8, ptr %p, i64 24
  br label %again
again:
  %seen = load atomic i64, ptr %nextp acquire, align 8
  %most = load atomic i64, ptr %chunksp monotonic, align 8
  %any = icmp slt i64 %seen, %most
  br i1 %any, label %take, label %out
take:
  %c = atomicrmw add ptr %nextp, i64 1 seq_cst
  %n = load atomic i64, ptr %chunksp monotonic, align 8
  %some = icmp slt i64 %c, %n
  br i1 %some, label %run, label %out
run:
  call void @work(ptr %p, i64 %c)
  br label %again
out:
  ret void
}}

define void @flambeau_worker(ptr %p, i64 %me) {{
entry:
  %sleepp = getelementptr i8, ptr %p, i64 128
  %chunksp = getelementptr i8, ptr %p, i64 24
  %stopp = getelementptr i8, ptr %p, i64 292
  %spinp = getelementptr i8, ptr %p, i64 296
  %at = shl i64 %me, 6
  %far = add i64 %at, {LINES + 8}
  %insidep = getelementptr i8, ptr %p, i64 %far
  {hello}
  br label %idle
idle:
  %before = phi i64 [0, %entry], [%before, %asleep], [%g, %done]
  %last = trunc i64 %before to i32
  %limit = load atomic i32, ptr %spinp monotonic, align 4
  br label %spin
spin:
  %k = phi i32 [0, %idle], [%k1, %pause]
  %word = load atomic i64, ptr %p acquire, align 8
  %g = and i64 %word, {GENERATIONS}
  %new = icmp ne i64 %g, %before
  br i1 %new, label %woken, label %pause
pause:
  {pause}
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, %limit
  br i1 %more, label %spin, label %asleep
asleep:
  %q = atomicrmw add ptr %sleepp, i32 1 seq_cst
{wait}
  %q2 = atomicrmw sub ptr %sleepp, i32 1 seq_cst
  br label %idle
woken:
  %stop = load atomic i32, ptr %stopp acquire, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %out, label %enter
enter:
  %upper = lshr i64 %word, 48
  %parts = and i64 %upper, 32767
  %ok = icmp slt i64 %me, %parts
  br i1 %ok, label %join, label %done
join:
  %i = atomicrmw xchg ptr %insidep, i32 1 seq_cst
  call void @drain(ptr %p, i64 %me, i64 %word)
  %n = load atomic i64, ptr %chunksp monotonic, align 8
  %rest = icmp sgt i64 %n, %parts
  br i1 %rest, label %further, label %leave
further:
  %ordered = icmp slt i64 %word, 0
  br i1 %ordered, label %counted, label %help
counted:
  call void @claim(ptr %p)
  br label %leave
help:
  call void @others(ptr %p, i64 %me, i64 %word)
  br label %leave
leave:
  store atomic i32 0, ptr %insidep release, align 4
  br label %done
done:
  br label %idle
out:
  ret void
}}

define void @flambeau_pool_run(ptr %body, ptr %block, i64 %chunks) {{
entry:
  %p = getelementptr i8, ptr @flambeau_pool, i64 0
  %allowedp = getelementptr i8, ptr %p, i64 280
  %lockp = getelementptr i8, ptr %p, i64 192
  %allowed = load atomic i64, ptr %allowedp monotonic, align 8
  %alone = icmp sle i64 %allowed, 1
  br i1 %alone, label %serial, label %try
try:
  %old = atomicrmw xchg ptr %lockp, i32 1 seq_cst
  %busy = icmp ne i32 %old, 0
  br i1 %busy, label %serial, label %share
serial:
  %c = phi i64 [0, %entry], [0, %try], [%c1, %one]
  %some = icmp slt i64 %c, %chunks
  br i1 %some, label %one, label %out
one:
  call void %body(ptr %block, i64 %c)
  %c1 = add i64 %c, 1
  br label %serial
share:
  %nextp = getelementptr i8, ptr %p, i64 64
  %bodyp = getelementptr i8, ptr %p, i64 8
  %blockp = getelementptr i8, ptr %p, i64 16
  %chunksp = getelementptr i8, ptr %p, i64 24
  %startedp = getelementptr i8, ptr %p, i64 272
  %sleepp = getelementptr i8, ptr %p, i64 128
  %fewer = icmp slt i64 %chunks, %allowed
  %parts = select i1 %fewer, i64 %chunks, i64 %allowed
  %most = mul i64 %parts, {OWN - 1}
  %ordered = icmp sgt i64 %chunks, %most
  %beyond = icmp sgt i64 %chunks, %parts
  %rest = and i1 %beyond, %ordered
  store ptr %body, ptr %bodyp
  store ptr %block, ptr %blockp
  store atomic i64 %chunks, ptr %chunksp monotonic, align 8
  br i1 %rest, label %offer, label %begin
offer:
  store atomic i64 %parts, ptr %nextp seq_cst, align 8
  br label %begin
begin:
  %was = load atomic i64, ptr %p monotonic, align 8
  %number = and i64 %was, {GENERATIONS}
  %g = add i64 %number, 1
  %high = shl i64 %parts, 48
  %numbers = or i64 %g, %high
  %flag = select i1 %ordered, i64 {-(1 << 63)}, i64 0
  %word = or i64 %numbers, %flag
  %before = atomicrmw xchg ptr %p, i64 %word seq_cst
  %s = load atomic i32, ptr %sleepp seq_cst, align 4
  %sleeping = icmp ne i32 %s, 0
  br i1 %sleeping, label %wake, label %mine
wake:
{wake}
  br label %mine
mine:
  call void @drain(ptr %p, i64 0, i64 %word)
  call void @others(ptr %p, i64 0, i64 %word)
  br i1 %rest, label %further, label %close
further:
  call void @claim(ptr %p)
  store atomic i64 {HUGE}, ptr %nextp seq_cst, align 8
  br label %close
close:
  %started = load atomic i64, ptr %startedp monotonic, align 8
  br label %each
each:
  %k = phi i64 [1, %close], [%k1, %next]
  %left = icmp sle i64 %k, %started
  br i1 %left, label %look, label %free
look:
  %at = shl i64 %k, 6
  %far = add i64 %at, {LINES + 8}
  %insidep = getelementptr i8, ptr %p, i64 %far
  br label %wait
wait:
  %w = phi i32 [0, %look], [%w1, %again], [0, %nap]
  %inside = load atomic i32, ptr %insidep seq_cst, align 4
  %none = icmp eq i32 %inside, 0
  br i1 %none, label %next, label %patient
patient:
  %w1 = add i32 %w, 1
  %long = icmp ugt i32 %w1, 5000
  br i1 %long, label %nap, label %again
again:
  {pause}
  br label %wait
nap:
  {nap}
  br label %wait
next:
  %k1 = add i64 %k, 1
  br label %each
free:
  store atomic i32 0, ptr %lockp seq_cst, align 4
  br label %out
out:
  ret void
}}
"""


class _Forking(threading.local):
    """How a child that this thread forks will compute."""

    alone = False  # on one thread, as the workers of a data loader do


forking = _Forking()


_count = 0
MANY = 2  # threads beyond which plans cut smaller pieces for them


def planned():
    """Threads to cut work for, where results do not depend on how it is cut."""
    return _count or config.num_threads()


def plan_for(count):
    """Cut work for so many threads; are cuts other ones then?"""
    global _count
    before, _count = max(MANY, planned()), count
    return max(MANY, count) != before


class Pool:
    """The workers of this process. Started when the first kernel asks for more than one chunk."""

    SPIN = 20000  # pauses before a worker sleeps: some hundreds of microseconds

    def __init__(self, addresses):
        self.worker = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(
            addresses["flambeau_worker"]
        )
        block = ctypes.CFUNCTYPE(ctypes.c_void_p)(addresses["flambeau_pool_block"])
        self.block = block()
        self.allowed = ctypes.c_int64.from_address(self.block + 280)
        self.moved = ctypes.c_int64.from_address(self.block + 320)
        self.there = ctypes.c_int64.from_address(self.block + 272)
        self.started = 0
        self.reset()
        if hasattr(os, "sched_getaffinity"):
            processors = sum(1 << c for c in os.sched_getaffinity(0) if c < 1024)
            ctypes.memmove(self.block + 512, processors.to_bytes(128, "little"), 128)
        self.set_num_threads(config.num_threads())
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.after_fork)

    def reset(self):
        ctypes.memset(self.block, 0, 280)
        ctypes.memset(self.block + 288, 0, 8)
        ctypes.memset(self.block + LINES, 0, 64 * MOST)
        ctypes.memset(self.block + 320, 0, 128)  # no worker to keep off a processor
        ctypes.c_int64.from_address(self.block + 64).value = HUGE
        ctypes.c_int32.from_address(self.block + 296).value = self.SPIN

    def set_num_threads(self, count):
        plan_for(count)
        self.allowed.value = min(count, MOST)

    def get_num_threads(self):
        return _count

    def ensure_workers(self):
        """Start the workers that are allowed and not yet there."""
        while self.started < self.allowed.value - 1:
            self.started += 1
            name = f"flambeau-worker-{self.started}"
            # daemon: a worker never comes back from native code, and must not hold up the exit
            self.there.value = self.started
            self.moved.value = min(self.started, MOVED) if self.alone_elsewhere() else 0
            threading.Thread(
                target=self.worker, args=(self.block, self.started), name=name, daemon=True
            ).start()

    def alone_elsewhere(self):
        """Are there processors for the workers besides the caller's?"""
        return hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1

    def after_fork(self):
        """The child has none of the parent's threads: forget them."""
        had, self.started = self.started, 0
        self.reset()
        if forking.alone:
            self.set_num_threads(1)
        elif had:
            self.ensure_workers()


def machine():
    return os.uname().machine if hasattr(os, "uname") else "AMD64"


def system():
    return sys.platform
