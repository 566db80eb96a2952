"""What kernels of GPUs say of their addresses is true, too: nothing changes that they only read.

Programs and checks are those of tests/compile/test_accesses.py, on the host in place of a GPU.
"""

import ctypes
import functools

import pytest

import flambeau as torch
from flambeau.compiler import accesses, recording
from flambeau.compiler.recording import Recording, base_of
from flambeau.eager import kernels
from tests.compile import test_accesses as host

F = torch.nn.functional


def _tables(x):
    table, image = x[:, :8].contiguous(), x.view(48, 4, 18)
    mean, var = torch.zeros(4), torch.ones(4)
    many = torch.arange(9000) % 48
    half = x.repeat(2, 4)[:, :64].bfloat16()
    return (
        F.linear(half, half[:40], half[0, :40]),
        F.embedding(torch.arange(20) % 7, table),
        F.embedding(torch.arange(3000) % 48, table),
        F.embedding(many, table),
        F.dropout(x, 0.5),
        F.batch_norm(image.repeat(64, 1, 8), mean, var, training=True),
        F.pad(x, (1, 2)),
        torch.cat([x, x * 2], 1),
        torch.randn(72) + x,
        x * torch.bernoulli(x.sigmoid()),
    )


PROGRAMS = [host._rows, host._norms, host._reductions, host._convolutions, host._losses, _tables]
PROGRAMS += [host._large, host._products]
ELSEWHERE = {"library_product:build"}  # which takes a library


@functools.cache
def recorded(program):
    """What a program launches on a GPU, both ways, and the pieces of memory it is given."""
    if not torch.device("cuda").runtime.driver.emulated:
        pytest.skip("memory of a GPU is not looked at from outside")
    torch.manual_seed(0)
    with torch.device("cuda"):
        x = torch.randn(48, 72).requires_grad_()
        host.both_ways(program, x)
        run = Recording([base_of(x)], x.device)
        run.allocator.empty_cache = lambda: None  # temporaries are looked at
        try:
            run.run(lambda: host.both_ways(program, x))
        finally:
            del run.allocator.empty_cache
    pieces = [(first, size) for _, first, size in run.bases]
    return run, pieces + [tuple(b) for b in (*run.fresh, *run.temporary)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__[1:])
def test_nothing_else_is_written(program):
    run, pieces = recorded(program)
    for start, size in pieces[len(run.bases) :]:
        ctypes.memset(start, host.GARBAGE, size)
    assert host.check_launches(run, pieces)


def test_all_kinds_are_met():
    met = set()
    for program in PROGRAMS:
        run, _ = recorded(program)
        met |= {kernels.recipes.get(launch.definition, ("",))[0] for launch in run.launches}
    assert set(accesses.READS_ON_GPUS) - met == ELSEWHERE


def test_addresses_without_memory():
    """No two recordings imagine the same block, and none is handed out later."""
    if not torch.device("cuda").runtime.driver.emulated:
        pytest.skip("this is about pools")
    x = torch.randn(300, 400, device="cuda")
    spans = []
    (x.tanh() + 1).sum(0)  # kernels that are new have to run
    for _ in range(2):
        run = Recording([base_of(x)], x.device)
        result = run.run(lambda: (x.tanh() + 1).sum(0), True)
        assert all(b.start >= recording.IMAGINED for b in (*run.fresh, *run.temporary))
        spans += [b.start for b in (*run.fresh, *run.temporary)]
        del result
        run.result = None
    assert len(spans) == len(set(spans))
    pools = x.device.runtime.allocator.pools.values()
    assert not any(start >= recording.IMAGINED for pool in pools for start in pool)
