"""What the CUDA driver does for us, and what the host does in its place.

`Driver` speaks to NVIDIA's driver through `cuda-bindings`; `Emulated` has the same methods and
keeps the memory of its one device on the host, so that all above can be tested without a GPU.
Handles (streams, events, kernels) are plain integers.
"""

import ctypes
import os
import threading
from typing import Any

from flambeau.errors import AcceleratorError, OutOfMemoryError

ADDRESSES = 1 << 44  # words from here on can only be addresses
MINIMUM = (7, 0)  # compute capability: kernels' arguments are read in place


class Driver:
    """NVIDIA's driver, with the primary context of each device."""

    emulated = False

    def __init__(self):
        from cuda.bindings import driver  # an extra: flambeau[cuda]

        self.bindings: Any = driver
        self.contexts: dict = {}
        self.current: Any = None  # the context of threads that have none yet
        self.local = threading.local()
        self.process = os.getpid()
        self.recording = False  # of a graph
        self.launch_graph: Any = None  # the driver's function
        self.ok(driver.cuInit(0))

    @property
    def api(self):
        """The bindings; a thread that comes for the first time is given the current device."""
        if self.current is not None and getattr(self.local, "context", None) is None:
            self._set(self.contexts.get(0, self.current))
        return self.bindings

    def _set(self, context):
        self.local.context = context
        self.ok(self.bindings.cuCtxSetCurrent(context))

    def ok(self, result):
        """The values of a call; an error code raises."""
        code = result[0]
        if int(code):
            raise self.error(int(code))
        return result[1] if len(result) == 2 else result[1:]

    def error(self, code):
        api = self.api
        found = api.cuGetErrorString(api.CUresult(code))[1]
        words = found.decode() if found else f"unknown error {code}"
        is_memory = code == int(api.CUresult.CUDA_ERROR_OUT_OF_MEMORY)
        kind = OutOfMemoryError if is_memory else AcceleratorError
        return kind(f"CUDA error: {words}")

    def count(self):
        return int(self.ok(self.api.cuDeviceGetCount()))

    def use(self, index):
        """Make a device the one of this thread."""
        context = self.contexts.get(index)
        if context is None:
            place = self.ok(self.bindings.cuDeviceGet(index))
            found = self.ok(self.bindings.cuDevicePrimaryCtxRetain(place))
            context = self.contexts[index] = found
        self.current = context
        self._set(context)

    def attribute(self, index, name):
        """A fact of a device, e.g. MULTIPROCESSOR_COUNT."""
        api = self.api
        found = getattr(api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.ok(api.cuDeviceGetAttribute(found, self.ok(api.cuDeviceGet(index)))))

    def name(self, index):
        found = self.ok(self.api.cuDeviceGetName(256, self.ok(self.api.cuDeviceGet(index))))
        return found.split(b"\0")[0].decode()

    def uuid(self, index):
        found = self.ok(self.api.cuDeviceGetUuid(self.ok(self.api.cuDeviceGet(index))))
        return bytes(found.bytes)

    def memory(self):
        """(free, all) bytes of the current device."""
        return tuple(map(int, self.ok(self.api.cuMemGetInfo())))

    def version(self):
        return int(self.ok(self.api.cuDriverGetVersion()))

    def context(self, index):
        """The handle of a device's context."""
        self.use(index)
        return int(self.contexts[index])

    def address(self, name):
        """The address of a function of the driver."""
        flags = self.api.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_DEFAULT
        return int(self.ok(self.api.cuGetProcAddress(name.encode(), 12000, int(flags)))[0])

    # -- memory ------------------------------------------------------------------------------------
    def allocate(self, nbytes):
        if not self.recording:
            return int(self.ok(self.api.cuMemAlloc(nbytes)))
        back = self.relaxed()
        try:
            return int(self.ok(self.api.cuMemAlloc(nbytes)))
        finally:
            back()

    def free(self, address):
        self.ok(self.api.cuMemFree(address))

    def allocate_pinned(self, nbytes):
        return int(self.ok(self.api.cuMemHostAlloc(nbytes, 1)))  # 1: portable

    def free_pinned(self, address):
        self.ok(self.api.cuMemFreeHost(address))

    def to_device(self, target, source, nbytes, stream):
        self.ok(self.api.cuMemcpyHtoDAsync(target, source, nbytes, stream))

    def to_host(self, target, source, nbytes, stream):
        self.ok(self.api.cuMemcpyDtoHAsync(target, source, nbytes, stream))

    def within(self, target, source, nbytes, stream):
        self.ok(self.api.cuMemcpyDtoDAsync(target, source, nbytes, stream))

    def fill(self, target, value, nbytes, stream):
        self.ok(self.api.cuMemsetD8Async(target, value, nbytes, stream))

    # -- kernels -----------------------------------------------------------------------------------
    def load(self, image, names):
        """Handles of kernels of a piece of PTX or machine code."""
        back = self.relaxed() if self.recording else None
        module = self.ok(self.api.cuModuleLoadData(image))
        if back is not None:
            back()
        return [int(self.ok(self.api.cuModuleGetFunction(module, n.encode()))) for n in names]

    def kernel_facts(self, kernel):
        """What a kernel takes."""
        kinds, ask = self.api.CUfunction_attribute, self.api.cuFuncGetAttribute
        names = {
            "registers": kinds.CU_FUNC_ATTRIBUTE_NUM_REGS,
            "bytes of shared memory": kinds.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
            "bytes that did not fit into registers": kinds.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
        }
        function = self.api.CUfunction(kernel)
        return {name: int(self.ok(ask(kind, function))) for name, kind in names.items()}

    def allow_shared(self, kernel, nbytes):
        """Let a kernel have so much memory that its groups share."""
        kind = self.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.ok(self.api.cuFuncSetAttribute(self.api.CUfunction(kernel), kind, nbytes))

    # -- streams and events ------------------------------------------------------------------------
    def synchronize(self):
        self.ok(self.api.cuCtxSynchronize())

    def new_stream(self, priority=0):
        return int(self.ok(self.api.cuStreamCreateWithPriority(1, priority)))  # 1: non-blocking

    def wait_stream(self, stream):
        self.ok(self.api.cuStreamSynchronize(stream))

    def is_idle(self, stream):
        return self._is_done(self.api.cuStreamQuery(stream)[0])

    def new_event(self, timing, blocking=False):
        return int(self.ok(self.api.cuEventCreate((0 if timing else 2) | (1 if blocking else 0))))

    def free_event(self, event):
        self.api.cuEventDestroy(event)

    def record(self, event, stream):
        self.ok(self.api.cuEventRecord(event, stream))

    def wait_event(self, event):
        self.ok(self.api.cuEventSynchronize(event))

    def stream_waits(self, stream, event):
        self.ok(self.api.cuStreamWaitEvent(stream, event, 0))

    def has_passed(self, event):
        return self._is_done(self.api.cuEventQuery(event)[0])

    def elapsed(self, start, end):
        """Milliseconds between two events."""
        return float(self.ok(self.api.cuEventElapsedTime(start, end)))

    def _is_done(self, code):
        if int(code) == int(self.api.CUresult.CUDA_ERROR_NOT_READY):
            return False
        if int(code):
            raise self.error(int(code))
        return True

    def watched(self, on):
        """Tell a profiler from outside to look, or to stop."""
        self.ok((self.api.cuProfilerStart if on else self.api.cuProfilerStop)())

    # -- graphs ------------------------------------------------------------------------------------
    def launch_hook(self):
        """Launches need no help to be recorded."""
        return None, self.address("cuLaunchKernel")

    def relaxed(self):
        """Let this thread ask for memory while a graph is recorded; returns what goes back."""
        mode = self.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = self.ok(self.api.cuThreadExchangeStreamCaptureMode(mode))
        return lambda: self.ok(self.api.cuThreadExchangeStreamCaptureMode(before))

    def begin_capture(self, stream, mode):
        self.ok(self.api.cuStreamBeginCapture(stream, self.api.CUstreamCaptureMode(mode)))
        self.recording = True

    def end_capture(self, stream):
        self.recording = False
        return int(self.ok(self.api.cuStreamEndCapture(stream)))

    def instantiate(self, graph):
        return int(self.ok(self.api.cuGraphInstantiate(self.api.CUgraph(graph), 0)))

    def play(self, program, stream):
        # called in every step of a compiled program: without the bindings' objects
        if self.launch_graph is None:
            kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
            self.launch_graph = kind(self.address("cuGraphLaunch"))
        if getattr(self.local, "context", None) is None:
            self._set(self.contexts.get(0, self.current))
        code = self.launch_graph(program, stream)
        if code:
            raise self.error(code)

    def free_graph(self, graph, program):
        if program:
            self.api.cuGraphExecDestroy(self.api.CUgraphExec(program))
        if graph:
            self.api.cuGraphDestroy(self.api.CUgraph(graph))


