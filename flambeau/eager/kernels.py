"""Where the compiler meets the runtime: IR in, Python-callable kernel out.

Compiled objects come from the disk cache when they are there. The first kernel of a process also
starts the native side of the thread pool.
"""

import importlib
import time
from functools import partial

from flambeau import _device, _dtype, _layout, _natively, _tensor, config
from flambeau._device import device
from flambeau._tensor import attachment
from flambeau.codegen import cache, dump, object_files
from flambeau.codegen import target as targets
from flambeau.eager.plans import forget_cuts
from flambeau.runtime import base, cpu, descriptors, kernel_clock, threads
from flambeau.runtime.allocator import Pool, host_allocator
from flambeau.runtime.stacks import alone
from flambeau.storage import Storage

_pool = None
_threads_wanted = None  # said before there was a pool
_clock: kernel_clock.KernelClock | None = None
# By identity of a kernel, which is kept: the hash of a builtin follows its address, and that
# changes while kernels are timed.
_bodies: dict = {}
sources: dict = {}  # address of a definition or a function -> (builder, its key, target)
recipes: dict = {}  # the same of kernels of GPUs: ("file:function" of the host's builder, key)
nests: dict = {}  # of pointwise kernels, by the address of their definition
compile_log = None  # a list collects (milliseconds, hit) per kernel while somebody measures


def _compiler():
    """The module that speaks to LLVM; llvmlite loads with the first kernel, not with flambeau."""
    from flambeau.codegen import llvm_cpu

    return llvm_cpu


def _linked(ir, names, symbols=()):
    """Addresses of functions of some IR, whose machine code comes from the cache or from LLVM."""
    start = time.perf_counter()
    key = cache.key_of(ir, _compiler().host().identity())
    found = _linked_from_cache(key, names, symbols)
    hit = found is not None
    if not hit:
        image = _compiler().compile_object(ir)
        cache.write(key, image)
        found = _compiler().link(image, names, symbols)
    if compile_log is not None:
        compile_log.append(((time.perf_counter() - start) * 1e3, hit))
    return found


def _linked_from_cache(key, names, symbols):
    """The same, if the cache has it; an entry that cannot be linked is forgotten."""
    image = cache.read(key)
    if image is None:
        return None
    if object_files.is_whole(image):
        try:
            return _compiler().link(image, names, symbols)
        except (RuntimeError, KeyError):
            pass
    cache.forget(key)
    return None


def pool():
    """The thread pool of this process."""
    if _pool is None:
        alone(_start_pool)
    return _pool


_tensor.start_makers = pool


def _start_pool():
    global _pool
    if _pool is not None:  # another thread came first
        return
    names = "flambeau_pool_run", "flambeau_pool_block", "flambeau_worker"
    addresses = _linked(threads.pool_ir(threads.system(), threads.machine()), names)
    found = threads.Pool(addresses)
    found.entries = [(names[0], addresses[names[0]])]
    if _threads_wanted is not None:
        found.set_num_threads(_threads_wanted)
    _make_natively()
    _pool = found


def _make_natively():
    """From the first kernel on, native code makes layouts, tensors and views."""
    from flambeau.codegen.templates import makers, objects, objects_members  # with llvmlite
    from flambeau.eager import fragments  # which reads rows' modes, and comes later

    classes = (_layout.Layout, _dtype.dtype, _tensor.Tensor, _tensor.View, Storage, Pool)
    slots = [
        ((cls.__name__, name), place)
        for cls in classes
        for name, place in cpu.slot_offsets(cls).items()
    ]
    slots += [(("slice", name), place) for name, place in cpu.slice_offsets().items()]
    slots += [(("member", name), place) for name, place in descriptors.OFFSETS.items()]
    slots.append((("function", "code"), descriptors.place_of_code(_make_natively)))
    addresses = _linked(objects.build(slots), (*objects.NAMES, *objects_members.NAMES))
    named = _layout.NEEDED | _tensor.NEEDED | {"Pool": Pool, "host": device("cpu")}
    own = tuple([named[name] for name in makers.CONSTANTS])
    made = {name: cpu.builtin(name, addresses[name], own) for name in objects.NAMES}
    _layout.make_natively(*[made.pop(name) for name in objects.LAYOUTS])
    _tensor.make_natively(made)
    fragments.use_makers()
    _attach_members(objects_members, addresses, own, dict(slots))
    _natively.loads = partial(alone, _arithmetic)


def _attach_members(members, addresses, own, slots):
    """Native members stand for those of Python, unless a program has put others there."""
    kinds = (
        descriptors.method_type(*[addresses[f"method_{n}"] for n in ("get", "bound", "attribute")]),
        descriptors.field_type(addresses["field_get"], addresses["field_set"]),
    )
    attachment.NATIVE.update(kinds)
    method, field = kinds
    for name, _, _ in members.METHODS:
        for cls in (_tensor.Tensor, Storage):
            for known, function in attachment.own_members(cls, name):
                native = addresses[f"method_{name}"]
                setattr(cls, known, descriptors.member(method, function, function, own, native))
    for name, path in members.FIELDS.items():
        for known, shown in attachment.own_members(_tensor.Tensor, name):
            places = [slots[pair] for pair in zip(("Tensor", "Layout"), path)]
            made = descriptors.member(field, shown, shown.fget, own, 0, *places)
            setattr(_tensor.Tensor, known, made)


def _arithmetic(function, source_of):
    """A function on integers as a builtin."""
    from flambeau.codegen import arithmetic  # with llvmlite

    name = function.__name__
    ir = arithmetic.build(function, source_of, name)
    return cpu.builtin(name, load_functions(ir, (name,))[name], function)


