"""The GPU target: kernels as PTX, and what launches them as host code.

A builder that is asked for a GPU gives two texts (`both_texts`). The first has `kernel(args)`, one
block of words by value: the arguments of a call, where errors are told, which kernel this is, and
the launch description. The second has the `entry` that CPython calls, as for the host; it fills the
same words and hands them to the driver, so a launch is one native call. Long descriptions are put
into memory of the device on the way.

`add_launch` makes a GPU kernel of any `body(block, chunk)` that was written for the host: a thread
per chunk. Builders in `codegen/gpu` write kernels of their own with a `Kernel`, for the very same
arguments and descriptions. Emulated, the same text is host code: a group of threads is a loop (see
`Kernel.threads`), so results can be checked where there is no GPU.
"""

import contextlib
import threading

import llvmlite
import llvmlite.binding as llvm

from flambeau.codegen.gpu.words import WORDS
from flambeau.codegen.llvm_cpu import (
    BYTES_HEADER,
    host,
    host_text,
    last_number,
    return_none,
    unpack,
)
from flambeau.codegen.loops import I1, I8, I32, I64, PTR, Module, V
from flambeau.codegen.target import Target, current

VERSION = 1
SPLIT = "\n;;;; host\n"  # between the two texts
SHORT = 120  # words of a description that travel with the arguments
THREADS = 64  # of a group, where threads run chunks
GROUPS = 1 << 20  # at most; threads go on with further work
TRIPLE = "nvptx64-nvidia-cuda"

# Words of the state that host code finds at @flambeau_device (see runtime/cuda.py).
STREAMS, RING, RING_SIZE, RING_AT, LAUNCH, COPY, WAIT, ERRORS, BLOCKING, LAUNCHES = range(10)
CONTEXT, ENTER, TF32 = 10, 11, 12
STATE_WORDS = 16
INVALID_CONTEXT = 201  # the driver's code: this thread has not used the device yet
ANSWER = 4  # word of the errors where kernels leave what they are asked for


def ptx_target() -> Target:
    """Builders for the host see short vectors: four floats are what a thread loads at once."""
    return Target(TRIPLE, {}, 16, gpu="ptx", words=WORDS)


def emulated_target() -> Target:
    """The host in place of a GPU."""
    return Target(host().triple, {}, 16, gpu="emulated")


