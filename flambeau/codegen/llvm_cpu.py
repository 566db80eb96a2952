"""The host target: compile IR to an object, link it, and wrap kernels as CPython builtins.

A kernel is a function `body(block, chunk)`: `block` holds its arguments as 64-bit words, the first
of which points to the launch description (word 0 of that: the number of chunks), the last of which
is the status. `add_entry` writes the function CPython calls: it unpacks Python integers and floats
into the block (the description may also be a bytes object, read in place) and runs all chunks, in
place for one chunk, through the thread pool (without the GIL) for more.
"""

import itertools
import os
import threading

import llvmlite.binding as llvm

from flambeau import config
from flambeau.codegen.loops import I1, I8, I64, PTR, Module, V
from flambeau.codegen.target import Target, current

CODEGEN_VERSION = 1


class Host:
    """The machine this process runs on, as LLVM sees it. Created on first use."""

    def __init__(self):
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.features = llvm.get_host_cpu_features()
        for name in _unwanted(self.features):
            self.features[name] = False
        target = llvm.Target.from_default_triple()
        # The CPU is described by its features alone: where they are equal a cached object is valid.
        self.feature_string = self.features.flatten()
        self.triple = llvm.get_process_triple()
        self.machine = target.create_target_machine(
            cpu="", features=self.feature_string, opt=2, reloc="pic", codemodel="small", jit=True
        )
        self.target = self._target()
        # JITLink puts all parts of an object side by side. The older linker does not, and once a
        # program has gigabytes of memory they may be too far apart, which ends the process.
        self.jit = llvm.create_lljit_compiler(self.machine, use_jit_link=True)
        self.libraries, self.names = [], itertools.count()
        self.lock = threading.Lock()
        self.version = ".".join(map(str, llvm.llvm_version_info))

    def _target(self):
        vector_bytes, scaling = self._vector_bytes(), {}
        if vector_bytes == 64:
            forms = {"float": ("ps", 32), "double": ("pd", 64)}
            scaling = {
                f"<{size // width} x {t}>": f"llvm.x86.avx512.mask.scalef.{letters}.{size}"
                for t, (letters, width) in forms.items()
                for size in (512, 256, 128)
            }
        return Target(self.triple, self.features, vector_bytes, scaling)

    def _vector_bytes(self):
        on = self.features.get
        if on("avx512f") and on("avx512bw") and on("avx512dq") and on("avx512vl"):
            return 64
        return 32 if on("avx2") and config.vector_bits() != 128 else 16

    def identity(self):
        """What a cached object depends on besides its IR."""
        passes = ",".join(add for _, add in PASSES)
        made_for = f"{self.triple}|{self.feature_string}|{self.target.vector_bytes}"
        return f"{self.version}|{made_for}|{passes}|{CODEGEN_VERSION}"


def _unwanted(features):
    """Features that must not be used: the user wants narrower vectors."""
    wide = ("avx512", "avx10", "amx")
    if (config.vector_bits() or 512) < 512:
        yield from [name for name in features if name.startswith(wide) or name == "evex512"]


_host = None
_host_lock = threading.Lock()


def _after_fork():
    """A thread that was about to find out is not in this process."""
    global _host_lock
    _host_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def host_features():
    """What the processor can do, by LLVM's names."""
    return dict(host().features)


def host():
    global _host
    if _host is None:
        with _host_lock:
            if _host is None:
                _host = Host()
    return _host


# Passes, in order; they can be printed (dump.py) and are few, because the IR is already vectorised.
PASSES = (
    ("promote memory to registers", "add_sroa_pass"),
    ("combine instructions", "add_instruction_combine_pass"),
    ("simplify control flow", "add_simplify_cfg_pass"),
)


def optimise(module, upto=None):
    """Run the pass list on a parsed module."""
    h = host()
    builder = llvm.create_pass_builder(
        h.machine, llvm.create_pipeline_tuning_options(speed_level=1)
    )
    manager = llvm.create_new_module_pass_manager()
    for _, add in PASSES[:upto]:
        getattr(manager, add)()
    manager.run(module, builder)
    return module


