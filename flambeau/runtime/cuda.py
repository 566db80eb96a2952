"""A GPU as a runtime: pools of its memory, copies to and from it, and what launches go through.

Kernels are loaded by whoever brings the compiler (eager/cuda_kernels.py). `state` is an array of
words that native launchers read: the streams of threads, where words are put on their way to the
device, addresses of the driver's functions, and where kernels tell of errors.
"""

import os
import threading
from array import array

from flambeau._device import device
from flambeau.runtime import cudnn
from flambeau.runtime.allocator import size_class
from flambeau.runtime.base import Runtime
from flambeau.runtime.cuda_memory import IN_COPY, DeviceAllocator
from flambeau.runtime.switches import switches
from flambeau.runtime.touching import told, touched
from flambeau.storage import borrowed_storage

# The layout of `state` is that of codegen/llvm_gpu.py.
STREAMS, RING, RING_SIZE, RING_AT, LAUNCH, COPY, WAIT, ERRORS, BLOCKING, LAUNCHES = range(10)
CONTEXT, ENTER, TF32 = 10, 11, 12
STATE_WORDS = 16
RING_BYTES = 1 << 24
ORDINAL = "CUDA error: invalid device ordinal"


class CudaRuntime(Runtime):
    """One GPU."""

    is_host = False
    adds_up = True
    is_capturing = False  # does somebody record a graph?

    def __init__(self, driver, index, blocking=False):
        self.driver, self.index = driver, index
        driver.use(index)
        self.allocator = DeviceAllocator(driver, index)
        self.state = array("q", [0] * STATE_WORDS)
        self.errors = driver.allocate_pinned(64)
        self._clear_errors()
        self._fill_state(blocking)
        self.facts: dict = {}  # what others found out about this GPU
        self.failing: dict = {}  # what a kernel is handed as self -> its name
        self.local = threading.local()
        self.streams: dict = {}  # thread -> handle, where it is not the default one
        pool_for = self.allocator.pool_for
        super().__init__(pool_for, None, self._copy, self._read, self._write)

    def _fill_state(self, blocking):
        state, driver = self.state, self.driver
        state[RING], state[RING_SIZE] = driver.allocate(RING_BYTES), RING_BYTES
        state[LAUNCH] = driver.address("cuLaunchKernel")
        state[COPY] = driver.address("cuMemcpyHtoDAsync")
        state[WAIT] = driver.address("cuCtxSynchronize")
        state[CONTEXT], state[ENTER] = driver.context(self.index), driver.address("cuCtxSetCurrent")
        state[ERRORS], state[BLOCKING] = self.errors, int(blocking)
        switches.keep(state, TF32)

    @property
    def stream(self):
        """The handle of the stream that work of this thread goes to."""
        return self.streams.get(threading.get_ident(), 0) if self.streams else 0

    @property
    def allows_tf32(self):
        """May products of float32 round their operands?"""
        return bool(self.state[TF32])

    def set_stream(self, handle):
        if handle != self.stream:
            self.put_stream(handle)
            self.allocator.choose(handle or None)

    def put_stream(self, handle, thread=None):
        """The same, without a word to the allocator."""
        me = threading.get_ident() if thread is None else thread
        if handle:
            self.streams[me] = handle
            if not hasattr(self.local, "end"):
                self.local.end = _End(self, me)
        else:
            self.streams.pop(me, None)
        pairs = [word for pair in self.streams.items() for word in pair]
        self.table = array("q", [*pairs, 0, 0])  # which native code reads
        self.state[STREAMS] = self.table.buffer_info()[0] if pairs else 0

    def cudnn(self):
        """cuDNN on this GPU, loaded when it is first asked for; None without it."""
        if "cudnn" not in self.facts:
            self.facts["cudnn"] = cudnn.start(self)
        return self.facts["cudnn"]

    def capability(self):
        ask = self.driver.attribute
        names = "COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR"
        return tuple(ask(self.index, name) for name in names)

    def given(self, words):
        return words.tobytes()

    # -- copies ------------------------------------------------------------------------------------
    def _copy(self, target, source, nbytes):
        if told:
            touched()
        if nbytes:
            self.driver.within(target, source, nbytes, self.stream)

    def _read(self, host, source, nbytes):
        if told:
            touched()
        if nbytes:
            self.driver.to_host(host, source, nbytes, self.stream)
        self.synchronize_stream()

    def _write(self, target, host, nbytes):
        if told:
            touched()
        if nbytes:
            self._tell()
            self.driver.to_device(target, host, nbytes, self.stream)
            self.driver.wait_stream(self.stream)  # the host's memory may be gone soon

    def wait_for(self, stream):
        """Work of another stream (None, 1: the default one) comes after that of this one."""
        other = stream if stream not in (None, 1) else 0
        if other != self.stream:
            event = self.driver.new_event(False)
            self.driver.record(event, self.stream)
            self.driver.stream_waits(other, event)
            self.driver.free_event(event)

    # -- waiting -----------------------------------------------------------------------------------
    def _tell(self):
        """Somebody waits for this GPU."""
        on_wait = device.runtimes["cuda"].on_wait
        if on_wait is not None:
            on_wait()

    def synchronize(self):
        self.driver.synchronize()
        self.check()

    def synchronize_stream(self):
        self._tell()
        self.driver.wait_stream(self.stream)
        self.check()

    def check(self):
        """Raise what a kernel has told since somebody last asked."""
        from flambeau.runtime.cpu import string_words

        code, kernel = string_words(self.errors, 2)
        if code:
            self._clear_errors()
            name = self.failing.get(kernel, "a kernel")
            raise IndexError(
                f"{name}: index out of range in self. It was found on the GPU, after the call had "
                "returned; set CUDA_LAUNCH_BLOCKING=1 to see which call it was."
            )

    def _clear_errors(self):
        from flambeau.runtime.cpu import write_bytes

        write_bytes(self.errors, bytes(64))


