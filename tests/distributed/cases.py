"""What processes of the tests do; each function runs on every rank of a world."""

import copy
import os
import signal
import time
from datetime import timedelta

import numpy as np

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.nn.parallel import DistributedDataParallel as DDP  # noqa: N817

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


def enter(rank, size, path, timeout=30, messages=False):
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
        group.engine, group._lane.grace = group.messages, 2.0


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
    values = [r % 3 + 1 for r in range(size)]
    for name, expected in EXPECTED.items():
        dtypes = INTEGERS if name.startswith("B") else INTEGERS + FLOATS
        for dtype in dtypes:
            t = torch.full((7,), values[rank], dtype=dtype)
            dist.all_reduce(t, op=getattr(dist.ReduceOp, name))
            assert t.tolist() == [expected(values)] * 7, (name, dtype, t)
    t = torch.full((3,), float(rank))
    dist.all_reduce(t, op=dist.ReduceOp.AVG)
    assert t.tolist() == [(size - 1) / 2] * 3
    t = torch.tensor([rank == 0, True, False])
    dist.all_reduce(t)
    assert t.tolist() == [True, True, False]
    t = torch.full((2,), complex(rank, 1))
    dist.all_reduce(t)
    assert t.tolist() == [complex(size * (size - 1) / 2, size)] * 2


def moves(rank, size, dtype):
    def made(r):
        return torch.tensor([r % 2, 1, 0]).to(dtype)

    t = made(rank)
    dist.broadcast(t, size - 1)
    assert torch.equal(t, made(size - 1))
    outs = [torch.empty(3, dtype=dtype) for _ in range(size)]
    dist.all_gather(outs, made(rank))
    assert all(torch.equal(out, made(r)) for r, out in enumerate(outs))
    t = torch.empty(3, dtype=dtype)
    dist.scatter(t, [made(r) for r in range(size)] if rank == 0 else None, 0)
    assert torch.equal(t, made(rank))


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
    deadline = time.monotonic() + 20
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


# -- training --------------------------------------------------------------------------------------


def convnet(norm):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4) if norm else nn.Identity(),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 36, 3),
    )