def parse(ir):
    module = llvm.parse_assembly(ir)
    module.triple = host().triple
    return module


def compile_object(ir):
    """IR text to an object file in memory."""
    with host().lock:
        module = parse(ir)
        return host().machine.emit_object(optimise(module))


def joined_object(texts, public):
    """Several pieces of IR as one object file, of which only public names can be seen."""
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu="", features=host().feature_string, opt=2, reloc="pic", codemodel="default"
    )
    with host().lock:
        whole = parse(texts[0])
        for text in texts[1:]:
            whole.link_in(parse(text))
        for item in (*whole.functions, *whole.global_variables):
            if not item.is_declaration and item.name not in public:
                item.linkage = "internal"
        return machine.emit_object(optimise(whole))


def assembly(ir):
    """The machine code of some IR, as text."""
    with host().lock:
        return host().machine.emit_assembly(optimise(parse(ir)))


def link(image, names, symbols=()):
    """Load an object into this process; returns the addresses of the named functions."""
    h = host()
    with h.lock:
        builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for name, address in symbols:
            builder.import_symbol(name, address)
        for name in names:
            builder.export_symbol(name)
        # a fresh name for every attempt: an interrupted one may have used its name up
        library = builder.link(h.jit, f"kernel{next(h.names)}")
        h.libraries.append(library)  # code lives as long as the process
        return {name: library[name] for name in names}


def _word(fn, block, index):
    return fn.gep(block, index, I64)


def argument_word(fn, block, index, kind):
    """Read argument `index` of the block: p pointer, b bytes, i integer, f float."""
    type = {"p": PTR, "b": PTR, "i": I64, "f": "double"}[kind]
    return fn.load(_word(fn, block, index), type, 8)


BYTES_HEADER = bytes.__basicsize__ - 1  # of CPython's bytes objects: content follows


def _integer(fn, item):
    return fn.call("PyLong_AsLongLong", I64, item, pure=False)


def _bytes(fn, item):
    """Where words lie: inside a bytes object, or at an address."""
    kind = fn.load(fn.gep(item, 1, I64), PTR)
    return fn.if_else(
        fn.pure(f"icmp eq {kind}, @PyBytes_Type", I1),
        lambda: fn.pure(f"ptrtoint {fn.gep(item, BYTES_HEADER, I8)} to i64", I64),
        lambda: _integer(fn, item),
    )


def add_entry(
    module: Module,
    kinds: str,
    body: str = "body",
    name: str = "entry",
    spare=0,
    last=None,
    describe=None,
    answers=False,
    ends=(),
):
    """Write the CPython builtin that launches `body`; kinds has a letter per argument.

    The first one, the description, may be bytes or an address; so may others of kind b.
    spare: words after the status that chunks may leave results in; last: a function of the block
    that is called once all chunks are done; describe(fn, block, number) may write a description of
    its own, where number() reads a last argument beyond those of kinds. answers: is the status a
    result, and not a complaint, which may come later? ends: words of the description; chunks before
    the number that such a word holds are done before those after it begin.
    """
    if current().gpu:
        from flambeau.codegen.llvm_gpu import add_launch  # which is written over this module

        return add_launch(module, kinds, body, spare, last, describe, answers)
    fn = module.function(name, [(PTR, "self"), (PTR, "args"), (I64, "count")], result=PTR)
    _, args, given = fn.params
    block = fn.alloca(I64, len(kinds) + 1 + spare, 8)
    unpack(fn, kinds, args, given, block)
    status = _word(fn, block, len(kinds))
    fn.store(V(fn, I64, "0"), status, 8)
    for k in range(spare):
        fn.store(V(fn, I64, "0"), _word(fn, block, len(kinds) + 1 + k), 8)
    if describe is not None:
        describe(fn, block, last_number(fn, args, given))
    chunks = fn.load(fn.load(block, PTR), I64, 8)
    if ends:
        _run_regions(module, fn, body, block, chunks, ends)
    else:
        run_chunks(fn, body, block, chunks)
    if last is not None:
        fn.line(f"call void @{last}({block})")
    bad = fn.load(status, I64, 8)
    with fn.when(bad != 0):
        number = fn.call("PyLong_FromLongLong", PTR, bad, pure=False)
        fn.line(f"ret {number}")
        fn.open(fn.label("dead"))
    return_none(fn)
    return fn