class Kernel:
    """A GPU kernel under construction: `fn` is its function, `block` its arguments as a body sees
    them, `description` where its words are.

    kinds: a letter per argument, as for the host; words: of the longest description, which travels
    with the arguments; None for any length. resident: groups that a multiprocessor should hold at
    least, which sets the number of registers.
    """

    def __init__(self, module, kinds, threads=256, words=None, name="kernel", resident=None):
        self.module, self.kinds, self.size = module, kinds, threads
        self.words = SHORT if words is None else words
        self.any_length = words is None
        self.count = len(kinds) + 2 + self.words
        if current().gpu == "ptx":
            fn = module.function(name, [(PTR, "args")])
            fn.head = (
                f"define ptx_kernel void @{name}(ptr byval([{self.count} x i64]) align 16 "
                f'"nvvm.grid_constant" %args){_limits(threads, resident)}'
            )
            self.group, self.groups = _register(fn, "ctaid"), _register(fn, "nctaid")
        else:
            fn = module.function(name, [(PTR, "args"), (I64, "group"), (I64, "groups")])
            self.group, self.groups = fn.params[1:]
        self.fn, self.args = fn, fn.params[0]
        self._unpack()

    def _unpack(self):
        fn, kinds = self.fn, self.kinds
        self.block = fn.alloca(I64, len(kinds) + 1, 8)
        own = fn.gep(self.args, len(kinds) + 2, I64)
        if self.any_length:
            far = self._pointer(0)
            missing = fn.pure(f"icmp eq {far}, null", I1)
            own = fn.select(missing, own, far)
        self.description = own
        fn.store(own, self.block, 8)
        for k, kind in enumerate(kinds[1:], 1):
            value = self._pointer(k) if kind in "pb" else fn.load(self._arg(k), I64, 8)
            fn.store(value, fn.gep(self.block, k, I64), 8)
        self.status = fn.gep(self.block, len(kinds), I64)
        fn.store(fn.value(0, I64), self.status, 8)

    def _arg(self, k):
        return self.fn.gep(self.args, k, I64)

    def _pointer(self, k):
        """An address of the device's memory."""
        return as_global(self.fn, self.fn.load(self._arg(k), PTR, 8))

    def argument(self, k):
        """Argument k as its kind says."""
        type = {"p": PTR, "b": PTR, "i": I64, "f": "double"}[self.kinds[k]]
        return self.fn.load(self.fn.gep(self.block, k, I64), type, 8)

    def word(self, index):
        """A word of the description."""
        return self.fn.load(self.fn.gep(self.description, index, I64), I64, 8)

    @contextlib.contextmanager
    def threads(self, last=False):
        """What every thread of the group does; none goes on before all have done it.

        A kernel is a list of such phases, with loops around them that all threads go through
        alike; what a thread knows from one to the next is in a `Private`. last: nothing follows.
        """
        fn = self.fn
        if current().gpu == "ptx":
            with fn.scope():
                yield _own_number(fn)
            if not last:
                self.barrier()
            return
        with fn.loop(0, self.size) as index:
            yield index

    def barrier(self):
        """All threads of the group wait for one another (on a GPU; phases see to it elsewhere)."""
        self.fn.call("llvm.nvvm.barrier.cta.sync.aligned.all", "void", self.fn.value(0, I32))

    def shared(self, type, count):
        """Memory that the threads of a group share."""
        if current().gpu != "ptx":
            return self.fn.alloca(type, count)
        name = f"shared{len(self.module.variables)}"
        self.module.variables.append(
            f"@{name} = internal addrspace(3) global [{count} x {type}] undef, align 16"
        )
        return V(self.fn, PTR, f"addrspacecast (ptr addrspace(3) @{name} to ptr)")

    def private(self, type, count=1):
        """Variables that every thread has for itself."""
        return Private(self, type, count)

    def done(self):
        """Tell what went wrong, if anything did, and return."""
        fn, n = self.fn, len(self.kinds)
        bad = fn.load(self.status, I64, 8)
        with fn.when(bad != 0):
            errors = self._pointer(n)
            fn.store(fn.load(self._arg(n + 1), I64, 8), fn.gep(errors, 1, I64), 8)
            fn.store(bad, errors, 8)
        fn.ret()


class Private:
    """Variables of each thread, which live from phase to phase."""

    def __init__(self, kernel, type, count):
        self.fn, self.type, self.count = kernel.fn, type, count
        self.emulated = current().gpu != "ptx"
        many = kernel.size * count if self.emulated else 1
        # one by one, so that each can be a register
        self.places = [self.fn.alloca(type, many, 16) for _ in range(1 if self.emulated else count)]

    def _at(self, thread, k):
        if not self.emulated:
            return self.places[k]
        return self.fn.gep(self.places[0], thread * self.count + k, self.type)

    def get(self, thread, k=0):
        return self.fn.load(self._at(thread, k), self.type)

    def set(self, thread, value, k=0):
        self.fn.store(self.fn.value(value, self.type), self._at(thread, k))


def as_global(fn, pointer):
    """A pointer that LLVM knows to be into memory of the device."""
    if current().gpu != "ptx":
        return pointer
    there = fn.pure(f"addrspacecast {pointer} to ptr addrspace(1)", "ptr addrspace(1)")
    return fn.pure(f"addrspacecast {there} to ptr", PTR)


def _register(fn, name):
    value = fn.call(f"llvm.nvvm.read.ptx.sreg.{name}.x", I32)
    return fn.convert("zext", value, I64)


def _limits(threads, resident):
    """Attributes of a kernel."""
    if resident is None:
        return ""
    return f' "nvvm.maxntid"="{threads}" "nvvm.minctasm"="{resident}"'


def _own_number(fn):
    """The number of a thread in its group, read anew for each phase.

    LLVM would keep all places that follow from it in registers, across phases and loops, for the
    whole kernel; so it is told that this might be another number each time.
    """
    value = fn.emit('call i32 asm sideeffect "mov.u32 $0, %tid.x;", "=r"()', I32)
    return fn.convert("zext", value, I64)


