"""CRC-32 of large buffers: on another thread, or piece by piece on several.

A checksum takes about as long as the copy from or to the file, and both let other threads run.
`Checksums` works beside a thread that reads or writes in order; `joined` makes the checksum of a
whole from those of its pieces; `crc32` is zlib's, or a quicker kernel where there is one. The owner
of a buffer must stay alive until its checksum has been asked for, or `close` was called.
"""

import contextlib
import sys
import threading
import zlib
from functools import lru_cache
from queue import Empty, SimpleQueue

from flambeau.codegen.templates.checksum import can_fold, fold_ir
from flambeau.eager.kernels import load_functions
from flambeau.runtime.cpu import address_of, native

LARGE = 1 << 17
WORTH = 1 << 25  # bytes after which it pays to load a kernel
POLYNOMIAL = 0xEDB88320  # of CRC-32; the highest bit stands for x**0, the lowest for x**31
ONE = 1 << 31


class _Kernel:
    """The native function that folds blocks, loaded when much has been worked out without it."""

    seen, function, tried = 0, None, False

    def wanted(self, count):
        """The function; None while it is not worth it, and where there is none."""
        self.seen += count
        # a program without other kernels would wait for the compiler longer than for zlib
        if self.tried or self.seen < WORTH or "flambeau.codegen.llvm_cpu" not in sys.modules:
            return self.function
        self.tried = True
        with contextlib.suppress(RuntimeError):
            self.function = self._loaded()
        return self.function

    @staticmethod
    def features():
        """What the processor can do."""
        from flambeau.codegen.llvm_cpu import host  # with llvmlite, on first need

        return host().features

    def _loaded(self):
        if not can_fold(self.features()):
            return None
        return native(load_functions(fold_ir(), ("fold",))["fold"], 3)


_kernel = _Kernel()


def crc32(data):
    """zlib.crc32(data)"""
    if len(data) < LARGE or not isinstance(data, memoryview) or data.readonly:
        return zlib.crc32(data)
    fold = _kernel.wanted(len(data))
    if fold is None:
        return zlib.crc32(data)
    count, folded = len(data) & -64, bytearray(64)
    fold(address_of(data), count, address_of(folded))
    # zlib turns the bits of what it is given to go on from; the fold began with them turned
    return zlib.crc32(data[count:], zlib.crc32(folded, 0xFFFFFFFF))


def _times(a, b):
    """The product of two polynomials, modulo the one of CRC-32."""
    product = 0
    while a:
        if a & ONE:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ POLYNOMIAL if b & 1 else b >> 1  # b times x
    return product


@lru_cache(256)
def _shift(count):
    """The polynomial that moves a checksum past `count` bytes: x**(8 * count)."""
    if count == 0:
        return ONE
    half = _shift(count // 2)
    square = _times(half, half)
    return _times(square, ONE >> 8) if count % 2 else square


def joined(first, second, count):
    """The checksum of two pieces one after the other; the second has `count` bytes."""
    return _times(_shift(count), first) ^ second


class Checksums:
    """A thread that works through buffers in order; small ones are done at once."""

    def __init__(self):
        self.waiting, self.thread = SimpleQueue(), None

    def begin(self, data):
        """A function that gives the checksum, and waits for it if need be."""
        if len(data) < LARGE or not self._has_thread():
            checksum = crc32(data)
            return lambda: checksum
        answer = SimpleQueue()
        self.waiting.put((data, answer))
        return answer.get

    def _has_thread(self):
        if self.thread is None:
            thread = threading.Thread(target=self._work, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads can be had, or the interpreter is about to end
                return False
            self.thread = thread
        return True

    def _work(self):
        while (task := self.waiting.get()) is not None:
            data, answer = task
            answer.put(crc32(data))

    def close(self):
        """Wait until no buffer is being looked at; what has not begun is dropped."""
        if self.thread is None:
            return
        with contextlib.suppress(Empty):
            while True:
                self.waiting.get_nowait()
        self.waiting.put(None)
        self.thread.join()
        self.thread = None