def last_number(fn, args, given):
    """What reads the last argument of a call, as an integer."""
    return lambda: _integer(fn, fn.load(fn.gep(args, given - 1, PTR), PTR))


def return_none(fn):
    none = V(fn, PTR, "@_Py_NoneStruct")
    fn.call("Py_IncRef", "void", none)
    fn.ret(none)


def unpack(fn, kinds, args, given, block):
    """Arguments of a call as words of the block; returns to Python if one is of a wrong type."""
    with fn.when(given < len(kinds)):  # what is not there must not be read
        fn.call("PyErr_BadArgument", "i32", pure=False)
        fn.line("ret ptr null")
        fn.open(fn.label("dead"))
    wrong = V(fn, I1, "false")
    for k, kind in enumerate(kinds):
        item = fn.load(fn.gep(args, k, PTR), PTR)
        if kind == "f":
            value = fn.call("PyFloat_AsDouble", "double", item, pure=False)
            wrong = wrong | (value == -1.0)
        else:
            value = _bytes(fn, item) if k == 0 or kind == "b" else _integer(fn, item)
            if kind == "i":
                wrong = wrong | (value == -1)
        fn.store(value, _word(fn, block, k), 8)
    with fn.when(wrong):
        error = fn.call("PyErr_Occurred", PTR, pure=False)
        failed, fine = fn.label("failed"), fn.label("fine")
        fn.branch(fn.pure(f"icmp ne {error}, null", I1), failed, fine)
        fn.open(failed)
        fn.line("ret ptr null")
        fn.open(fine)


def run_chunks(fn, body, block, chunks):
    """One chunk here and now; more through the pool, with the GIL released meanwhile."""
    zero = V(fn, I64, "0")

    def here():
        with fn.when(chunks == 1):
            fn.line(f"call void @{body}({block}, {zero})")

    fn.if_else(chunks <= 1, here, lambda: _through_pool(fn, [(body, chunks)], block))


def _through_pool(fn, regions, block):
    state = fn.call("PyEval_SaveThread", PTR, pure=False)
    for body, chunks in regions:
        with fn.when(chunks > 0):
            fn.call("flambeau_pool_run", "void", V(fn, PTR, f"@{body}"), block, chunks)
    fn.call("PyEval_RestoreThread", "void", state)


def _run_regions(module, fn, body, block, chunks, ends):
    """One region of the pool after the other; `ends` says where all but the last one end."""

    def word(fn, block, k):
        return fn.load(fn.gep(fn.load(block, PTR), k, I64), I64, 8)

    regions, low = [], fn.value(0, I64)
    for number, end in enumerate([*ends, None]):
        high = chunks if end is None else word(fn, block, end)
        regions.append((f"region{number}" if number else body, high - low))
        low = high
        if number:
            after = module.function(
                f"region{number}", [(PTR, "block"), (I64, "chunk")], internal=True
            )
            given, chunk = after.params
            chunk = chunk + word(after, given, ends[number - 1])
            after.line(f"call void @{body}({given}, {chunk})")
            after.ret()
    _through_pool(fn, regions, block)


def module_text(module):
    if module.host is not None:
        from flambeau.codegen.llvm_gpu import both_texts

        return both_texts(module)
    return host_text(module, current())


def host_text(module, target):
    """IR that CPython calls."""
    known = "@_Py_NoneStruct = external global i8\n@PyBytes_Type = external global i8\n"
    return known + module.text(target.attributes)
