"""A first DDP program as tutorials write it: processes from mp.spawn, a checkpoint, gloo.

python -m flambeau first_steps.py (or with PyTorch: python first_steps.py)
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817


def setup(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def cleanup():
    dist.destroy_process_group()


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.outer = nn.Linear(10, 5)

    def forward(self, x):
        return self.outer(self.relu(self.inner(x)))


def basic(rank, world_size, port):
    setup(rank, world_size, port)
    torch.manual_seed(rank)
    model = DDP(ToyModel())
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = loss_fn(model(torch.randn(20, 10)), torch.randn(20, 5))
        loss.backward()
        optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if rank == 0:
        print(f"basic {total.item() / world_size:.4f}", flush=True)
    cleanup()


def checkpoint(rank, world_size, port, path):
    setup(rank, world_size, port)
    torch.manual_seed(0)
    model = DDP(ToyModel())
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()  # nobody reads what is not written
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 10) * (rank + 1)).pow(2).mean()
        loss.backward()
        optimizer.step()
    norms = [torch.zeros(1) for _ in range(world_size)]
    mine = torch.stack([p.detach().norm() for p in model.parameters()]).sum().reshape(1)
    dist.all_gather(norms, mine)
    assert all(torch.equal(norms[0], n) for n in norms)
    dist.barrier()
    if rank == 0:
        os.remove(path)
        print(f"checkpoint {norms[0].item():.4f}", flush=True)
    cleanup()


def neighbours(rank, world_size, port):
    """Messages around a ring, and averages by hand."""
    setup(rank, world_size, port)
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    token = torch.tensor([float(rank)])
    for _ in range(world_size - 1):
        request = dist.isend(token.clone(), right)
        dist.recv(token, left)
        request.wait()
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    model(torch.full((2, 4), float(rank))).sum().backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad /= world_size
    if rank == 0:
        print(f"ring {token.item():.0f} {model.weight.grad.sum().item():.4f}", flush=True)
    cleanup()


if __name__ == "__main__":
    size, first_port = 2, int(sys.argv[1])
    file = os.path.join(tempfile.gettempdir(), f"first_steps_{first_port}.pt")
    mp.spawn(basic, args=(size, first_port), nprocs=size, join=True)
    mp.spawn(checkpoint, args=(size, first_port, file), nprocs=size, join=True)
    mp.spawn(neighbours, args=(size, first_port), nprocs=size, join=True)
