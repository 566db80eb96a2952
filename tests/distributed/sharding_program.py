"""A program for PyTorch and for flambeau's runner: losses and states of sharded models."""

import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP  # noqa: N817
from torch.distributed.fsdp import ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def whole(t):
    return t.full_tensor() if isinstance(t, DTensor) else t


def made():
    model = nn.Sequential(
        nn.Linear(5, 6), nn.GELU(), nn.Sequential(nn.Linear(6, 7), nn.Tanh()), nn.Linear(7, 3)
    ).double()
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(
                torch.sin(torch.arange(p.numel(), dtype=torch.float64) * (k + 1)).view(p.shape) / 2
            )
    return model


def batch(k, rank):
    return torch.cos(torch.arange(20, dtype=torch.float64) * (k + 1) + rank).view(4, 5)


def clip(model):
    return nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def unclipped(model):
    return torch.zeros(())


def trained(name, model, rank, clip, spread=True):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for k in range(3):
        optimizer.zero_grad()
        loss = whole(model(batch(k, rank if spread else 0))).square().mean()
        loss.backward()
        norm = clip(model)
        optimizer.step()
        out.append((name, k, loss.item(), float(whole(norm))))
    for key, value in model.state_dict().items():
        v = whole(value)
        out.append((name, key, v.sum().item(), v.square().sum().item()))


warnings.simplefilter("ignore")
out = []
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
mesh = init_device_mesh("cpu", (size,))
model = made()
fully_shard(model[2], mesh=mesh)
fully_shard(model, mesh=mesh)
trained("fully_shard", model, rank, clip)
for strategy in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"):
    for originals in (False, True):
        model = FSDP(
            made(),
            sharding_strategy=ShardingStrategy[strategy],
            use_orig_params=originals,
            auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}),
            device_id=torch.device("cpu"),
        )
        trained(f"{strategy} {originals}", model, rank, unclipped)
model = parallelize_module(made(), mesh, {"0": ColwiseParallel(), "2.0": RowwiseParallel()})
trained("tensor parallel", model, rank, unclipped, spread=False)
x = distribute_tensor(batch(1, 0), mesh, [Shard(0)])
for p in ([Replicate()], [Shard(1)]):
    y = x.redistribute(placements=p)
    out.append(("redistribute", str(p), tuple(y.to_local().shape), y.to_local().sum().item()))
for name, y in {
    "sum": x.sum(0),
    "mm": x.t() @ x,
    "soft": x.softmax(1),
    "mul": x * 2,
    "mean": x.mean(),
    "cat": torch.cat([x, x]),
    "view": x.view(2, 2, 5),
    "T": x.t(),
    "max": x.amax(1),
}.items():
    out.append((name, str(y.placements), whole(y).sum().item()))
parts = list(made())
stage = PipelineStage(
    nn.Sequential(*(parts[:2] if rank == 0 else parts[2:])), rank, size, torch.device("cpu")
)
losses = []
schedule = Schedule1F1B(stage, 2, loss_fn=nn.MSELoss())
args = (batch(0, 0),) if rank == 0 else ()
schedule.step(*args, target=torch.zeros(4, 3, dtype=torch.float64) if rank else None, losses=losses)
out.append(
    (
        "pipeline",
        [v.item() for v in losses],
        [p.grad.sum().item() for p in stage.submod.parameters()],
    )
)
with open(os.path.join(sys.argv[1], f"{rank}.json"), "w") as file:
    json.dump(out, file)
dist.barrier()
dist.destroy_process_group()