def add_launch(module, kinds, body, spare, last, describe, answers):
    """A kernel whose threads run the chunks of a body, and what launches it."""
    if spare or last:
        _shared_block(module, kinds, body, spare, last)
        return
    kernel = Kernel(module, kinds, THREADS)
    fn, chunks = kernel.fn, kernel.word(0)
    with kernel.threads(last=True) as thread:
        first = kernel.group * THREADS + thread
        with fn.loop(first, chunks, kernel.groups * THREADS) as chunk:
            fn.line(f"call void @{body}({kernel.block}, {chunk})")
    kernel.done()
    add_host_entry(module, kernel, describe=describe, answers=answers)


def _shared_block(module, kinds, body, spare, last):
    """The same for bodies that leave something in the block, which all threads then share."""
    kernel = Kernel(module, "p", THREADS, words=0)
    fn = kernel.fn
    block = kernel._pointer(0)
    chunks = fn.load(fn.load(block, PTR, 8), I64, 8)
    with kernel.threads(last=True) as thread:
        first = kernel.group * THREADS + thread
        with fn.loop(first, chunks, kernel.groups * THREADS) as chunk:
            fn.line(f"call void @{body}({block}, {chunk})")
    fn.ret()
    after = Kernel(module, "p", 1, words=0, name="after")
    if last:
        with after.threads(last=True):
            after.fn.line(f"call void @{last}({after._pointer(0)})")
    after.fn.ret()
    module.host = Module()
    SharedEntry(module.host, kinds, spare, kernel, after if last else None).write()


# -- the host's side -------------------------------------------------------------------------------


def add_host_entry(module, kernel, grid=None, describe=None, shared=0, answers=False):
    """What CPython calls to launch a kernel.

    grid(fn, word) gives the number of groups from words of the description; without one there is a
    thread per chunk. shared: bytes of memory that a group shares, beyond what the kernel declares.
    answers: wait for the status of the kernel, and return it unless it is 0.
    """
    module.host = Module()
    Entry(module.host, kernel, grid, describe, shared, answers).write()


