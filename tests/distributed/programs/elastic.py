"""Training that survives a failure: torchrun starts it again, and it goes on from its snapshot.

python -m flambeau torchrun --standalone --nproc_per_node=2 --max_restarts=2 elastic.py FOLDER
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS = 4


class Trainer:
    def __init__(self, model, loader, optimizer, snapshot):
        self.rank = int(os.environ["RANK"])
        self.loader, self.optimizer, self.snapshot = loader, optimizer, snapshot
        self.epochs_run = 0
        self.model = model
        if os.path.exists(snapshot):
            self.load()
        self.model = DDP(self.model)

    def load(self):
        state = torch.load(self.snapshot)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epochs_run = state["epochs_run"]
        if self.rank == 0:
            print(f"going on at epoch {self.epochs_run}", flush=True)

    def save(self, epoch):
        state = {
            "model": self.model.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epochs_run": epoch + 1,
        }
        torch.save(state, self.snapshot)

    def train(self):
        for epoch in range(self.epochs_run, EPOCHS):
            self.loader.sampler.set_epoch(epoch)
            for x, y in self.loader:
                self.optimizer.zero_grad()
                loss = F.mse_loss(self.model(x), y)
                loss.backward()
                self.optimizer.step()
            if self.rank == 0:
                self.save(epoch)
            dist.barrier()
            first_attempt = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
            if epoch == 1 and first_attempt and self.rank == 1:
                os._exit(13)  # as if the machine had failed
        return loss.item()


def main(folder):
    dist.init_process_group(backend="gloo")
    torch.manual_seed(0)
    x = torch.randn(64, 5)
    dataset = TensorDataset(x, x.sum(1, keepdim=True))
    loader = DataLoader(dataset, batch_size=8, shuffle=False, sampler=DistributedSampler(dataset))
    model = torch.nn.Linear(5, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss = Trainer(model, loader, optimizer, os.path.join(folder, "snapshot.pt")).train()
    print(f"rank {os.environ['RANK']} loss {loss:.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
