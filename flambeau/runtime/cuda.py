"""A GPU as a runtime: pools of its memory, copies to and from it, and what launches go through.

Kernels are loaded by whoever brings the compiler (eager/cuda_kernels.py). `state` is an array of
words that native launchers read: the current stream, where words are put on their way to the
device, addresses of the driver's functions, and where kernels tell of errors.
"""

import threading
from array import array

from flambeau._device import device
from flambeau.runtime.base import Runtime
from flambeau.runtime.cuda_memory import DeviceAllocator

# The layout of `state` is that of codegen/llvm_gpu.py.
STREAM, RING, RING_SIZE, RING_AT, LAUNCH, COPY, WAIT, ERRORS, BLOCKING, LAUNCHES = range(10)
CONTEXT, ENTER = 10, 11
STATE_WORDS = 16
RING_BYTES = 1 << 24


class CudaRuntime(Runtime):
    """One GPU."""

    runs_programs = False

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

    @property
    def stream(self):
        """The handle of the stream that work goes to."""
        return self.state[STREAM]

    def set_stream(self, handle):
        self.state[STREAM] = handle

    def capability(self):
        ask = self.driver.attribute
        names = "COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR"
        return tuple(ask(self.index, name) for name in names)

    def given(self, words):
        return words.tobytes()

    # -- copies ------------------------------------------------------------------------------------
    def _copy(self, target, source, nbytes):
        if nbytes:
            self.driver.within(target, source, nbytes, self.stream)

    def _read(self, host, source, nbytes):
        if nbytes:
            self.driver.to_host(host, source, nbytes, self.stream)
        self.synchronize_stream()

    def _write(self, target, host, nbytes):
        if nbytes:
            self.driver.to_device(target, host, nbytes, self.stream)
            self.driver.wait_stream(self.stream)  # the host's memory may be gone soon

    # -- waiting -----------------------------------------------------------------------------------
    def synchronize(self):
        self.driver.synchronize()
        self.check()

    def synchronize_stream(self):
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


class CudaDevices(Runtime):
    """All GPUs: what `device("cuda")` means is the current one."""

    def __init__(self, driver, load_for, blocking=False):
        self.driver, self.blocking, self.load_for = driver, blocking, load_for
        self.parts: dict = {}
        self.current = 0

    def part(self, index):
        """The runtime of one GPU."""
        found = self.parts.get(self.current if index is None else index)
        return self._start(index) if found is None else found

    def _start(self, index):
        index = self.current if index is None else index
        if not 0 <= index < self.driver.count():
            raise RuntimeError("CUDA error: invalid device ordinal")
        self.parts[index] = found = CudaRuntime(self.driver, index, self.blocking)
        found.load = self.load_for(found)
        return found

    def place(self, d):
        """The very device that a description of one means."""
        index = self.current if d.index is None else d.index
        if index not in self.parts:
            self._start(index)
        return d if d.index is not None else device("cuda", index)