class Entry:
    """The function that fills the words of a kernel and launches it."""

    def __init__(self, module, kernel, grid, describe, shared, answers):
        self.fn = fn = module.function(
            "entry", [(PTR, "self"), (PTR, "args"), (I64, "count")], result=PTR
        )
        self.kernel, self.grid, self.describe, self.shared = kernel, grid, describe, shared
        self.answers = answers
        self.own, self.args, self.given = fn.params

    def write(self):
        fn, kernel, kinds = self.fn, self.kernel, self.kernel.kinds
        block = fn.alloca(I64, kernel.count, 16)
        unpack(fn, kinds, self.args, self.given, block)
        self._no_addresses(block)
        for k, kind in enumerate(kinds[1:], 1):
            if kind == "b":
                self._stage_bytes(block, k)
        length = self._length(0)
        if self.describe is not None:
            before = fn.load(block, I64, 8)
            written = self.describe(fn, block, last_number(fn, self.args, self.given))
            kept = fn.load(block, I64, 8) == before
            length = fn.select(kept, length, fn.value(8 * written, I64))
        place = fn.load(block, PTR, 8)
        chunks = fn.load(place, I64, 8)
        with fn.when(chunks > 0):
            self._describe(block, place, length)
            self._launch(block, place, chunks)
            if self.answers:
                self._answer()
        return_none(fn)

    def _answer(self):
        """Wait for the kernel; what it left is the result of the call."""
        fn, state = self.fn, V(self.fn, PTR, "@flambeau_device")
        wait = fn.load(fn.gep(state, WAIT, I64), PTR, 8)
        fn.line(f"call i32 {wait.name}()")
        place = fn.gep(fn.load(fn.gep(state, ERRORS, I64), PTR, 8), ANSWER, I64)
        found = fn.load(place, I64, 8)
        with fn.when(found != 0):
            fn.store(fn.value(0, I64), place, 8)
            fn.line(f"ret {fn.call('PyLong_FromLongLong', PTR, found, pure=False)}")
            fn.open(fn.label("dead"))

    def _no_addresses(self, block):
        """Descriptions of GPU kernels are bytes, never addresses: their length must be known."""
        fn = self.fn
        item = fn.load(self.args, PTR)
        kind = fn.load(fn.gep(item, 1, I64), PTR)
        with fn.when(fn.pure(f"icmp ne {kind}, @PyBytes_Type", I1)):
            fn.call("PyErr_BadArgument", "i32", pure=False)
            fn.line("ret ptr null")
            fn.open(fn.label("dead"))

    def _length(self, k):
        """Bytes in argument k."""
        item = self.fn.load(self.fn.gep(self.args, k, PTR), PTR)
        return self.fn.load(self.fn.gep(item, 2, I64), I64, 8)

    def _stage_bytes(self, block, k):
        """Words of the host that a kernel reads: they are copied, addresses stay what they are."""
        fn = self.fn
        item = fn.load(fn.gep(self.args, k, PTR), PTR)
        kind = fn.load(fn.gep(item, 1, I64), PTR)
        with fn.when(fn.pure(f"icmp eq {kind}, @PyBytes_Type", I1)):
            content = fn.gep(item, BYTES_HEADER, I8)
            there = fn.call("flambeau_stage", PTR, content, self._length(k), pure=False)
            fn.store(there, fn.gep(block, k, I64), 8)

    def _describe(self, block, place, length):
        fn, kernel, n = self.fn, self.kernel, len(self.kernel.kinds)
        state = V(fn, PTR, "@flambeau_device")
        told = fn.load(fn.gep(state, ERRORS, I64), I64, 8)
        told = told + 8 * ANSWER if self.answers else told
        fn.store(told, fn.gep(block, n, I64), 8)
        fn.store(self.own, fn.gep(block, n + 1, I64), 8)
        room = fn.value(8 * kernel.words, I64)
        travels = fn.min(length, room)
        target = fn.gep(block, n + 2, I64)
        fn.line(f"call void @llvm.memcpy.p0.p0.i64({target}, {place}, {travels}, i1 false)")
        fn.module.declare("llvm.memcpy.p0.p0.i64", "void", [PTR, PTR, I64, I1])
        if not kernel.any_length:
            return
        fn.store(fn.value(0, I64), block, 8)
        with fn.when(length > room):
            fn.store(fn.call("flambeau_stage", PTR, place, length, pure=False), block, 8)

    def _launch(self, block, place, chunks):
        fn, kernel = self.fn, self.kernel
        if self.grid is None:
            groups = (chunks + (kernel.size - 1)) / kernel.size
        else:
            groups = self.grid(fn, lambda k: fn.load(fn.gep(place, k, I64), I64, 8))
        launch(fn, "kernel", fn.min(groups, fn.value(GROUPS, I64)), kernel.size, block, self.shared)


class SharedEntry:
    """The function that launches a kernel whose threads share the block of arguments."""

    def __init__(self, module, kinds, spare, kernel, after):
        self.fn = fn = module.function(
            "entry", [(PTR, "self"), (PTR, "args"), (I64, "count")], result=PTR
        )
        self.kinds, self.spare, self.kernel, self.after = kinds, spare, kernel, after
        _, self.args, self.given = fn.params

    def write(self):
        fn, n = self.fn, len(self.kinds)
        words = n + 1 + self.spare
        block = fn.alloca(I64, words, 16)
        unpack(fn, self.kinds, self.args, self.given, block)
        for k in range(n, words):
            fn.store(fn.value(0, I64), fn.gep(block, k, I64), 8)
        place = fn.load(block, PTR, 8)
        chunks = fn.load(place, I64, 8)
        item = fn.load(self.args, PTR)
        length = fn.load(fn.gep(item, 2, I64), I64, 8)
        with fn.when(chunks > 0):
            fn.store(fn.call("flambeau_stage", PTR, place, length, pure=False), block, 8)
            size = fn.value(8 * words, I64)
            given = fn.alloca(I64, 4, 16)
            fn.store(fn.call("flambeau_stage", PTR, block, size, pure=False), given, 8)
            groups = (chunks + (self.kernel.size - 1)) / self.kernel.size
            groups = fn.min(groups, fn.value(GROUPS, I64))
            launch(fn, "kernel", groups, self.kernel.size, given)
            if self.after is not None:
                launch(fn, "after", fn.value(1, I64), 1, given)
        return_none(fn)


