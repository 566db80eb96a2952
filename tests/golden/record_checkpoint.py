"""Writes tests/golden/checkpoint: a checkpoint of two processes of PyTorch, with cut tensors.

python tests/golden/record_checkpoint.py (in its folder, with PyTorch)
"""

import os
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.tensor import Shard, distribute_tensor


def worker(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    mesh = dist.init_device_mesh("cpu", (2,))
    state = {
        "rows": distribute_tensor(torch.arange(10.0).view(5, 2), mesh, [Shard(0)]),
        "columns": distribute_tensor(torch.arange(6).view(2, 3), mesh, [Shard(1)]),
        "same": {"w": torch.tensor([1.5, 2.5], dtype=torch.bfloat16)},
        "epoch": 3,
        "list": [1, "two"],
    }
    dcp.save(state, checkpoint_id="checkpoint")
    dist.destroy_process_group()


if __name__ == "__main__":
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    shutil.rmtree("checkpoint", ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, (os.path.join(folder, "store"),), nprocs=2)
