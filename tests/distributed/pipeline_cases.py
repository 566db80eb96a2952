"""Pipelines on every rank of a world: they train as one process does."""

import copy

import pytest

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed import pipelining as pp
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.pipelining.schedules import orders
from tests.distributed.cases import enter


class Net(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(5, 5) for _ in range(count))

    def forward(self, x):
        for k, layer in enumerate(self.layers):
            x = layer(x).tanh() if k else layer(x)
        return x


class Pair(nn.Module):
    """Two tensors go on to the next stage, one of them without a gradient."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(5, 5)

    def forward(self, x, mask=None):
        mask = (x > 0) if mask is None else mask
        return self.inner(x) * mask, mask


class Last(nn.Module):
    def forward(self, x, mask):
        return x.where(mask, 0.1 * x)


def made(count):
    torch.manual_seed(4)
    return Net(count).double()


def data():
    torch.manual_seed(5)
    return torch.randn(12, 5, dtype=torch.float64), torch.randn(12, 5, dtype=torch.float64)


def wanted(model, micro):
    """Loss and gradients of the whole batch, in small ones."""
    x, y = data()
    losses = [
        nn.MSELoss()(model(a), b) for a, b in zip(x.tensor_split(micro), y.tensor_split(micro))
    ]
    (sum(losses) / micro).backward()
    return losses, model(x).detach()


def pipelines(rank, size, path):
    enter(rank, size, path)
    loss = nn.MSELoss()
    for kind in (pp.ScheduleGPipe, pp.Schedule1F1B):
        plain = made(size)
        cut = pp.pipeline(
            made(size),
            (torch.zeros(3, 5, dtype=torch.float64),),
            split_spec={f"layers.{k}": pp.SplitPoint.BEGINNING for k in range(1, size)},
        )
        assert cut.num_stages == size
        stage = cut.build_stage(rank, torch.device("cpu"))
        compare(kind(stage, 4, loss), [stage], plain, rank, size - 1)
    for kind in (
        pp.ScheduleInterleaved1F1B,
        pp.ScheduleLoopedBFS,
        pp.ScheduleInterleavedZeroBubble,
        pp.ScheduleZBVZeroBubble,
    ):
        plain, model = made(2 * size), made(2 * size)
        is_v = kind is pp.ScheduleZBVZeroBubble
        indices = [rank, 2 * size - 1 - rank if is_v else rank + size]
        parts = [Part(model.layers[k], k) for k in indices]
        stages = [
            pp.PipelineStage(p, k, 2 * size, torch.device("cpu")) for p, k in zip(parts, indices)
        ]
        compare(kind(stages, 4, loss), stages, plain, rank, 0 if is_v else size - 1)
    several(rank, size)
    refusals(rank, size)
    dist.destroy_process_group()


class Part(nn.Module):
    def __init__(self, layer, k):
        super().__init__()
        self.layer, self.k = layer, k

    def forward(self, x):
        return self.layer(x).tanh() if self.k else self.layer(x)


def compare(schedule, stages, plain, rank, last):
    x, y = data()
    expected, out = wanted(plain, 4)
    losses = []
    found = schedule.step(*([x] if rank == 0 else []), target=y if rank == last else None,
                          losses=losses)  # fmt: skip
    if rank == last:
        torch.testing.assert_close(torch.stack(losses), torch.stack(expected))
        torch.testing.assert_close(found.detach(), out)
    for stage in stages:
        own = plain.layers[stage.stage_index]
        for p, q in zip(stage.submod.parameters(), own.parameters()):
            torch.testing.assert_close(p.grad, q.grad)
    kept = schedule.eval(*([x] if rank == 0 else []))
    if rank == last:
        torch.testing.assert_close(kept, out)


def several(rank, size):
    """Several tensors between stages; a sharded part; small batches of different sizes."""
    torch.manual_seed(6)
    parts = [Pair().double() for _ in range(size - 1)] + [Last()]
    plain = copy.deepcopy(parts)
    if rank == 0:
        fully_shard(parts[0], mesh=dist.device_mesh.DeviceMesh.from_group(alone(), "cpu"))
    else:
        alone()
    stage = pp.PipelineStage(parts[rank], rank, size, torch.device("cpu"))
    schedule = pp.Schedule1F1B(stage, 5, nn.MSELoss())
    x, y = data()
    schedule.step(*([x] if rank == 0 else []), target=y if rank == size - 1 else None)
    for a, b in zip(x.tensor_split(5), y.tensor_split(5)):
        out = plain[0](a)
        for part in plain[1:]:
            out = part(*out)
        (nn.MSELoss()(out, b) / 5).backward()
    for p, q in zip(parts[rank].parameters(), plain[rank].parameters()):
        grad = p.grad.full_tensor() if rank == 0 else p.grad
        torch.testing.assert_close(grad, q.grad)


def alone():
    """A group of each process for itself."""
    groups = [dist.new_group([r]) for r in range(dist.get_world_size())]
    return groups[dist.get_rank()]


def refusals(rank, size):
    stage = pp.PipelineStage(nn.ReLU(), rank, size, torch.device("cpu"))
    table = [
        (lambda: pp.ScheduleGPipe(stage, 1, nn.MSELoss()), "must be greater than or equal to the"),
        (lambda: pp.PipelineStage(nn.ReLU(), 3, 2, torch.device("cpu")), "Stage index 3 is out of"),
        (
            lambda: pp.ScheduleGPipe(stage, 5).step(torch.ones(2, 1)),
            "Expecting 5 arg_mbs but got 2",
        ),
    ]
    for function, text in table:
        with pytest.raises(ValueError, match=text):
            function()


def check_orders():
    """Orders fit together: played side by side, nobody waits for ever."""
    for stages, ranks, batches in [
        (2, 2, 4),
        (4, 4, 4),
        (4, 2, 3),
        (6, 2, 5),
        (8, 4, 9),
        (3, 1, 2),
    ]:
        for first in (False, True):
            owners = {s: s % ranks for s in range(stages)}
            found = orders(owners, batches, first)
            assert sorted(m for row in found.values() for m in row) == sorted(
                (b, s, k) for b in (False, True) for s in range(stages) for k in range(batches)
            )
            alone = stages == ranks and not first
            for rank, row in found.items():
                under_way = most = 0
                for move in row:
                    under_way += -1 if move.is_backward else 1
                    most = max(most, under_way)
                assert not alone or most <= stages - rank