def launch(fn, kernel, groups, threads, block, shared=0):
    """Launch a kernel, whose handle is a symbol; a refusal raises."""
    code = fn.call(
        "flambeau_launch",
        I32,
        V(fn, PTR, f"@handle_{kernel}"),
        groups,
        fn.value(threads, I64),
        fn.value(shared, I64),
        block,
        pure=False,
    )
    with fn.when(code != 0):
        fn.call("flambeau_refused", "void", code)
        fn.line("ret ptr null")
        fn.open(fn.label("dead"))


def both_texts(module):
    """The text of a kernel and that of its launch."""
    for function in module.functions:
        function.internal = function.head is None and current().gpu == "ptx"
    known = "\n".join(
        f"@{name} = external global i8"
        for name in ("handle_kernel", "handle_after", "flambeau_device")
        if f"@{name}" in "".join(line for f in module.host.functions for line in f.lines)
    )
    text = known + "\n" + host_text(module.host, host().target)
    return module.text("") + SPLIT + text


# What kernels of one process share: where a launch goes, and words on their way to the device.
_SUPPORT = f"""
@flambeau_device = external global [{STATE_WORDS} x i64]
@PyExc_RuntimeError = external global ptr
@words = private constant [31 x i8] c"CUDA error: launch refused, %i\\00"
declare ptr @PyErr_Format(ptr, ptr, ...)
declare i64 @PyThread_get_thread_ident()

define internal ptr @word(i64 %k) {{
  %p = getelementptr i64, ptr @flambeau_device, i64 %k
  ret ptr %p
}}

define void @flambeau_refused(i32 %code) {{
  %kind = load ptr, ptr @PyExc_RuntimeError
  %r = call ptr (ptr, ptr, ...) @PyErr_Format(ptr %kind, ptr @words, i32 %code)
  ret void
}}

; the stream of this thread: the table has pairs of a thread and its stream, and ends with zeros
define ptr @flambeau_stream() {{
entry:
  %table.p = call ptr @word(i64 {STREAMS})
  %table = load ptr, ptr %table.p
  %none = icmp eq ptr %table, null
  br i1 %none, label %default, label %search
search:
  %me = call i64 @PyThread_get_thread_ident()
  br label %look
look:
  %at = phi ptr [%table, %search], [%next, %on]
  %thread = load i64, ptr %at
  %mine = icmp eq i64 %thread, %me
  br i1 %mine, label %found, label %on
on:
  %next = getelementptr i64, ptr %at, i64 2
  %over = icmp eq i64 %thread, 0
  br i1 %over, label %default, label %look
found:
  %stream.p = getelementptr i64, ptr %at, i64 1
  %stream = load ptr, ptr %stream.p
  ret ptr %stream
default:
  ret ptr null
}}

define ptr @flambeau_stage(ptr %source, i64 %size) {{
entry:
  %at.p = call ptr @word(i64 {RING_AT})
  %ring.p = call ptr @word(i64 {RING})
  %room.p = call ptr @word(i64 {RING_SIZE})
  %copy.p = call ptr @word(i64 {COPY})
  %wait.p = call ptr @word(i64 {WAIT})
  %old = load i64, ptr %at.p
  %room = load i64, ptr %room.p
  %end = add i64 %old, %size
  %full = icmp sgt i64 %end, %room
  br i1 %full, label %again, label %go
again:
  %wait = load ptr, ptr %wait.p
  %w = call i32 %wait()
  br label %go
go:
  %at = phi i64 [%old, %entry], [0, %again]
  %ring = load i64, ptr %ring.p
  %there = add i64 %ring, %at
  %behind = add i64 %at, %size
  %rounded = add i64 %behind, 255
  %next = and i64 %rounded, -256
  store i64 %next, ptr %at.p
  %copy = load ptr, ptr %copy.p
  %stream = call ptr @flambeau_stream()
  %c = call i32 %copy(i64 %there, ptr %source, i64 %size, ptr %stream)
  %result = inttoptr i64 %there to ptr
  ret ptr %result
}}
"""