class Tied(nn.Module):
    """A transformer layer whose output weights are its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.out = nn.Linear(8, 11, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, x):
        return self.out(self.layer(self.embedding(x))).mean(1)


def trains_as_one(rank, size, path):
    """DDP equals one process with the whole batch."""
    enter(rank, size, path)
    torch.manual_seed(0)
    images = torch.randn(4 * size, 1, 8, 8, dtype=torch.float64)
    words = torch.randint(0, 11, (4 * size, 5))
    for make, inputs in (
        (lambda: convnet(False), images),
        (lambda: convnet(True), images),
        (Tied, words),
    ):
        for options in (
            {"bucket_cap_mb": 0.0005},
            {"find_unused_parameters": True},
            {"static_graph": True},
            {"gradient_as_bucket_view": True},
        ):
            compare(make().double(), inputs, rank, options)
    dist.destroy_process_group()


def compare(alone, inputs, rank, options):
    size = dist.get_world_size()
    target = torch.randint(0, 3, (len(inputs),), generator=torch.Generator().manual_seed(3))
    together = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone))
    if rank:
        with torch.no_grad():
            for p in together.parameters():
                p.add_(1)  # process 0's count
    together = DDP(together, **options)
    share = slice(rank * len(inputs) // size, (rank + 1) * len(inputs) // size)
    losses = []
    for model, part in ((alone, slice(None)), (together, share)):
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs[part]), target[part])
            loss.backward()
            optimizer.step()
        dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)
        losses.append(loss.item())
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-10, atol=1e-12)
    for (name, a), b in zip(alone.state_dict().items(), together.module.state_dict().values()):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11, msg=f"{name} {options}")


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x, second=False):
        return self.b(x) if second else self.a(x)


def ddp_corners(rank, size, path):
    """no_sync, unused parameters, join, hooks, errors."""
    enter(rank, size, path)
    mean = sum(range(1, size + 1)) / size
    x = torch.ones(1, 2) * (rank + 1)
    model = DDP(Branch())
    model(x).sum().backward()
    try:
        model(x)
        raise AssertionError("no error for unused parameters")
    except RuntimeError as error:
        assert str(error).startswith("Expected to have finished reduction in the prior iteration")
        assert f"did not receive grad for rank {rank}: 2 3" in str(error)
    model = DDP(Branch(), find_unused_parameters=True)
    model(x).sum().backward()
    assert model.module.b.weight.grad is None
    assert model.module.a.weight.grad[0, 0].item() == mean
    model(x, second=rank == 0).sum().backward()  # used by some: everybody gets the average
    assert model.module.b.weight.grad[0, 0].item() == 1 / size
    model = DDP(nn.Linear(2, 1))
    with model.no_sync():
        model(x).sum().backward()
    assert model.module.weight.grad[0, 0].item() == rank + 1
    model(x).sum().backward()
    assert model.module.weight.grad[0, 0].item() == 2 * mean
    hooks(rank, size, mean)
    for by_initial in (True, False):
        model = DDP(nn.Linear(2, 1))
        with model.join(divide_by_initial_world_size=by_initial):
            for _ in range(2 + rank):
                model.zero_grad()
                model(torch.ones(1, 2)).sum().backward()
        if rank == size - 1:
            assert model.module.weight.grad[0, 0].item() == (1 / size if by_initial else 1)
    wrong = nn.Linear(2, 1 if rank == 0 else 2)
    try:
        DDP(wrong)
        raise AssertionError("no error for other shapes")
    except RuntimeError as error:
        assert "appears not to match sizes of the same param in process" in str(error)
    dist.barrier()


def hooks(rank, size, mean):
    from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    for hook, state in (
        (default_hooks.allreduce_hook, None),
        (default_hooks.fp16_compress_hook, None),
        (default_hooks.bf16_compress_hook, None),
        (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), None),
        (powerSGD_hook.powerSGD_hook, powerSGD_hook.PowerSGDState(None, 2, 2)),
    ):
        model = DDP(nn.Linear(32, 16))
        model.register_comm_hook(state, hook)
        for _ in range(4):
            model.zero_grad()
            model(torch.ones(1, 32) * (rank + 1)).sum().backward()
            assert abs(model.module.weight.grad[0, 0].item() - mean) < 2e-2


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
    enter(rank, size, path, timeout=30)
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
        assert time.monotonic() - began < 20
        return
    raise AssertionError(f"{point}: nothing was raised")


def late(rank, size, path):
    """A rank that does not come: the timeout says which."""
    enter(rank, size, path, timeout=1)
    if rank == 1:
        time.sleep(3)
        return
    try:
        dist.all_reduce(torch.ones(1))
    except dist.DistBackendError as error:
        assert "Timed out waiting 1000ms for all_reduce" in str(error) and "rank 1" in str(error)
        return
    raise AssertionError("no timeout")


def mismatched(rank, size, path, detailed):
    """Different calls are noticed, always; under DETAIL with their shapes."""
    enter(rank, size, path, timeout=10)
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


# -- beyond DDP ------------------------------------------------------------------------------------


def zero_steps_as_one(rank, size, path):
    """ZeroRedundancyOptimizer equals the optimizer itself, and so do its states."""
    from flambeau.distributed.optim import ZeroRedundancyOptimizer

    enter(rank, size, path)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    plain = copy.deepcopy(model)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.05)
    reference = torch.optim.AdamW(plain.parameters(), lr=0.05)
    x = torch.randn(8, 3, dtype=torch.float64)
    for _ in range(3):
        for one, opt in ((model, optimizer), (plain, reference)):
            opt.zero_grad()
            one(x).square().mean().backward()
            opt.step()
    for a, b in zip(model.parameters(), plain.parameters()):
        assert torch.equal(a, b)
    optimizer.consolidate_state_dict(0)
    if rank == 0:
        saved, expected = optimizer.state_dict(), reference.state_dict()
        assert saved["state"].keys() == expected["state"].keys()
        for key, state in expected["state"].items():
            assert torch.equal(saved["state"][key]["exp_avg"], state["exp_avg"])
    optimizer.load_state_dict(reference.state_dict())
    assert sum(len(s) > 0 for s in optimizer.optim.state.values()) < 4
    dist.destroy_process_group()


def collectives_with_gradients(rank, size, path):
    from flambeau.distributed.nn import functional as F

    enter(rank, size, path)
    x = torch.full((2,), float(rank + 1), requires_grad=True)
    total = sum(range(1, size + 1))

    def gradient(out):
        return torch.autograd.grad(out, x)[0].tolist()

    assert gradient((F.all_reduce(x) * (rank + 1)).sum()) == [total] * 2
    assert gradient((F.broadcast(x, 0) * (rank + 1)).sum()) == [total * (rank == 0)] * 2
    assert (
        gradient(sum((k + 1) * t.sum() for k, t in enumerate(F.all_gather(x))))
        == [size * (rank + 1)] * 2
    )
    out = F.reduce_scatter(torch.empty(2), [x * (k + 1) for k in range(size)])
    assert out.tolist() == [total * (rank + 1)] * 2 and gradient(out.sum()) == [total] * 2
    outs = F.all_to_all([torch.empty(2)] * size, [x * (k + 1) for k in range(size)])
    assert [t[0].item() for t in outs] == [(k + 1) * (rank + 1) for k in range(size)]
    assert gradient(sum(t.sum() for t in outs)) == [total] * 2
    dist.destroy_process_group()


def mesh(rank, size, path):
    enter(rank, size, path)
    made = dist.init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
    assert made.get_coordinate() == [rank // 2, rank % 2] and made["tp"].size() == 2
    t = torch.tensor([float(rank)])
    dist.all_reduce(t, group=made.get_group("tp"))
    assert t.item() == 2 * (rank - rank % 2) + 1
    assert made.get_local_rank("tp") == rank % 2 and made["dp"].mesh.numel() == size // 2
    assert str(made) == f"DeviceMesh((dp={size // 2}, tp=2), 'cpu')"
    dist.destroy_process_group()
