"""Frozen weights are packed once.

Products and convolutions lay their weights out anew at every call. Where a program wants no
gradients its parameters are the same from call to call, as a rule: then a tape of its own packs
them into memory that the program keeps, and the products of the main tape read them there. Before
each replay the storages of these parameters are looked at: another storage, another version, or
memory that somebody outside may write to without saying so means packing again.
"""

import time
from typing import Any, NamedTuple

from flambeau._device import device
from flambeau._tensor import empty_like_layout
from flambeau.codegen.templates import gemm as template
from flambeau.compiler import recording
from flambeau.compiler.lifetimes import padded
from flambeau.compiler.recording import Recording, base_of
from flambeau.eager import gemm, kernels
from flambeau.runtime import cpu
from flambeau.runtime.tapes import Launch

LEAST = 1 << 14  # bytes that are worth it
PACKERS = ("convolution_strips", "convolution_spread_weights")
COLUMNS, SCRATCH, SLOTS = 3, 4, 5  # arguments of a product
WEIGHTS, ROOM = 3, 5  # of a convolution: scratch behind the weights


class _Packed(NamedTuple):
    """A launch that packs, into `nbytes` at a place, and the one that reads it with scratch."""

    base: int
    nbytes: int
    pack: Any  # place -> Launch
    at: int  # number of the launch that reads
    read: Any  # (place, scratch) -> Launch
    scratch: int = 0


class Kept:
    """Packed weights of a program.

    memory: a tensor of bytes; which: the inputs that are packed in it.
    """

    def __init__(self, which: list, tape: Any, memory: Any) -> None:
        self.which, self.tape, self.memory = which, tape, memory
        self.held: tuple = ()
        self.versions: list = []

    def fill(self, held: tuple, inputs: tuple) -> None:
        """Pack what the storages hold now."""
        self.held, versions = (), [s.version for s in held]
        while (done := self.tape.replay(*inputs, self.memory, recording.ARENA.memory)) is not None:
            if done is not False or recording.ARENA.is_recording_here():
                return
            time.sleep(0)  # another thread plays a tape
        self.held, self.versions = held, versions

    def holds(self, held: tuple) -> bool:
        """Are the weights in these storages packed, as they are?"""
        for s in held:
            if getattr(s, "owner", None) is not None:
                return False  # x.data, arrays: writes may go unsaid
        return held == self.held and [s.version for s in held] == self.versions


def keep(run: Recording, frozen: set) -> Kept | None:
    """Let a recording read packed weights. frozen: bases that do not change between calls.

    The memory becomes the last base of the recording.
    """
    found = [p for k in range(len(run.launches)) if (p := _packed(run, k, frozen))]
    if not found:
        return None
    size = sum(padded(p.nbytes) for p in found)
    scratch = max(p.scratch for p in found)
    memory = empty_like_layout(recording.plain_bytes(size + scratch))
    place, start = memory._storage.pointer, memory._storage.pointer + size
    once = Recording([*run.bases, base_of(memory)])
    launches = list(run.launches)
    gone = set()
    for p in found:
        once.launches.append(p.pack(place))
        if launches[p.at - 1].definition == once.launches[-1].definition:
            gone.add(p.at - 1)  # it was a launch of its own
        launches[p.at] = p.read(place, start)
        place += padded(p.nbytes)
    run.launches = [x for k, x in enumerate(launches) if k not in gone]
    run.add_base(memory)
    return Kept(sorted({p.base for p in found}), once.tape([], {}), memory)


def _packed(run, k, frozen):
    launch = run.launches[k]
    name = cpu.name_of(launch.definition)
    if name == "gemm":
        return _product(run, k, launch, frozen)
    if name in PACKERS and k + 1 < len(run.launches):
        return _convolution(run, k, launch, run.launches[k + 1], frozen)
    return None


def _base(run, address, frozen):
    at = run.place_of(address)
    return None if at is None or at[0] not in frozen else at[0]


def _product(run, k, launch, frozen):
    base = _base(run, launch.arguments[COLUMNS], frozen)
    source = kernels.sources.get(launch.definition)
    if base is None or source is None or source[0] is not template.build:
        return None
    made = gemm.with_kept_columns(device("cpu").runtime, source[1], launch.arguments[0])
    if made is None or made.nbytes < LEAST:
        return None
    b, slots = launch.arguments[COLUMNS], launch.arguments[SLOTS]
    room = 0
    if made.shifts:  # more scratch than it had
        slots = min(kernels.pool().get_num_threads(), gemm.MOST_SLOTS)
        room = made.shared + slots * made.slot

    def read(place, scratch):
        given = [made.desc, *launch.arguments[1:]]
        given[COLUMNS] = place
        if not made.slot:
            given[SCRATCH], given[SLOTS] = 0, 0
        elif room:
            given[SCRATCH], given[SLOTS] = scratch, slots
        return Launch(made.kernel.__self__, given, True)

    def pack(place):
        return Launch(made.pack.__self__, [made.pack_desc, place, b], True)

    return _Packed(base, made.nbytes, pack, k, read, room)


def _convolution(run, k, launch, user, frozen):
    """Weights that the next launch reads from scratch, which begins with them."""
    description, block, weight = launch.arguments
    base, given = _base(run, weight, frozen), user.arguments
    if base is None or len(given) <= ROOM or given[WEIGHTS] != block:
        return None

    def read(place, scratch):
        return Launch(user.definition, [*given[:WEIGHTS], place, *given[WEIGHTS + 1 :]], True)

    def pack(place):
        return Launch(launch.definition, [description, place, weight], True)

    return _Packed(base, given[ROOM] - block, pack, k + 1, read)
