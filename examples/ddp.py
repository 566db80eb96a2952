"""Handwritten digits, learned by several processes together.

Each process sees its share of 1,437 images; DistributedDataParallel averages their gradients, so
all of them hold the same weights after every step. Process 0 saves a state after each epoch, and a
run that is started again goes on from it.

python examples/ddp.py                                          two processes of this machine
python -m flambeau.distributed.run --nproc_per_node=4 examples/ddp.py     as many as a launcher says
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

import flambeau as torch
import flambeau.distributed as dist
import flambeau.multiprocessing as mp
from flambeau import nn
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.utils.data import DataLoader, TensorDataset
from flambeau.utils.data.distributed import DistributedSampler

DATA = Path(__file__).parent.parent / "flambeau/vision/datasets/digits.npz"
TRAINING = 1437  # images to learn from; the other 360 are for the test
EPOCHS = 5
BATCH = 32
CHECKPOINT = Path(tempfile.gettempdir()) / "flambeau_ddp_digits.pt"


def read_digits():
    """Two datasets: to learn from, and to be asked about."""
    with np.load(DATA) as file:
        images = torch.from_numpy(file["images"]).float().reshape(-1, 64) / 16
        labels = torch.from_numpy(file["labels"]).long()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images, labels = images[order], labels[order]
    return TensorDataset(images[:TRAINING], labels[:TRAINING]), (
        images[TRAINING:],
        labels[TRAINING:],
    )


def train():
    """What every process does once it belongs to a group; the accuracy on the test images."""
    training, (images, labels) = read_digits()
    sampler = DistributedSampler(training)
    loader = DataLoader(training, BATCH, sampler=sampler)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), 0.005)
    begin = 0
    if CHECKPOINT.exists():
        state = torch.load(CHECKPOINT)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["epoch"] + 1
    for epoch in range(begin, EPOCHS):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        total = loss.detach()
        dist.all_reduce(total, op=dist.ReduceOp.AVG)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}  loss {total.item():.3f}", flush=True)
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "epoch": epoch}, CHECKPOINT)
        dist.barrier()
    with torch.no_grad():
        return (model.module(images).argmax(1) == labels).float().mean().item()


def worker(rank, size, path):
    """One of the processes that main starts."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
    accuracy = train()
    if rank == 0:
        print(f"accuracy {accuracy:.3f}", flush=True)
        CHECKPOINT.unlink(missing_ok=True)
    dist.destroy_process_group()


def main(arguments):
    """Under a launcher this is one of its workers; otherwise it starts some of its own."""
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        accuracy = train()
        if dist.get_rank() == 0:
            print(f"accuracy {accuracy:.3f}")
            CHECKPOINT.unlink(missing_ok=True)
        dist.destroy_process_group()
        return
    size = int(arguments[0]) if arguments else 2
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, (size, os.path.join(folder, "store")), nprocs=size)


if __name__ == "__main__":
    main(sys.argv[1:])
