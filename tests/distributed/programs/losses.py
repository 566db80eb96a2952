"""Losses of DDP models on every rank, for comparison with those of PyTorch's gloo.

python -m flambeau torchrun --standalone --nproc_per_node=2 losses.py (or with PyTorch's torchrun)
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817


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


class Sometimes(nn.Module):
    """Uses one of its branches, another one on each rank and in each step."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(nn.Linear(6, 3) for _ in range(3))
        self.step = 0

    def forward(self, x):
        self.step += 1
        return self.branches[(self.step + dist.get_rank()) % 2](x)


def models():
    yield "mlp", nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)), (8, 6), {}
    conv = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)
    )
    yield "convnet", conv, (8, 1, 8, 8), {"bucket_cap_mb": 0.001}
    yield "tied", Tied(), (8, 5), {"gradient_as_bucket_view": True}
    yield "unused", Sometimes(), (8, 6), {"find_unused_parameters": True}


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for name, model, shape, options in models():
        torch.manual_seed(3)
        model = DDP(model.double(), **options)
        with torch.no_grad():
            for p in model.parameters():
                p.normal_(0, 0.3)
        torch.manual_seed(100 + rank)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for _ in range(4):
            if name == "tied":
                x = torch.randint(0, 11, shape)
            else:
                x = torch.randn(shape, dtype=torch.float64)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), torch.randint(0, 3, (8,)))
            loss.backward()
            optimizer.step()
            losses.append(f"{loss.item():.9f}")
        line = " ".join(["losses", str(rank), name, *losses]) + "\n"
        print(line, end="", flush=True)  # in one piece, for both ranks write to one place
    dist.barrier()  # nobody leaves while another one still sends
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