class Emulated:
    """Devices that are really the host; work is done as soon as it is asked for."""

    emulated = True
    recording = False  # libraries have nothing to mind
    api = None
    TOTAL = 1 << 32

    def __init__(self, devices=1):
        self.devices = devices
        self.blocks: dict = {}
        self.process = os.getpid()
        self._clock = 0
        self._used = 0
        self.recorded: list | None = None
        self.graphs: dict = {}

    def count(self):
        return self.devices

    def use(self, index):
        pass

    def attribute(self, index, name):
        facts = {
            "COMPUTE_CAPABILITY_MAJOR": 9,
            "COMPUTE_CAPABILITY_MINOR": 0,
            "MULTIPROCESSOR_COUNT": 4,
            "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 << 10,
            "MAX_SHARED_MEMORY_PER_BLOCK": 48 << 10,
            "L2_CACHE_SIZE": 50 << 20,
            "WARP_SIZE": 32,
        }
        return facts.get(name, 0)

    def name(self, index):
        return "emulated"

    def uuid(self, index):
        return bytes(16)

    def memory(self):
        return self.TOTAL - self._used, self.TOTAL

    def version(self):
        return 13000

    def context(self, index):
        return 0

    def address(self, name):
        if name == "cuLaunchKernel":
            return 0  # launches are at once, unless they are recorded
        stands_for = {"cuMemcpyHtoDAsync": "memcpy"}.get(name, "getpid")  # takes nothing
        return ctypes.cast(getattr(ctypes.CDLL(None), stands_for), ctypes.c_void_p).value

    def allocate(self, nbytes):
        if self._used + nbytes > self.TOTAL:
            raise OutOfMemoryError("CUDA error: out of memory")
        block = (ctypes.c_char * (nbytes + 512))()
        place = (ctypes.addressof(block) + 511) & -512
        self.blocks[place] = block
        self._used += nbytes
        return place

    def free(self, address):
        self._used -= len(self.blocks.pop(address)) - 512

    allocate_pinned, free_pinned = allocate, free

    def check(self, words):
        """No word may be an address of the host: a real device would stop there."""
        for word in words:
            if type(word) is int and ADDRESSES <= word < 1 << 47 and not self._owns(word):
                raise AcceleratorError(f"CUDA error: {word:#x} is an address of the host")

    def _owns(self, address):
        return any(start <= address <= start + len(b) - 512 for start, b in self.blocks.items())

    def to_device(self, target, source, nbytes, stream):
        self._do(ctypes.memmove, target, source, nbytes)

    to_host = within = to_device

    def fill(self, target, value, nbytes, stream):
        self._do(ctypes.memset, target, value, nbytes)

    def _do(self, act, *args):
        """At once, or when a graph that is being recorded runs."""
        if self.recorded is None:
            act(*args)
        else:
            self.recorded.append((act, args))

    def kernel_facts(self, kernel):
        return {"runs on": "the host, in place of a GPU"}

    def allow_shared(self, kernel, nbytes):
        pass

    def synchronize(self):
        pass

    def new_stream(self, priority=0):
        return self.new_event(False)

    def wait_stream(self, stream):
        pass

    wait_event = wait_stream

    def is_idle(self, stream):
        return True

    has_passed = is_idle

    def new_event(self, timing, blocking=False):
        self._clock += 1
        return self._clock

    def free_event(self, event):
        pass

    def record(self, event, stream):
        pass

    def stream_waits(self, stream, event):
        pass

    def elapsed(self, start, end):
        return 0.0

    def watched(self, on):
        pass

    def error(self, code):
        return AcceleratorError(f"CUDA error: {code}")

    # -- graphs: what would be done, kept in a list ------------------------------------------------
    def begin_capture(self, stream, mode):
        self.recorded = []

    def launch_hook(self):
        """(what launches go to while a graph is recorded, its address)."""

        def note(kernel, groups, block):
            words = ctypes.create_string_buffer(ctypes.string_at(block, BLOCK), BLOCK)
            self.recorded.append((_run_groups, (kernel, groups, words)))
            return 0

        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        hook = kind(note)
        return hook, ctypes.cast(hook, ctypes.c_void_p).value

    def end_capture(self, stream):
        found, self.recorded = self.recorded, None
        self.graphs[self.new_event(False)] = found
        return self._clock

    def instantiate(self, graph):
        return graph

    def play(self, program, stream):
        for act, args in self.graphs[program]:
            act(*args)

    def free_graph(self, graph, program):
        self.graphs.pop(graph, None)


BLOCK = 2048  # bytes: no kernel has more words that come with a launch


def _run_groups(kernel, groups, words):
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(kernel)
    for group in range(groups):
        run(ctypes.addressof(words), group, groups)


NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed "
    "a driver from http://www.nvidia.com/Download/index.aspx"
)
FAILED = "CUDA driver initialization failed, you might not have a CUDA gpu."
problems: list = []  # why there is no driver, for those who insist: see torch.cuda.init


def probe(wanted: str):
    """A driver if there is one to be had.

    wanted: "emulated" for the host in its place, "emulated:2" for two such devices.
    """
    kind, _, devices = wanted.partition(":")
    if kind == "emulated":
        return Emulated(int(devices or 1))
    if wanted == "0":
        return None
    try:
        driver = Driver()
        if driver.count():
            return driver
        problems.append("No CUDA GPUs are available")
    except ImportError:
        pass
    except (RuntimeError, OSError) as error:
        problems.append(NO_DRIVER if "not found" in str(error).lower() else f"{FAILED} {error}")
    return None
