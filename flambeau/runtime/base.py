"""What a kind of device offers to those who compute on it.

`device.runtime` is a Runtime: pools of memory by size, kernels by template and key, copies of
memory, what code is made for, and whether there is anything to compute at all. The host's is
assembled in eager/kernels.py, where the compiler meets this package; `meta` is one that knows
shapes and dtypes only.
"""

from array import array
from collections.abc import Callable, Hashable
from typing import Any

from flambeau._device import device
from flambeau.runtime.allocator import NO_POOL
from flambeau.runtime.cpu import copy_bytes
from flambeau.runtime.touching import told


class Runtime:
    """Memory and kernels of a kind of device.

    pool_for(nbytes) gives the pool for blocks of a size. load(name, build, key) makes a kernel; it
    takes a function of the key that returns what the compiler wants, or "file:function" of
    codegen/templates, imported on first need. copy(target, source, nbytes) moves memory within the
    device, read(host, source, nbytes) and write(target, host, nbytes) to and from the host.
    """

    computes = True
    is_host = True  # Python sees the memory that kernels see, and kernels may call one another
    # what is planned in another way than the host's
    multiplies: Callable | None = None  # see eager/gemm.py
    convolutions: Any = None  # see eager/convolution.py
    attention: Any = None  # see eager/attention.py
    recurrence: Any = None  # see eager/recurrence.py
    sorts: Any = None  # see eager/sorting.py
    walks: Any = None  # see eager/index_plans.py
    transforms: Any = None  # see eager/fourier.py
    decompositions: Any = None  # see eager/linalg_factors.py
    adds_up = False  # counts of chunks, without asking the host (see eager/masking.py)

    def __init__(
        self,
        pool_for: Callable,
        load: Callable,
        copy: Callable = copy_bytes,
        read: Callable = copy_bytes,
        write: Callable = copy_bytes,
    ):
        self.pool_for, self.load = pool_for, load
        self.copy, self.read, self.write = copy, read, write
        # as many as there are patterns of dtypes and strides; kept for good
        self.kernels: dict = {}

    def part(self, index: int | None) -> "Runtime":
        """The runtime of one device of this kind; of most kinds there is one."""
        return self

    def place(self, d: Any) -> Any:
        """The very device that a description means: of most kinds there is one."""
        return d if d.index is None else device(d.type)

    def target(self) -> Any:
        """What its kernels are made for (codegen/target.py)."""
        return getattr(self.load, "target")()  # noqa: B009

    def given(self, words: array) -> Any:
        """A long description as kernels take it: an address, which the caller keeps alive.

        Whoever records launches keeps it himself, so it is bytes then.
        """
        return words.tobytes() if told else words.buffer_info()[0]

    def kernel(self, name: str, build: Any, *key: Hashable) -> Any:
        """The kernel that build makes for a key; loaded once. name: what profiles call it."""
        full = (build, *key)
        found = self.kernels.get(full)
        if found is None:
            found = self.kernels[full] = self.load(name, build, key)
        return found


def nothing(*args):
    """The kernel of empty tensors, and of all tensors without memory; as others, it takes no
    integers beyond 64 bits.
    """
    for a in args:
        if type(a) is int and not -(1 << 63) <= a < 1 << 63:
            raise OverflowError("int too big to convert")


class Shapes(Runtime):
    """The runtime of `meta`: no memory, nothing to compute."""

    computes = False

    def __init__(self):
        super().__init__(lambda nbytes: NO_POOL, lambda name, build, key: nothing, nothing)