def load_kernel(ir, name="kernel", nest=None, source=None):
    """Compile (or fetch) IR with an `entry` and return it as a builtin."""
    if dump.seen is not None:
        dump.seen.append(dump.Kernel(name, ir, nest))
    names = ("entry", "body") if "void @body(" in ir else ("entry",)
    addresses = load_functions(ir, names)

    def enter(place):
        if nest is not None:
            nests[place] = nest
        if source is not None:
            sources[place] = source

    kernel = cpu.builtin(name, addresses["entry"], enter=enter)
    if CHECKS is not None:
        kernel = CHECKS.watched(kernel, name, nest)
    _bodies[id(kernel)] = addresses.get("body"), kernel
    return kernel


def building_for(target):
    """How a runtime loads kernels that are made for a target (or for what a function says)."""

    def load(name, build, key):
        """A kernel from its builder: a function of the key, or "file:function" of the templates.

        Builders return IR, or (IR, nest) where `explain` can show the nest.
        """
        return alone(_load, target, name, build, key)

    load.target = target if callable(target) else lambda: target
    return load


def _load(target, name, build, key):
    if type(build) is str:
        file, _, function = build.partition(":")
        module = importlib.import_module(f"flambeau.codegen.templates.{file}")
        build = getattr(module, function)
    with targets.building_for(target):
        found = build(*key)
    ir, nest = (found, None) if type(found) is str else found
    return load_kernel(ir, name, nest, (build, key, target) if CHECKS is None else None)


def runtime_of(place):
    """The runtime of the kernel with a definition at an address."""
    return cpu.homes.get(place) or device.runtimes["cpu"]


def python_kernel(name, function, runtime=None):
    """A function of Python as a kernel: its calls can be recorded and made again."""
    address = load_functions(_CALLING, ("flambeau_call",))["flambeau_call"]
    return cpu.builtin(name, address, callee=function, home=runtime)


_CALLING = f"""
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)

define ptr @flambeau_call(ptr %self, ptr %args, i64 %n) {{
  %definition = call ptr @PyLong_AsVoidPtr(ptr %self)
  %place = getelementptr i8, ptr %definition, i64 {cpu.CALLEE}
  %callee = load ptr, ptr %place
  %result = call ptr @PyObject_Vectorcall(ptr %callee, ptr %args, i64 %n, ptr null)
  ret ptr %result
}}
"""


def source_of(place):
    """IR of the kernel with a definition, or of the function, at an address; None if unknown."""
    found = sources.get(place)
    if found is None:
        return None
    build, key, target = found
    with targets.building_for(target):
        ir = build(*key)
    return ir if type(ir) is str else ir[0]


def _host_target():
    return _compiler().host().target


def _cuda():
    from flambeau.eager import cuda_kernels  # with the first question about a GPU

    return cuda_kernels.start()


def _checks():
    """What looks at every launch, if the environment asks for it."""
    if not config.check_level():
        return None
    from flambeau.eager.checking import Checks  # which nothing else needs

    return Checks(host_allocator, config.check_level())


CHECKS = _checks()
_pool_for = host_allocator.pool_for if CHECKS is None else CHECKS.install()
_device.cpu.runtime = base.Runtime(_pool_for, building_for(_host_target))
_device.meta.runtime = base.Shapes()
device.runtimes |= {"cpu": _device.cpu.runtime, "meta": _device.meta.runtime}
device.starters["cuda"] = _cuda
if CHECKS is None:
    _layout.POOLS[device("cpu")] = host_allocator.few


def body_of(kernel):
    """The address of the native function that runs one chunk of a kernel."""
    return _bodies[id(kernel)][0]


def load_functions(ir, names, symbols=()):
    """Compile (or fetch) IR and return the addresses of plain native functions.

    symbols: addresses that it names, beside the thread pool's.
    """
    symbols = [*pool().entries, *symbols]
    return alone(_linked, ir, names, symbols)


def clock():
    """The clock around kernels, for profilers; None where there is none for this platform."""
    global _clock
    if _clock is None and kernel_clock.is_supported():
        names = tuple(f"flambeau_clock_{n}" for n in ("block", "events", "timed"))
        _clock = kernel_clock.KernelClock(load_functions(kernel_clock.clock_ir(), names))
    return _clock


def gpu_clock():
    """The clock around kernels of the current GPU; None where none was used."""
    found = device.runtimes.get("cuda")
    if found is None or not found.parts:
        return None
    from flambeau.eager.cuda_kernels import _support_of
    from flambeau.runtime import cuda_clock  # only for profilers

    runtime = found.part(None)
    if "clock" not in runtime.facts:
        stream = _support_of(runtime)["flambeau_stream"]
        runtime.facts["clock"] = cuda_clock.GpuClock(runtime, stream)
    return runtime.facts["clock"]


def set_num_threads(count):
    """How many threads kernels may use."""
    if type(count) is not int:
        raise RuntimeError(f"set_num_threads expects an int, but got {type(count).__name__}")
    if count <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    alone(_set_num_threads, count)


def _set_num_threads(count):
    global _threads_wanted
    _threads_wanted = count
    if threads.plan_for(count):
        forget_cuts()
    if _pool is not None:
        _pool.set_num_threads(count)
        _pool.ensure_workers()


def get_num_threads():
    if _pool is None:  # no need to start it for that
        return _threads_wanted or config.num_threads()
    return _pool.get_num_threads()
