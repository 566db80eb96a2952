"""Fourier transforms by cuFFT, through nvmath's bindings.

A `Transform` is a plan of the library for many transforms of one shape at once; `Library` keeps the
latest ones (`torch.backends.cuda.cufft_plan_cache`) and makes others again when they are called.
Nothing is scaled here.
"""

import threading
from collections import OrderedDict
from typing import Any, NamedTuple

MOST = 4096  # plans that are kept, unless a program says otherwise
FORWARD, BACKWARD = -1, 1
# kinds of transforms of single and double precision: cufftType
TYPES = {
    "c2c": {"c64": 0x29, "c128": 0x69},
    "r2c": {"c64": 0x2A, "c128": 0x6A},
    "c2r": {"c64": 0x2C, "c128": 0x6C},
}
NAMES = {0x29: "exec_c2c", 0x69: "exec_z2z", 0x2A: "exec_r2c", 0x6A: "exec_d2z"}
NAMES |= {0x2C: "exec_c2r", 0x6C: "exec_z2d"}


class Refused(RuntimeError):
    """The library does not do this."""


class Side(NamedTuple):
    """Where numbers of one side lie: element (i, j, k) of transform b is element
    b * apart + ((i * embed[1] + j) * embed[2] + k) * step.
    """

    embed: tuple
    step: int
    apart: int


class Transform:
    """A plan of the library, and the room that it works in."""

    def __init__(self, api, type, sizes, source, out, count):
        self.api, self.plan, self.stream = api, None, 0
        self.execute: Any = getattr(api, NAMES[type])
        try:
            self.plan = api.create()
            api.set_auto_allocation(self.plan, 0)
            self.room = api.make_plan_many64(
                self.plan, len(sizes), list(sizes), list(source.embed), source.step, source.apart,
                list(out.embed), out.step, out.apart, type, count,
            )  # fmt: skip
        except api.cuFFTError as error:
            raise Refused(str(error)) from None

    def run(self, stream, room, to, at, *direction):
        """Direction: of transforms between complex numbers."""
        try:
            if stream != self.stream:
                self.api.set_stream(self.plan, stream)
                self.stream = stream
            if room:
                self.api.set_work_area(self.plan, room)
            self.execute(self.plan, at, to, *direction)
        except self.api.cuFFTError as error:
            raise RuntimeError(f"cuFFT error: {error}") from None

    def __del__(self):
        if self.plan is not None:
            self.api.destroy(self.plan)


class Library:
    """cuFFT on one GPU. It is called as kernels are: with nothing for a description, a number that
    `number` gave, addresses of the result and of what is transformed (which is lost where the
    result is real), and a direction if both are complex.
    """

    def __init__(self, runtime, api):
        self.runtime, self.api = runtime, api
        self.lock = threading.RLock()
        self.plans: OrderedDict = OrderedDict()  # by what they are asked for, the latest last
        self.most = MOST
        self.numbers: dict = {}  # what was asked for -> number
        self.facts: list = []  # by number

    def number(self, *facts):
        """A number for what a Transform is told; Refused where there is none."""
        with self.lock:
            found = self.numbers.get(facts)
            if found is None:
                self._transform(facts)
                found = self.numbers[facts] = len(self.facts)
                self.facts.append(facts)
            return found

    def __call__(self, _, number, to, at, *direction):
        runtime = self.runtime
        stream, _ = runtime.stream, runtime.driver.api  # a new thread gets the GPU's context
        with self.lock:
            plan = self._transform(self.facts[number])
            if not plan.room:
                plan.run(stream, 0, to, at, *direction)
                return
            memory = runtime.pool_for(plan.room)
            try:
                block = memory.pop()
            except IndexError:
                block = memory.grow()
            try:
                plan.run(stream, block, to, at, *direction)
            finally:
                memory.give(block)

    def _transform(self, facts):
        """The plan, which is made if it has been forgotten."""
        found = self.plans.get(facts)
        if found is not None:
            self.plans.move_to_end(facts)
            return found
        driver = self.runtime.driver
        back = driver.relaxed() if driver.recording else None
        try:
            found = Transform(self.api, *facts)
        finally:
            if back is not None:
                back()
        self.plans[facts] = found
        self.keep(self.most)
        return found

    def keep(self, most):
        """Keep no more plans than that."""
        with self.lock:
            self.most = most
            while len(self.plans) > most:
                self.plans.popitem(last=False)

    def clear(self):
        """Forget all plans."""
        most = self.most
        self.keep(0)
        self.most = most


def start(runtime):
    """The library on a GPU, or None where it is not installed."""
    if runtime.driver.emulated:
        return None
    try:
        from nvmath.bindings import cufft  # an extra: flambeau[cuda]

        cufft.get_version()  # it is there
        runtime.driver.use(runtime.index)
        return Library(runtime, cufft)
    except (AttributeError, ImportError, RuntimeError, OSError):
        return None
