"""Datasets and functions that worker processes import, and a guard against tests that hang."""

import contextlib
import faulthandler
import os
import re
import signal
import sys
import time
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import flambeau as torch
from flambeau.utils.data import Dataset, IterableDataset, get_worker_info

Pair = namedtuple("Pair", "left right")


@contextlib.contextmanager
def limit(seconds):
    """Fail, rather than hang, after some seconds."""

    def give_up(number, frame):
        raise TimeoutError(f"still not done after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def shm_files():
    """What lies in /dev/shm, but for what other programs have there, such as tests beside these."""
    names = {n for n in os.listdir("/dev/shm") if not n.startswith(("sem.", "torch_"))}
    if names:
        others = [p for p in os.listdir("/proc") if p.isdigit() and not descends(p)]
        names -= {name for pid in others for name in in_use(pid)}
    return sorted(names)


def descends(pid):
    """Is a process this one or one that it has started?"""
    while pid not in ("0", str(os.getpid())):
        try:
            pid = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:  # it has ended meanwhile
            return True
    return pid != "0"


def in_use(pid):
    """Names in /dev/shm that a process has open or mapped."""
    found = []
    with contextlib.suppress(OSError):  # it has ended, or is none of our business
        found += re.findall(r" /dev/shm/(\S+)", Path(f"/proc/{pid}/maps").read_text())
        for fd in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            found += [target.removeprefix("/dev/shm/")] if target.startswith("/dev/shm/") else []
    return found


class Mixed(Dataset):
    """Samples of every kind that default_collate knows."""

    def __len__(self):
        return 11

    def __getitem__(self, i):
        return {
            "image": torch.full((2, 3), float(i)),
            "pair": Pair(i, torch.tensor([i, -i])),
            "list": [i / 2, f"text {i}", bytes([i])],
            "array": np.arange(3, dtype="int16") + i,
            "flag": i % 2 == 0,
        }


class Squares(Dataset):
    """Numbers; with `big`, rows of many of them."""

    def __init__(self, length=20, big=0):
        self.length, self.big = length, big

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        return torch.full((self.big,), float(i)) if self.big else i * i


class Where(Dataset):
    """Which process and worker reads a sample, and with how many threads."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        info = get_worker_info()
        return i, os.getpid(), info.id, info.num_workers, info.seed, torch.get_num_threads()


class Random(Dataset):
    """Numbers of all three random streams."""

    def __init__(self, package, length=12):
        self.package, self.length = package, length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        import random

        return [
            i,
            self.package.randint(0, 1 << 30, ()).item(),
            self.package.randn(()).item(),
            random.randrange(1 << 30),
            int(np.random.randint(1 << 30)),
        ]


class Shards(IterableDataset):
    """Numbers up to an end, every worker its own share."""

    def __init__(self, end, uneven=False):
        self.end, self.uneven = end, uneven

    def __iter__(self):
        info = get_worker_info()
        if info is None:
            yield from range(self.end)
        elif self.uneven:
            yield from range(100 * info.id, 100 * info.id + 2 * info.id + 1)
        else:
            yield from range(info.id, self.end, info.num_workers)


class TwoPartError(Exception):
    """Wants two arguments."""

    def __init__(self, code, detail):
        super().__init__(f"{code}: {detail}")
        self.code, self.detail = code, detail


def raise_local():
    class LocalError(ValueError):
        pass

    raise LocalError("nobody else knows me")


FAILURES = {
    "value": lambda i: int("x"),
    "key": lambda i: {}["abc"],
    "two parts": lambda i: (_ for _ in ()).throw(TwoPartError(7, "seven")),
    "unicode": lambda i: b"\xff".decode(),
    "local": lambda i: raise_local(),
    "os": lambda i: os.stat("/no/such/file"),
    "unpicklable": lambda i: lambda: None,
    "stop": lambda i: next(iter(())),
    "kill": lambda i: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda i: (faulthandler.disable(), os.kill(os.getpid(), signal.SIGSEGV)),
    "exit": lambda i: os._exit(3),
    "exit 0": lambda i: os._exit(0),
    "sys.exit": lambda i: sys.exit(4),
    "sleep": lambda i: time.sleep(60),
}


class Failing(Dataset):
    """One sample goes wrong."""

    def __init__(self, how, at=5, length=8):
        self.how, self.at, self.length = how, at, length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if i == self.at:
            return FAILURES[self.how](i)
        return i


class Slow(Dataset):
    """Some samples take a while."""

    def __init__(self, seconds, length=8, only=None):
        self.seconds, self.length, self.only = seconds, length, only

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if self.only is None or i in self.only:
            time.sleep(self.seconds)
        return i


class Counting(Dataset):
    """Counts in shared memory how many samples were asked for."""

    def __init__(self, length):
        self.length, self.count = length, torch.zeros(length).share_memory_()

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        self.count[i] += 1
        return i


@dataclass
class Batch:
    """What a collate function of one's own may give."""

    values: torch.Tensor
    names: list

    def __eq__(self, other):
        return self.names == other.names and torch.equal(self.values, other.values)


def as_dataclass(samples):
    return Batch(torch.tensor(samples), [f"n{s}" for s in samples])


def as_given(samples):
    return samples


def first(samples):
    return samples[0]


class Tagged(torch.Tensor):
    """A tensor of a class of its own."""


def every_kind(samples):
    """Tensors of all kinds."""
    base = torch.arange(24.0).reshape(4, 6)
    tagged = torch.ones(3).as_subclass(Tagged)
    tagged.note = "kept"
    return {
        "base": base,
        "transposed": base.t(),
        "column": base[:, 2],
        "step": base[::2, 1::2],
        "expanded": torch.ones(1, 3).expand(5, 3),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(7),
        "meta": torch.empty(2, 3, device="meta"),
        "leaf": torch.ones(2, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "tagged": tagged,
        "channels_last": torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
        "array": np.arange(1000.0).reshape(10, 100)[:, ::2],
        "fortran": np.asfortranarray(np.arange(600.0).reshape(20, 30)),
        "storage": torch.arange(5.0).untyped_storage(),
        "dtypes": [
            torch.arange(3).to(dtype)
            for dtype in (
                torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
                torch.float16, torch.bfloat16, torch.float32, torch.float64,
                torch.complex64, torch.complex128,
            )
        ],
    }  # fmt: skip


BIG = torch.arange(1 << 20, dtype=torch.float32)


def small_view(samples):
    return BIG[1000:1010], BIG[1005:1015], BIG[500000:500001]


def note_start(worker_id):
    """A worker_init_fn."""
    get_worker_info().dataset.started = worker_id


def forbid_large_files(worker_id):
    """A worker_init_fn after which no block of shared memory can be made."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def fail_to_start(worker_id):
    raise ValueError(f"worker {worker_id} cannot start")