class _End:
    """Goes when its thread does, with what the thread had chosen: others may get its number."""

    def __init__(self, runtime, thread):
        self.runtime, self.thread = runtime, thread

    def __del__(self):
        if self.thread in self.runtime.streams:
            self.runtime.put_stream(0, self.thread)
            self.runtime.allocator.choose(None, self.thread)


class Forked(Runtime):
    """GPUs in a copy of a process that has used them: the driver does not work there."""

    parts: dict = {}
    current = 0
    on_wait = None

    def __init__(self, driver):
        self.driver = driver

    def is_pinned(self, address):
        return False

    def part(self, index):
        raise RuntimeError(IN_COPY)

    place = part


class CudaDevices(Runtime):
    """All GPUs: what `device("cuda")` means is the current one."""

    def __init__(self, driver, load_for, blocking=False):
        self.driver, self.blocking, self.load_for = driver, blocking, load_for
        self.parts: dict = {}
        self.pinned_blocks: dict = {}  # address -> size
        self.pinned_free: dict = {}  # size -> addresses
        self.pinned_busy: dict = {}  # address -> an event behind the last copy
        self.local = threading.local()
        self.on_wait = None  # called where the host waits: see cuda/debugging.py
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self):
        if self.parts and device.runtimes.get("cuda") is self:
            device.runtimes["cuda"] = Forked(self.driver)
            for runtime in self.parts.values():
                runtime.allocator.abandon()

    @property
    def current(self):
        """The number of this thread's GPU."""
        return getattr(self.local, "current", 0)

    def use(self, index):
        """Make a GPU the current one of this thread."""
        if not 0 <= index < self.driver.count():
            raise RuntimeError(ORDINAL)
        self.local.current = index
        self.driver.use(index)

    def pinned(self, nbytes):
        """A storage of the host that GPUs copy from and to by themselves."""
        runtime = self.part(None)
        size = size_class(max(nbytes, 1))
        free = self.pinned_free.setdefault(size, [])
        address = free.pop() if free else runtime.driver.allocate_pinned(size)
        event = self.pinned_busy.pop(address, None)
        if event is not None:  # copies from it may be under way
            runtime.driver.wait_event(event)
            runtime.driver.free_event(event)
        self.pinned_blocks[address] = size
        storage = borrowed_storage(address, nbytes, None)
        storage.give = free.append
        return storage

    def is_pinned(self, address):
        return address in self.pinned_blocks

    def start_copy(self, place, target, source, nbytes, tensor):
        """From pinned memory, without waiting; the block is not used again before it is done."""
        runtime, driver, block = self.part(place.index), self.driver, tensor._storage.pointer
        if told:
            touched()
        if nbytes:
            driver.to_device(target, source, nbytes, runtime.stream)
            if block not in self.pinned_busy:
                self.pinned_busy[block] = driver.new_event(False)
            driver.record(self.pinned_busy[block], runtime.stream)

    def part(self, index):
        """The runtime of one GPU."""
        found = self.parts.get(self.current if index is None else index)
        return self._start(index) if found is None else found

    def _start(self, index):
        index = self.current if index is None else index
        if not 0 <= index < self.driver.count():
            raise RuntimeError(ORDINAL)
        self.parts[index] = found = CudaRuntime(self.driver, index, self.blocking)
        found.load = self.load_for(found)
        return found

    def place(self, d):
        """The very device that a description of one means."""
        index = self.current if d.index is None else d.index
        if index not in self.parts:
            self._start(index)
        return d if d.index is not None else device("cuda", index)
