"""Handwritten digits with tensors and autograd, nothing else: no layers, no optimizer.

Two matrices and two biases learn to read 1,437 images of 8 x 8 pixels and are then asked about 360
others. The loss is written out by hand, so every step from pixels to gradient is on this page.
Replace the import by `import torch` and the program prints the same losses: the random numbers are
PyTorch's own.

Run it with `python examples/digits.py` where flambeau is installed.
"""

import sys
import time
from pathlib import Path

import numpy as np

import flambeau as torch

DATA = Path(__file__).parent.parent / "flambeau/vision/datasets/digits.npz"
SEED = 0
TRAINING = 1437  # images to learn from; the other 360 are for the test
HIDDEN = 64
EPOCHS = 20
BATCH = 32
LEARNING_RATE = 0.5
SHOWN = 6  # digits drawn at the end
SHADES = " .:-=+*#@"


def read_digits():
    """Images as (count, 64) floats in [0, 1] and their labels, in an order drawn from the seed."""
    with np.load(DATA) as file:
        images = torch.from_numpy(file["images"]).float().reshape(-1, 64) / 16
        labels = torch.from_numpy(file["labels"]).long()
    order = torch.randperm(len(labels))
    return images[order], labels[order]


def new_parameters():
    """Weights and biases of two layers; the scale keeps the first activations near one."""
    w1 = torch.randn(64, HIDDEN) * (2 / 64) ** 0.5
    w2 = torch.randn(HIDDEN, 10) * (1 / HIDDEN) ** 0.5
    parameters = [w1, torch.zeros(HIDDEN), w2, torch.zeros(10)]
    return [parameter.requires_grad_() for parameter in parameters]


def forward(parameters, images):
    """One score per image and digit."""
    w1, b1, w2, b2 = parameters
    return torch.relu(images @ w1 + b1) @ w2 + b2


def cross_entropy(scores, labels):
    """Mean of -log softmax(scores)[label]."""
    right = scores.gather(1, labels[:, None]).squeeze(1)
    return (scores.logsumexp(dim=1) - right).mean()


def step(parameters, images, labels):
    """One step downhill on one batch; the loss before the step."""
    loss = cross_entropy(forward(parameters, images), labels)
    loss.backward()
    with torch.no_grad():
        for parameter in parameters:
            parameter -= LEARNING_RATE * parameter.grad
            parameter.grad = None
    return loss.item()


def accuracy(parameters, images, labels):
    """Share of the images whose highest score is at their label."""
    with torch.no_grad():
        return (forward(parameters, images).argmax(dim=1) == labels).float().mean().item()


def progress(epoch, done, total, loss):
    """Redraw the bar of this epoch; where the output is a file, print its last state only."""
    last = done == total
    if last or sys.stdout.isatty():
        filled = 24 * done // total
        bar = "#" * filled + "." * (24 - filled)
        text = f"epoch {epoch:2d}/{EPOCHS} [{bar}] loss {loss:.4f}"
        print("\r" * sys.stdout.isatty() + text, end="\n" if last else "", flush=True)


def train(parameters, images, labels):
    """Go through the images EPOCHS times, each time in a new order."""
    for epoch in range(1, EPOCHS + 1):
        total = 0.0
        batches = torch.randperm(len(labels)).split(BATCH)
        for done, batch in enumerate(batches, 1):
            total += step(parameters, images[batch], labels[batch])
            progress(epoch, done, len(batches), total / done)


def draw(images, labels, guesses):
    """Print images side by side as text, each over what the network reads in it."""
    pictures = (images * (len(SHADES) - 1)).round().long().reshape(-1, 8, 8).tolist()
    for row in range(8):
        lines = ("".join(SHADES[level] * 2 for level in picture[row]) for picture in pictures)
        print("  ".join(lines).rstrip())
    captions = (
        f"read as {guess}" + ("" if guess == label else f", is {label}")
        for guess, label in zip(guesses.tolist(), labels.tolist(), strict=True)
    )
    print("  ".join(caption.center(16) for caption in captions).rstrip())


def main():
    torch.manual_seed(SEED)
    images, labels = read_digits()
    parameters = new_parameters()
    start = time.perf_counter()
    train(parameters, images[:TRAINING], labels[:TRAINING])
    seconds = time.perf_counter() - start
    images, labels = images[TRAINING:], labels[TRAINING:]
    with torch.no_grad():
        guesses = forward(parameters, images[:SHOWN]).argmax(dim=1)
    print()
    draw(images[:SHOWN], labels[:SHOWN], guesses)
    share = accuracy(parameters, images, labels)
    print(f"\ntest accuracy {share:.4f} on {len(labels)} images, trained in {seconds:.1f} s")


if __name__ == "__main__":
    main()
