"""What child processes of test_multiprocessing.py do; they import this file."""

import os
import signal
import sys
import time

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


def echo(received, answers, done):
    """Send back what comes, written to; until None comes."""
    while (item := received.get()) is not None:
        if isinstance(item, torch.Tensor) and item.numel() and not item.is_meta:
            with torch.no_grad():
                item.add_(1)
        answers.put(item)
    done.wait(30)


def describe(received, answers):
    """Tell what has arrived."""
    item = received.get()
    facts = [
        (
            type(t).__name__, str(t.dtype), tuple(t.shape), t.stride(), t.storage_offset(),
            t.requires_grad, t.is_leaf, t.is_meta, t.is_shared(),
            None if t.is_meta else t.tolist(),
        )
        for t in item
    ]  # fmt: skip
    answers.put((facts, len({t.untyped_storage() for t in item if not t.is_meta})))


def fill(tensor, value):
    tensor.fill_(value)


def fill_model(model):
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.25)
        model.running.fill_(4)


def train(rank, model, seed, steps):
    """Hogwild: several processes train one model."""
    torch.manual_seed(seed + rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        x = torch.randn(16, 4)
        y = x @ torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.register_buffer("running", torch.zeros(2))

    def forward(self, x):
        return self.layer(x)


def square(t):
    return t * t


def by_rank(rank, results, factor):
    results[rank] = factor * rank


def fail(rank, how):
    if rank != 1:
        time.sleep(60)
    if how == "raise":
        raise ValueError("the reason")
    if how == "exit":
        sys.exit(5)
    os.kill(os.getpid(), signal.SIGKILL)


def fail_beside_the_deaf(rank, ready):
    """Process 0 does not hear SIGTERM, process 1 fails, process 2 ends by itself."""
    if rank == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ready.set()
        time.sleep(60)
    ready.wait()
    if rank == 1:
        raise ValueError("the reason")


def compute(queue, tensor):
    """Enough work for the thread pool."""
    queue.put((tensor @ tensor).sum().item())


def backward(queue):
    x = torch.randn(50, 50, requires_grad=True)
    (x @ x).sum().backward()
    queue.put(x.grad.shape)
