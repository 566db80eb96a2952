"""A stand-in for `nvmath.bindings.cufft`, written with NumPy over memory of the emulated device:
it takes what the library takes, and complains about what the library would not survive.
"""

import ctypes
from functools import partial

import numpy as np

C2C, R2C, C2R = (0x29, 0x69), (0x2A, 0x6A), (0x2C, 0x6C)
DOUBLE = 0x69, 0x6A, 0x6C


def view(address, shape, strides, dtype):
    """Memory at an address as an array; strides count elements."""
    item = np.dtype(dtype).itemsize
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides))
    memory = (ctypes.c_char * (span * item)).from_address(address)
    flat = np.frombuffer(memory, dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, [s * item for s in strides])


class Plan:
    def __init__(self):
        self.facts, self.room, self.stream = None, 0, None


class Cufft:
    """One of these is what `Library` takes for the module."""

    class cuFFTError(Exception):  # noqa: N801  the binding's name
        pass

    ROOM = 96

    def __init__(self, driver):
        self.driver, self.plans, self.made = driver, {}, 0
        self.calls, self.refuses = [], False

    def create(self):
        self.made += 1
        self.plans[self.made] = Plan()
        return self.made

    def destroy(self, plan):
        del self.plans[plan]

    def set_auto_allocation(self, plan, automatic):
        assert automatic == 0

    def make_plan_many64(self, plan, rank, n, *sides_type_batch):
        if self.refuses:
            raise self.cuFFTError("CUFFT_NOT_SUPPORTED")
        inembed, istride, idist, onembed, ostride, odist, type, batch = sides_type_batch
        assert 1 <= rank <= 3 and len(n) == len(inembed) == len(onembed) == rank
        assert min(*n, istride, idist, ostride, odist, batch) > 0
        half = [*n[:-1], n[-1] // 2 + 1]
        for embed, sizes in (
            (inembed, half if type in C2R else n),
            (onembed, half if type in R2C else n),
        ):
            assert all(e >= s for e, s in zip(embed[1:], sizes[1:]))
        self.plans[plan].facts = n, sides_type_batch
        return self.ROOM

    def set_work_area(self, plan, address):
        self.plans[plan].room = address

    def set_stream(self, plan, stream):
        self.plans[plan].stream = stream

    def _sides(self, n, sides_type_batch, at, to):
        """Arrays over what a plan reads and writes."""
        inembed, istride, idist, onembed, ostride, odist, type, batch = sides_type_batch
        real, whole = ("f8", "c16") if type in DOUBLE else ("f4", "c8")
        half = [*n[:-1], n[-1] // 2 + 1]
        for address, embed, step, apart, sizes, dtype in (
            (
                at,
                inembed,
                istride,
                idist,
                half if type in C2R else n,
                real if type in R2C else whole,
            ),
            (
                to,
                onembed,
                ostride,
                odist,
                half if type in R2C else n,
                real if type in C2R else whole,
            ),
        ):
            assert not address % np.dtype(whole).itemsize
            strides = [step]
            for e in reversed(embed[1:]):
                strides.insert(0, strides[0] * e)
            yield view(address, [batch, *sizes], [apart, *strides], dtype)

    def _execute(self, kinds, work, plan, at, to, lost=False):
        """work(array, s=, axes=) now, or when the graph runs that is being recorded."""
        plan = self.plans[plan]
        n, facts = plan.facts
        assert plan.room and facts[-2] in kinds
        self.calls.append((facts[-2], tuple(n), facts[-1]))
        self.driver._do(self._run, work, n, facts, at, to, plan.room, lost)

    def _run(self, work, n, facts, at, to, room, lost):
        view(room, [self.ROOM], [1], "u1")[:] = 255
        source, out = self._sides(n, facts, at, to)
        out[...] = work(source, s=n, axes=range(1, 1 + len(n)))
        if lost:  # the library may overwrite it
            source[...] = np.nan

    def exec_c2c(self, plan, at, to, direction):
        assert direction in (-1, 1)
        back = partial(np.fft.ifftn, norm="forward")
        self._execute(C2C, np.fft.fftn if direction < 0 else back, plan, at, to)

    def exec_r2c(self, plan, at, to):
        self._execute(R2C, np.fft.rfftn, plan, at, to)

    def exec_c2r(self, plan, at, to):
        self._execute(C2R, partial(np.fft.irfftn, norm="forward"), plan, at, to, True)

    exec_z2z, exec_d2z, exec_z2d = exec_c2c, exec_r2c, exec_c2r
