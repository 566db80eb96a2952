"""What processes of the tests do; each function runs on every rank of a world."""

import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import numpy as np

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.nn.parallel import DistributedDataParallel as DDP  # noqa: N817

PATIENCE = 600  # seconds until a test counts as hanging, also where others keep all cores busy
TIMEOUT = 120  # seconds; whoever is told of a death is told much earlier
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
EXPECTED = {
    "SUM": sum,
    "PRODUCT": lambda v: int(np.prod(v)),
    "MIN": min,
    "MAX": max,
    "BAND": lambda v: int(np.bitwise_and.reduce(v)),
    "BOR": lambda v: int(np.bitwise_or.reduce(v)),
    "BXOR": lambda v: int(np.bitwise_xor.reduce(v)),
}


def enter(rank, size, path, timeout=TIMEOUT, messages=False):
    """Join the world; messages: use MPI's collectives as groups over several machines do."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{path}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=timeout),
    )
    if messages:
        group = dist.group.WORLD
        group.engine, group._lane.grace, group._lane.doze = group.messages, 2.0, None


def everything(rank, size, path, messages):
    """Every collective, every dtype, every reduction, against computed results."""
    enter(rank, size, path, messages=messages)
    reductions(rank, size)
    for dtype in [*INTEGERS, *FLOATS, *COMPLEX, torch.bool]:
        moves(rank, size, dtype)
    for count in (0, 1, 5, 300_000) if not messages else (0, 1, 5, 70_000):
        lengths(rank, size, count)
    shapes(rank, size)
    uneven(rank, size)
    asynchronous(rank, size)
    messages_between_two(rank, size)
    objects(rank, size)
    if not messages:
        groups(rank, size)
        refusals(rank, size)
    dist.destroy_process_group()
    assert not dist.is_initialized()


def reductions(rank, size):
    """all_reduce, reduce and reduce_scatter: every reduction of every dtype that has it."""
    values = [r % 3 + 1 for r in range(size)]
    for name, expected in EXPECTED.items():
        dtypes = INTEGERS if name.startswith("B") else INTEGERS + FLOATS
        for dtype in dtypes:
            reduced(rank, size, values[rank], getattr(dist.ReduceOp, name), expected(values), dtype)
    for dtype in FLOATS:
        reduced(rank, size, rank + 1, dist.ReduceOp.AVG, (size + 1) / 2, dtype)
    for dtype in COMPLEX:
        total = complex(size * (size - 1) / 2, size)
        reduced(rank, size, complex(rank, 1), dist.ReduceOp.SUM, total, dtype)
    reduced(rank, size, rank == 0, dist.ReduceOp.SUM, True, torch.bool)
    reduced(rank, size, rank == 0, dist.ReduceOp.MIN, False, torch.bool)


def reduced(rank, size, value, op, expected, dtype):
    facts = (op, dtype)
    expected = torch.full((3,), expected, dtype=dtype)
    t = torch.full((3,), value, dtype=dtype)
    dist.all_reduce(t, op=op)
    assert torch.equal(t, expected), (facts, t)
    t = torch.full((3,), value, dtype=dtype)
    dist.reduce(t, size - 1, op=op)
    assert rank != size - 1 or torch.equal(t, expected), (facts, t)
    part = torch.empty(3, dtype=dtype)
    dist.reduce_scatter_tensor(part, torch.full((3 * size,), value, dtype=dtype), op=op)
    assert torch.equal(part, expected), (facts, part)


def moves(rank, size, dtype):
    """What only moves, for every dtype."""

    def made(r):
        return torch.tensor([r % 2, 1, 0]).to(dtype)

    def rows(numbers):
        return torch.stack([made(r) for r in numbers])

    everybodys = rows(range(size))
    t = made(rank)
    dist.broadcast(t, size - 1)
    assert torch.equal(t, made(size - 1))
    outs = [torch.empty(3, dtype=dtype) for _ in range(size)]
    dist.all_gather(outs, made(rank))
    assert torch.equal(torch.stack(outs), everybodys)
    whole = torch.empty(size, 3, dtype=dtype)
    dist.all_gather_into_tensor(whole, made(rank))
    assert torch.equal(whole, everybodys)
    outs = [torch.empty(3, dtype=dtype) for _ in range(size)] if rank == 0 else None
    dist.gather(made(rank), outs, 0)
    assert outs is None or torch.equal(torch.stack(outs), everybodys)
    t = torch.empty(3, dtype=dtype)
    dist.scatter(t, list(everybodys) if rank == 0 else None, 0)
    assert torch.equal(t, made(rank))
    whole = torch.empty(size, 3, dtype=dtype)
    dist.all_to_all_single(whole, rows(range(rank, rank + size)))
    assert torch.equal(whole, rows(s + rank for s in range(size)))
    outs = [torch.empty(3, dtype=dtype) for _ in range(size)]
    dist.all_to_all(outs, list(rows(range(rank, rank + size))))
    assert torch.equal(torch.stack(outs), rows(s + rank for s in range(size)))
    if rank == 0:
        dist.send(made(1), 1)
    elif rank == 1:
        dist.recv(t, 0)
        assert torch.equal(t, made(1))


def lengths(rank, size, count):
    """Tensors shorter and longer than a piece."""
    base = torch.arange(count, dtype=torch.float32)
    t = base + rank
    dist.all_reduce(t)
    assert torch.equal(t, base * size + sum(range(size)))
    t = base + rank
    dist.reduce(t, 1)
    if rank == 1:
        assert torch.equal(t, base * size + sum(range(size)))
    whole = torch.empty(size * count)
    dist.all_gather_into_tensor(whole, base + rank)
    assert torch.equal(whole, torch.cat([base + r for r in range(size)]))
    part = torch.empty(count)
    dist.reduce_scatter_tensor(part, torch.cat([base + r for r in range(size)]))
    assert torch.equal(part, (base + rank) * size)
    outs = [torch.empty(count) for _ in range(size)] if rank == 0 else None
    dist.gather(base + rank, outs, 0)
    if outs is not None:
        assert all(torch.equal(out, base + r) for r, out in enumerate(outs))
    out = torch.empty(size * count)
    dist.all_to_all_single(out, torch.cat([base + rank * size + r for r in range(size)]))
    assert torch.equal(out, torch.cat([base + r * size + rank for r in range(size)]))


def shapes(rank, size):
    """Tensors with gaps, in other orders, of no dimension, that require gradients."""
    whole = torch.zeros(4, 6)
    dist.all_reduce(whole[:, ::2].add_(rank + 1))
    total = sum(range(1, size + 1))
    assert torch.equal(whole[:, ::2], torch.full((4, 3), float(total)))
    assert not whole[:, 1::2].any()
    t = torch.full((3, 4), float(rank)).t()
    dist.broadcast(t, 1)
    assert t.tolist() == [[1.0] * 3] * 4
    t = torch.tensor(float(rank))
    dist.all_reduce(t)
    assert t.item() == total - size
    p = nn.Parameter(torch.full((2,), float(rank)))
    dist.broadcast(p.data, 0)
    dist.all_reduce(p)
    assert p.tolist() == [0.0, 0.0] and p.requires_grad


def uneven(rank, size):
    outs = [torch.empty(rank + 1) for _ in range(size)]
    dist.all_to_all(outs, [torch.full((r + 1,), float(rank)) for r in range(size)])
    assert [out.tolist() for out in outs] == [[float(s)] * (rank + 1) for s in range(size)]
    out = torch.empty(size * (rank + 1), 2)
    dist.all_to_all_single(
        out,
        torch.full((sum(range(1, size + 1)), 2), float(rank)),
        [rank + 1] * size,
        list(range(1, size + 1)),
    )
    assert out[:, 0].tolist() == [float(s) for s in range(size) for _ in range(rank + 1)]
    t = torch.empty(2)
    dist.reduce_scatter(t, [torch.full((2,), float(r + rank)) for r in range(size)])
    assert t.tolist() == [size * rank + sum(range(size))] * 2


def asynchronous(rank, size):
    tensors = [torch.full((1000,), float(rank + k)) for k in range(10)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    works += [dist.barrier(async_op=True)]
    sync = torch.ones(1)
    dist.all_reduce(sync)  # behind the others, in order
    assert sync.item() == size and all(work.is_completed() for work in works)
    assert all(work.wait() for work in works)
    for k, t in enumerate(tensors):
        assert t[0].item() == sum(r + k for r in range(size))
    work = dist.all_reduce(torch.ones(1), async_op=True)
    deadline = time.monotonic() + 60
    while not work._done and time.monotonic() < deadline:
        time.sleep(0.001)  # nobody waits: the background thread gets it done
    assert work.is_success() and work.result()[0].item() == size
    doubled = dist.all_reduce(torch.ones(1), async_op=True).get_future()
    assert doubled.then(lambda f: 2 * f.value()[0]).wait().item() == 2 * size
    assert work.exception() is None


def messages_between_two(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    got = torch.zeros(5)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, torch.full((5,), float(rank)), right),
            dist.P2POp(dist.irecv, got, left),
        ]
    )
    assert all(work.wait() for work in works) and got.tolist() == [float(left)] * 5
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            t = torch.zeros(2, 3).t()
            source = dist.recv(t, tag=7)
            assert t.tolist() == [[float(source)] * 2] * 3
            seen.add(source)
        assert seen == set(range(1, size))
    else:
        dist.send(torch.full((3, 2), float(rank)), 0, tag=7)
    big = torch.full((200_000,), float(rank))
    if rank == 0:
        dist.send(big, 1)
    elif rank == 1:
        dist.recv(big, 0)
        assert big[-1].item() == 0


def objects(rank, size):
    outs = [None] * size
    dist.all_gather_object(outs, {"rank": rank, "text": "x" * rank})
    assert outs == [{"rank": r, "text": "x" * r} for r in range(size)]
    outs = [None] * size if rank == 1 else None
    dist.gather_object(("r", rank), outs, dst=1)
    assert rank != 1 or outs == [("r", r) for r in range(size)]
    values = [rank, "a"] if rank == 0 else [None, None]
    dist.broadcast_object_list(values, src=0)
    assert values == [0, "a"]
    out = [None]
    dist.scatter_object_list(out, [f"for {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert out == [f"for {rank}"]
    if rank == 0:
        dist.send_object_list([1, [2]], dst=1)
    elif rank == 1:
        got = [None, None]
        assert dist.recv_object_list(got, src=0) == 0 and got == [1, [2]]


def groups(rank, size):
    pair = dist.new_group([1, 0])
    rest = dist.new_group(list(range(1, size)))
    mine = [dist.new_group([r]) for r in range(size)][rank]
    t = torch.full((2,), float(rank + 1))
    dist.all_reduce(t, group=mine)
    assert t[0].item() == rank + 1 and dist.get_rank(mine) == 0
    if rank < 2:
        t = torch.full((2,), float(rank + 1))
        dist.all_reduce(t, group=pair)
        assert t[0].item() == 3 and dist.get_process_group_ranks(pair) == [0, 1]
    else:
        assert pair == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(pair) == -1
    if rank >= 1:
        t = torch.ones(1)
        dist.broadcast(t.mul_(rank), size - 1, group=rest)
        assert t.item() == size - 1
        assert dist.get_group_rank(rest, rank) == rank - 1
        assert dist.get_global_rank(rest, 0) == 1
        dist.destroy_process_group(rest)
    dist.monitored_barrier()
    dist.barrier()


def refusals(rank, size):
    """Errors that do not disturb the others."""
    t = torch.ones(3)
    for call, kind, text in (
        (lambda: dist.all_reduce([1]), TypeError, "Invalid function argument. Expected parameter"),
        (lambda: dist.all_gather([t], t), RuntimeError, "ProcessGroupGloo::allgather: invalid out"),
        (lambda: dist.broadcast(t, size), RuntimeError, "ProcessGroupGloo::broadcast: invalid ro"),
        (lambda: dist.broadcast(t), ValueError, "Must specify global_rank or group_rank"),
        (lambda: dist.send(t, rank), ValueError, "Invalid destination rank: destination rank"),
        (
            lambda: dist.all_reduce(t, op=dist.ReduceOp.BAND),
            RuntimeError,
            "Cannot use ReduceOp.BAND with non-integral dtype",
        ),
        (lambda: dist.new_group([0, 0]), ValueError, "ranks list must not contain duplicate"),
    ):
        try:
            call()
        except kind as error:
            assert str(error).startswith(text), error
        else:
            raise AssertionError(text)


# -- failure ---------------------------------------------------------------------------------------


def dies(rank, size, path, point):
    """Rank 1 is killed at one of several points; all others must say so, soon."""
    began = time.monotonic()
    if point == "before":
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            enter(rank, size, path, timeout=3)
        except RuntimeError:
            return
        raise AssertionError("a world without rank 1")
    enter(rank, size, path)
    began = time.monotonic()
    t = torch.ones(100_000)
    dist.all_reduce(t)
    if rank == 1:
        if point == "inside":
            dist.all_reduce(torch.ones(20_000_000), async_op=True)
        if point == "raises":
            raise SystemExit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    calls = {
        "all_reduce": lambda: dist.all_reduce(t),
        "inside": lambda: dist.all_reduce(torch.ones(20_000_000)),
        "broadcast": lambda: dist.broadcast(t, 1),
        "barrier": dist.barrier,
        "gather": lambda: dist.all_gather_object([None] * size, "x" * 10),
        "recv": lambda: dist.recv(t, 1),
        "async": lambda: dist.all_reduce(t, async_op=True).wait(),
        "group": lambda: dist.all_reduce(t, group=dist.new_group()),
        "raises": lambda: dist.all_reduce(t),
        "ddp": lambda: DDP(nn.Linear(2, 2)),
    }
    try:
        calls[point]()
    except dist.DistBackendError as error:
        assert "rank 1" in str(error), error
        assert time.monotonic() - began < 0.75 * TIMEOUT
        return
    raise AssertionError(f"{point}: nothing was raised")


def late(rank, size, path):
    """A rank that does not come: the timeout says which."""
    enter(rank, size, path)
    dist.barrier()
    dist.group.WORLD.set_timeout(timedelta(seconds=1))
    told = Path(f"{path}.told")
    if rank == 1:
        while not told.exists():
            time.sleep(0.05)
        return
    try:
        dist.all_reduce(torch.ones(1))
    except dist.DistBackendError as error:
        assert "Timed out waiting 1000ms for all_reduce" in str(error) and "rank 1" in str(error)
        return
    finally:
        told.touch()
    raise AssertionError("no timeout")


def mismatched(rank, size, path, detailed):
    """Different calls are noticed, always; under DETAIL with their shapes."""
    enter(rank, size, path)
    if detailed:
        dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        dist.all_reduce(torch.ones(2 + rank))
    except RuntimeError as error:
        assert str(error).startswith("Detected mismatch between collectives on ranks.")
        assert not detailed or "TensorShape=[[2]]" in str(error)
        return
    raise AssertionError("nothing was noticed")


def again(rank, size, path):
    """Start and stop, many times within the same processes."""
    for k in range(20):
        enter(rank, size, f"{path}.{k}")
        t = torch.ones(4)
        dist.all_reduce(t, group=dist.new_group())
        assert t[0].item() == size
        dist.destroy_process_group()


def stays(rank, size, path):
    """Ends without a word, as many programs do."""
    enter(rank, size, path)
    dist.all_reduce(torch.ones(1))
