"""Large batches in little memory: gradient accumulation and activation checkpointing.

Part one trains the same network with batches of 64 and with four batches of 16 whose gradients add
up before each step: the weights stay the same. Part two runs a deep network with and without
`checkpoint_sequential`, which forgets activations and computes them again in backward: the
gradients stay the same while fewer activations are kept.
"""

import argparse
import time

import flambeau as torch
from flambeau import nn
from flambeau.autograd.graph import saved_tensors_hooks
from flambeau.utils.checkpoint import checkpoint_sequential


def network(width, depth):
    layers = [nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth)]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def train(model, x, y, steps, batch, parts):
    """Every step sees `batch` samples, `batch // parts` at a time."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    micro = batch // parts
    losses = []
    for step in range(steps):
        start = step * batch % len(x)
        optimizer.zero_grad()
        total = 0.0
        for part in range(parts):
            rows = slice(start + part * micro, start + (part + 1) * micro)
            # the mean over a part counts as much as the part is of the whole
            loss = nn.functional.mse_loss(model(x[rows]), y[rows]) / parts
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


class Kept:
    """Counts the bytes that a forward pass keeps for backward."""

    def __enter__(self):
        self.storages = {}
        self.hooks = saved_tensors_hooks(self.pack, lambda tensor: tensor)
        self.hooks.__enter__()
        return self

    def pack(self, tensor):
        storage = tensor.untyped_storage()
        self.storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    def __exit__(self, *error):
        self.hooks.__exit__(*error)

    @property
    def megabytes(self):
        return sum(self.storages.values()) / 1e6


def accumulation(options):
    x = torch.randn(512, options.width)
    y = x.square().mean(1, keepdim=True)
    curves, weights = [], []
    for parts in (1, 4):
        torch.manual_seed(options.seed)
        model = network(options.width, 2)
        curves.append(train(model, x, y, options.steps, batch=64, parts=parts))
        weights.append(nn.utils.parameters_to_vector(model.parameters()).detach())
    print(f"one batch of 64: loss {curves[0][0]:.4f} -> {curves[0][-1]:.4f}")
    print(f"four of 16:      loss {curves[1][0]:.4f} -> {curves[1][-1]:.4f}")
    difference = (weights[0] - weights[1]).abs().max().item()
    print(f"largest difference of a weight: {difference:.1e}\n")
    return difference


def checkpointing(options):
    torch.manual_seed(options.seed)
    model = network(options.width, options.depth)
    x = torch.randn(options.batch, options.width)
    results = []
    for segments in (None, max(2, int(options.depth**0.5))):
        model.zero_grad()
        begin = time.perf_counter()
        with Kept() as kept:
            if segments is None:
                output = model(x)
            else:
                output = checkpoint_sequential(model, segments, x, use_reentrant=False)
        output.square().mean().backward()
        milliseconds = 1e3 * (time.perf_counter() - begin)
        name = "all kept" if segments is None else f"{segments} segments"
        print(f"{name:<12} {kept.megabytes:7.2f} MB kept  {milliseconds:6.1f} ms")
        results.append((kept.megabytes, [p.grad.clone() for p in model.parameters()]))
    (all_kept, gradients), (few_kept, again) = results
    assert all(torch.equal(a, b) for a, b in zip(gradients, again)), "gradients differ"
    print("the gradients are the same, bit by bit")
    return few_kept / all_kept


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--depth", type=int, default=36)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="smaller and shorter")
    options = parser.parse_args(arguments)
    if options.quick:
        options.width, options.depth, options.batch, options.steps = 16, 9, 64, 20
    torch.manual_seed(options.seed)
    return accumulation(options), checkpointing(options)


if __name__ == "__main__":
    main()
