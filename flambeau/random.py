"""Generators of random numbers and their seeds.

A `Generator` is one block of native memory holding PyTorch's mt19937 state, so that sampling
kernels (`codegen/templates/mersenne.py`, which names the words of the block) advance it in place;
its saved form is PyTorch's 5056 bytes, interchangeable in both directions. The same seed gives the
very numbers PyTorch gives on the CPU. The first kernel that draws makes the state of the seed. What
is drawn from a generator lives in `ops/sampling.py`.
"""

import contextlib
import os
import struct
from array import array

from flambeau import _device, _dtype
from flambeau._tensor import Tensor, empty_tensor
from flambeau.runtime import cpu, touching

__all__ = [
    "set_rng_state",
    "get_rng_state",
    "manual_seed",
    "seed",
    "initial_seed",
    "fork_rng",
    "thread_safe_generator",
]

DEFAULT_SEED = 67280421310721  # of a generator nobody has seeded
STATE_WORDS = 624
# The block: chunks (always 1), seed, words left, next position (-1: the state is yet to be made of
# the seed), then a waiting normal (there?, value) as double and as float, then the state.
_HEADER = struct.Struct("<qQqqqdqd")
_NEXT = 3
_BLANK = array("q", bytes(_HEADER.size + 4 * STATE_WORDS))
# PyTorch's saved state: seed, left, seeded, next, state (32 bits in 64), x, y and rho of the
# waiting normal and whether it is there, the same for a float.
_SAVED = struct.Struct("<QiiQ624Q3di4xf?3x")


class Generator:
    """A stream of random numbers with a seed of its own.

    Example:
        >>> g = flambeau.Generator().manual_seed(0)
        >>> flambeau.rand(2, generator=g)
        tensor([0.4963, 0.7682])
    """

    __slots__ = ("_block", "pointer", "__weakref__", "__dict__")

    def __new__(cls, device="cpu"):
        if cls is Generator and device is not None and _device.device(device).type == "cuda":
            cls = CudaGenerator
        return object.__new__(cls)

    def __init__(self, device="cpu"):
        kind = "cpu" if device is None else _device.device(device).type
        if kind == "meta":
            raise RuntimeError("META device type not an accelerator.")
        if kind != "cpu":
            raise RuntimeError(f"Cannot get {kind.upper()} generator without ATen_{kind} library.")
        self._block = _BLANK[:]
        self.pointer = self._block.buffer_info()[0]
        self._restart(DEFAULT_SEED)

    @property
    def _bytes(self):
        return memoryview(self._block).cast("B")

    @property
    def _state(self):
        return self._bytes[_HEADER.size :].cast("I")

    @property
    def device(self):
        return _device.cpu

    def _restart(self, seed):
        """The stream that follows from a seed."""
        _HEADER.pack_into(self._block, 0, 1, seed, 1, -1, 0, 0.0, 0, 0.0)

    def manual_seed(self, seed, /):
        """Start the stream that belongs to a seed; returns the generator."""
        if type(seed) is not int:
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -(2**63) <= seed < 2**64:
            raise ValueError("Overflow when unpacking long long")
        self._restart(seed & (2**64 - 1))
        return self

    def seed(self):
        """Take a seed from the operating system and return it."""
        seed = int.from_bytes(os.urandom(8), "little")
        self._restart(seed)
        return seed

    def initial_seed(self):
        """The seed this stream was started with."""
        return _HEADER.unpack_from(self._block)[1]

    def _save(self):
        if self._block[_NEXT] < 0:
            from flambeau.eager.sampling import kernel  # not before there are ops

            kernel("seed")(self.pointer)
        _, seed, left, position, *normals = _HEADER.unpack_from(self._block)
        has, normal, has_float, float_normal = normals
        state = (seed, left, 1, position, *self._state)
        return _SAVED.pack(*state, 0.0, normal, 0.0, has, float_normal, has_float)

    def _load(self, data):
        seed, left, seeded, position, *rest = _SAVED.unpack(data)
        *state, _, normal, _, has, float_normal, has_float = rest
        # the last condition is ours: PyTorch would read past the end of such a state
        whole = seeded and 0 < left <= STATE_WORDS and position <= STATE_WORDS
        if not whole or (left > 1 and position + left > STATE_WORDS + 1):
            raise RuntimeError("Invalid mt19937 state")
        normals = bool(has), normal if has else 0.0, has_float, float_normal if has_float else 0.0
        _HEADER.pack_into(self._block, 0, 1, seed, left, position, *normals)
        self._state[:] = array("I", [word & 0xFFFFFFFF for word in state])

    def _mark(self):
        """Where the stream is, for _go_back of the same process."""
        return bytes(self._bytes)

    def _go_back(self, mark):
        self._bytes[:] = mark

    def get_state(self):
        """The whole state as a tensor of bytes."""
        data = self._save()
        out = empty_tensor((len(data),), _dtype.uint8, _device.cpu)
        cpu.write_bytes(out.data_ptr(), data)
        return out

    def set_state(self, new_state, /):
        """Continue from a state that get_state (here or in PyTorch) has given."""
        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state.dtype is not _dtype.uint8 or new_state.device is not _device.cpu:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if not new_state._layout.is_contiguous:
            raise RuntimeError("RNG state must be contiguous")
        size = new_state.numel()
        if size != _SAVED.size:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {_SAVED.size} "
                f"but found the input RNG state size to be {size}"
            )
        self._load(cpu.read_bytes(new_state.data_ptr(), size))
        return self

    def clone_state(self):
        """Another generator in the same state."""
        other = type(self)()
        other._bytes[:] = self._bytes
        return other

    def get_offset(self):
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset):
        raise RuntimeError("CPU Generator does not use offset")

    def graphsafe_get_state(self):
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator")

    def graphsafe_set_state(self, state):
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator")

    def __reduce__(self):
        return type(self), (self.device,), self._save()

    def __setstate__(self, saved):
        self._load(saved)

    def __deepcopy__(self, memo):
        return self.clone_state()