_DRIVER = f"""
define i32 @flambeau_launch(ptr %kernel, i64 %groups, i64 %threads, i64 %shared, ptr %block) {{
entry:
  %count.p = call ptr @word(i64 {LAUNCHES})
  %count = load i64, ptr %count.p
  %more = add i64 %count, 1
  store i64 %more, ptr %count.p
  %given = alloca ptr, align 8
  store ptr %block, ptr %given
  %g = trunc i64 %groups to i32
  %t = trunc i64 %threads to i32
  %s = trunc i64 %shared to i32
  %launch.p = call ptr @word(i64 {LAUNCH})
  %launch = load ptr, ptr %launch.p
  %stream = call ptr @flambeau_stream()
  %first = call i32 %launch(ptr %kernel, i32 %g, i32 1, i32 1, i32 %t, i32 1, i32 1, i32 %s,
                            ptr %stream, ptr %given, ptr null)
  %stranger = icmp eq i32 %first, {INVALID_CONTEXT}
  br i1 %stranger, label %enter, label %launched
enter:
  %context.p = call ptr @word(i64 {CONTEXT})
  %context = load ptr, ptr %context.p
  %enter.p = call ptr @word(i64 {ENTER})
  %go = load ptr, ptr %enter.p
  %e = call i32 %go(ptr %context)
  %second = call i32 %launch(ptr %kernel, i32 %g, i32 1, i32 1, i32 %t, i32 1, i32 1, i32 %s,
                             ptr %stream, ptr %given, ptr null)
  br label %launched
launched:
  %code = phi i32 [%first, %entry], [%second, %enter]
  %blocking.p = call ptr @word(i64 {BLOCKING})
  %blocking = load i64, ptr %blocking.p
  %waits = icmp ne i64 %blocking, 0
  br i1 %waits, label %wait, label %done
wait:
  %wait.p = call ptr @word(i64 {WAIT})
  %w = load ptr, ptr %wait.p
  %after = call i32 %w()
  ret i32 %after
done:
  ret i32 %code
}}
"""

_EMULATED = f"""
define i32 @flambeau_launch(ptr %kernel, i64 %groups, i64 %threads, i64 %shared, ptr %block) {{
entry:
  %count.p = call ptr @word(i64 {LAUNCHES})
  %count = load i64, ptr %count.p
  %more = add i64 %count, 1
  store i64 %more, ptr %count.p
  %hook.p = call ptr @word(i64 {LAUNCH})
  %hook = load ptr, ptr %hook.p
  %now = icmp eq ptr %hook, null
  br i1 %now, label %go, label %later
later:
  %told = call i32 %hook(ptr %kernel, i64 %groups, ptr %block)
  ret i32 %told
go:
  %any = icmp sgt i64 %groups, 0
  br i1 %any, label %turn, label %done
turn:
  %k = phi i64 [0, %go], [%following, %turn]
  call void %kernel(ptr %block, i64 %k, i64 %groups)
  %following = add i64 %k, 1
  %on = icmp slt i64 %following, %groups
  br i1 %on, label %turn, label %done
done:
  ret i32 0
}}
"""

SUPPORT_NAMES = ("flambeau_launch", "flambeau_stage", "flambeau_stream", "flambeau_refused")


def support_text(emulated):
    """What entries call."""
    return _SUPPORT + (_EMULATED if emulated else _DRIVER)


# -- PTX -------------------------------------------------------------------------------------------

_machines: dict = {}
_lock = threading.Lock()


def _machine(architecture):
    found = _machines.get(architecture)
    if found is None:
        if llvm.llvm_version_info < (22,):
            raise ImportError(
                f"GPUs want llvmlite 0.48 or newer, this is {llvmlite.__version__}: "
                'pip install "flambeau[cuda]"'
            )
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        target = llvm.Target.from_triple(TRIPLE)
        found = _machines[architecture] = target.create_target_machine(
            cpu=architecture, features="+ptx80", opt=3
        )
    return found


def identity(architecture):
    """What a cached kernel depends on besides its text."""
    return f"ptx|{'.'.join(map(str, llvm.llvm_version_info))}|{architecture}|{VERSION}"


def ptx(text, architecture):
    """PTX of the text of a kernel."""
    with _lock:
        machine = _machine(architecture)
        module = llvm.parse_assembly(text)
        module.triple = TRIPLE
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        return machine.emit_assembly(module)
