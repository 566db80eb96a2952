"""Where the compiler meets GPUs: IR in, a builtin that launches a kernel out.

A row's builder for the host is asked for a GPU kernel, unless `codegen/gpu` has one of its own in
its place: the same arguments, the same description, other loops. Kernels are PTX, which the driver
assembles; what CPython calls is host code, as everywhere.
"""

import importlib
import importlib.util
import struct
import time

from flambeau import config
from flambeau.codegen import cache, dump
from flambeau.codegen import target as targets
from flambeau.eager import kernels
from flambeau.runtime import cpu, cuda, cuda_driver
from flambeau.runtime.stacks import alone

# A builder of codegen/gpu takes the place of the host's of the same file and name, and of these.
RENAMED = {
    "build:text_and_nest": "pointwise:build",
    "row_programs:build": "rows:build",
    "row_programs:build_joined": "rows:build_joined",
}
_support: dict = {}  # addresses of what entries call, by the state they read


def start():
    """GPUs of this machine as a runtime, or None."""
    driver = cuda_driver.probe(config.cuda())
    if driver is None:
        return None
    return cuda.CudaDevices(driver, _loading, config.cuda_blocking())


def _compiler():
    from flambeau.codegen import llvm_gpu  # with llvmlite

    return llvm_gpu


def _loading(runtime):
    """How kernels of a GPU are loaded."""

    from flambeau.eager import (  # they need kernels
        cuda_attention,
        cuda_convolutions,
        cuda_fourier,
        cuda_indexing,
        cuda_linalg,
        cuda_products,
        cuda_recurrence,
        cuda_sorting,
    )

    def load(name, build, key):
        return alone(_load, runtime, name, build, key)

    load.target = lambda: _target(runtime)()
    runtime.multiplies = cuda_products.planning(runtime)
    runtime.convolutions = cuda_convolutions.Convolutions(runtime)
    runtime.attention = cuda_attention.Attention(runtime)
    runtime.recurrence = cuda_recurrence.Recurrence(runtime)
    runtime.sorts = cuda_sorting.Sorts(runtime)
    runtime.walks = cuda_indexing.Walks(runtime)
    runtime.transforms = cuda_fourier.Transforms(runtime)
    runtime.decompositions = cuda_linalg.Decompositions(runtime)
    return load


def _target(runtime):
    compiler = _compiler()
    return compiler.emulated_target if runtime.driver.emulated else compiler.ptx_target


def _builder(build):
    """The function that writes the kernel of a GPU."""
    name = build
    if type(build) is not str:
        name = f"{build.__module__.rpartition('.')[2]}:{build.__name__}"
    file, _, function = RENAMED.get(name, name).partition(":")
    if importlib.util.find_spec(f"flambeau.codegen.gpu.{file}") is not None:
        own = getattr(importlib.import_module(f"flambeau.codegen.gpu.{file}"), function, None)
        if own is not None:
            return own
    if type(build) is not str:
        return build
    return getattr(importlib.import_module(f"flambeau.codegen.templates.{file}"), function)


def _load(runtime, name, build, key):
    compiler = _compiler()
    with targets.building_for(_target(runtime)):
        builder = _builder(build)
        found = builder(*key)
    text, nest = (found, None) if type(found) is str else found
    device_text, _, host_text = text.partition(compiler.SPLIT)
    names = [n for n in ("kernel", "after") if f"@handle_{n}" in host_text]
    handles = _handles(runtime, device_text, names) if names else ()
    if dump.seen is not None:
        facts = _facts(runtime, builder, key, handles)
        dump.seen.append(dump.Kernel(name, device_text, nest, facts))
    symbols = [(f"handle_{n}", h) for n, h in zip(names, handles)]
    symbols += [(n, a) for n, a in _support_of(runtime).items() if f"@{n}" in host_text]
    address = kernels.load_functions(host_text, ("entry",), symbols)["entry"]
    kernel = cpu.builtin(name, address, home=runtime)
    runtime.failing[id(cpu.own_of(kernel.__self__))] = name
    if nest is not None:
        kernels.nests[kernel.__self__] = nest
    if type(build) is str:
        kernels.recipes[kernel.__self__] = build, key
    return _checked(runtime.driver, kernel) if runtime.driver.emulated else kernel


def _checked(driver, kernel):
    """A kernel of an emulated device, which refuses what a real one would stumble over."""

    def launch(description, *arguments):
        if type(description) is bytes:
            driver.check(struct.unpack(f"{len(description) // 8}q", description))
        driver.check(arguments)
        return kernel(description, *arguments)

    launch.__self__ = kernel.__self__  # where its definition lies, as of all kernels
    return launch


OWN = "a kernel of its own"
FALLBACK = (
    "a thread per chunk of the host's template: right, but slow where chunks are few and large"
)


def _facts(runtime, builder, key, handles):
    """What `explain` tells of a kernel."""

    def ptx():
        compiler, (major, minor) = _compiler(), runtime.capability()
        with targets.building_for(compiler.ptx_target):
            found = builder(*key)
        text = found if type(found) is str else found[0]
        return compiler.ptx(text.partition(compiler.SPLIT)[0], f"sm_{major}{minor}")

    is_own = builder.__module__.startswith("flambeau.codegen.gpu.")
    facts = {"way": OWN if is_own else FALLBACK}
    for handle in handles[:1]:
        facts |= runtime.driver.kernel_facts(handle)
    return facts | {"ptx": ptx}


def _handles(runtime, text, names):
    """Handles of the kernels of a text."""
    if runtime.driver.emulated:
        found = kernels.load_functions(text, names)
        return [found[n] for n in names]
    return runtime.driver.load(_assembled(runtime, text), names)


def _assembled(runtime, text):
    """PTX of a text, from the cache or from LLVM, as the driver takes it."""
    compiler, began = _compiler(), time.perf_counter()
    major, minor = runtime.capability()
    architecture = f"sm_{major}{minor}"
    key = cache.key_of(text, compiler.identity(architecture))
    image = cache.read(key)
    hit = image is not None
    if not hit:
        image = compiler.ptx(text, architecture).encode() + b"\0"
        cache.write(key, image)
    if kernels.compile_log is not None:
        kernels.compile_log.append(((time.perf_counter() - began) * 1e3, hit))
    return image


def _support_of(runtime):
    """Addresses of what entries of a GPU call, and of its state."""
    place = runtime.state.buffer_info()[0]
    found = _support.get(place)
    if found is None:
        compiler = _compiler()
        text = compiler.support_text(runtime.driver.emulated)
        state = [("flambeau_device", place)]
        found = kernels.load_functions(text, compiler.SUPPORT_NAMES, state)
        found["flambeau_device"] = place
        _support[place] = found
    return found