class CudaGenerator(Generator):
    """Numbers of a GPU: a seed, and how far its threads have drawn."""

    __slots__ = ("_seed", "_offset", "_device", "_graph")

    def __init__(self, device="cuda"):
        try:
            self._device = _device.resolve(device)
        except AssertionError:
            raise RuntimeError("Cannot get CUDA generator without ATen_cuda library.") from None
        self._seed, self._offset, self._graph = DEFAULT_SEED, 0, None

    @property
    def pointer(self):
        return self  # what kernels of GPUs are called with

    @property
    def device(self):
        return self._device

    def advance(self, increment):
        """(seed, offset, address): where to draw; the next draw begins after it.

        While a graph is captured the first two are found at the address, when it runs.
        """
        if self._graph is not None:
            return self._graph.advance(increment)
        if touching.told:
            touching.touched()  # a seed that would stay what it is
        offset = self._offset
        self._offset = offset + increment
        return self._seed, offset, 0

    def _restart(self, seed):
        self._seed, self._offset = seed, 0

    def initial_seed(self):
        """The seed this stream was started with."""
        return self._seed

    def get_offset(self):
        """How far threads have drawn."""
        return self._offset

    def set_offset(self, offset):
        """Go on from there."""
        self._offset = int(offset)

    def _save(self):
        return _PHILOX.pack(self._seed, self._offset)

    def _load(self, data):
        self._seed, self._offset = _PHILOX.unpack(data)

    def _mark(self):
        return self._save()

    _go_back = _load

    def set_state(self, new_state, /):
        """Continue from a state that get_state (here or in PyTorch) has given."""
        if not isinstance(new_state, Tensor) or new_state.dtype is not _dtype.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if new_state.numel() != _PHILOX.size:
            raise RuntimeError("RNG state is wrong size")
        self._load(cpu.read_bytes(new_state.contiguous().data_ptr(), _PHILOX.size))
        return self

    def clone_state(self):
        """Another generator in the same state."""
        other = type(self)(self._device)
        other._load(self._save())
        return other

    def graphsafe_get_state(self):
        """A generator in this state."""
        return self.clone_state()

    def graphsafe_set_state(self, state):
        """Continue as another generator would."""
        self._load(state._save())
        return self


_PHILOX = struct.Struct("<QQ")
_cuda_generators: dict = {}  # index -> the default one
_cuda_seed: list = []  # of GPUs that nobody has used yet


def cuda_generator(index):
    """The default generator of a GPU."""
    found = _cuda_generators.get(index)
    if found is None:
        found = _cuda_generators[index] = CudaGenerator(_device.device("cuda", index))
        if _cuda_seed:
            found.manual_seed(_cuda_seed[0])
        else:
            found.seed()
    return found


def marks():
    """Where all default generators are, for `go_back_to`; those of GPUs in use among them."""
    for index in getattr(_device.device.runtimes.get("cuda"), "parts", ()):
        cuda_generator(index)
    return [(g, g._mark()) for g in (default_generator, *_cuda_generators.values())]


def go_back_to(found):
    for generator, mark in found:
        generator._go_back(mark)


def seed_gpus(seed):
    """Start the default generators of all GPUs."""
    _cuda_seed[:] = [seed]
    for generator in _cuda_generators.values():
        generator.manual_seed(seed)


default_generator = Generator()
default_generator.seed()


def manual_seed(seed):
    """Start the default generator from a seed.

    Args:
        seed: from -2^63 up to 2^64 - 1; a negative one stands for itself plus 2^64.
    """
    found = default_generator.manual_seed(int(seed))
    seed_gpus(int(seed))
    return found


def seed():
    """Start the default generator from a seed of the operating system's choice and return it."""
    found = default_generator.seed()
    seed_gpus(found)
    return found


def initial_seed():
    """The seed the default generator was started with."""
    return default_generator.initial_seed()


def get_rng_state():
    """The state of the default generator as a tensor of bytes."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Continue the default generator from a state that get_rng_state has given."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type=None
):
    """Inside, draw as one likes; afterwards the default generator is where it was before."""
    if not enabled:
        yield
        return
    if devices:
        _device.resolve(_device.device(device_type or "cuda"))
    if device_type is not None:
        _device.device(device_type)
    found = marks()
    try:
        yield
    finally:
        go_back_to(found)


def thread_safe_generator():
    """The generator of a data loader's worker thread; None (the default one) elsewhere."""
    return None
