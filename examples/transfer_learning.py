"""Transfer learning from a saved file: who can read digits soon learns another thing about them.

First a network learns to read digits and is saved. Then a new question is asked, whether a digit
has a loop (0, 6, 8 and 9 have one), with only a few examples: once from nothing, once with the
saved features, frozen under a new last layer, and once more with all layers free at a small rate.
"""

import argparse
from pathlib import Path

import flambeau as torch
from flambeau import nn
from flambeau.utils.data import DataLoader, TensorDataset
from flambeau.vision.datasets import Digits

LOOPS = torch.tensor([1, 0, 0, 0, 0, 0, 1, 0, 1, 1])  # which digits have one


class Network(nn.Module):
    """Features and scores, apart, so that the scores can be replaced."""

    def __init__(self, classes, width):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * width, 2 * width),
            nn.ReLU(),
        )
        self.scores = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.scores(self.features(x))


def digits(train):
    """Images and the digits they show."""
    data = Digits(train=train)
    return TensorDataset(data.data[:, None] / 255, data.targets)


def loops(data, each=None):
    """The same images with the new question; at most `each` of every digit."""
    images, labels = data.tensors
    if each is not None:
        places = torch.cat([(labels == digit).nonzero()[:each, 0] for digit in range(10)])
        images, labels = images[places], labels[places]
    return TensorDataset(images, LOOPS[labels])


def train(model, data, epochs, rate):
    """Train whatever is not frozen."""
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(weights, lr=rate)
    for _ in range(epochs):
        for x, y in DataLoader(data, batch_size=32, shuffle=True):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model, data):
    images, labels = data.tensors
    return (model(images).argmax(1) == labels).float().mean().item()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--each", type=int, default=2, help="examples of each digit in the second task"
    )
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--output", type=Path, default=Path("runs/features.pt"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small network, few epochs")
    options = parser.parse_args(arguments)
    if options.quick:
        options.epochs, options.width = 15, 16
    torch.manual_seed(options.seed)
    options.output.parent.mkdir(parents=True, exist_ok=True)

    first = Network(10, options.width)
    train(first, digits(True), options.epochs, 1e-3)
    print(f"digits: {accuracy(first, digits(False)):.1%} right; saved as {options.output}")
    torch.save(first.state_dict(), options.output)

    few, test = loops(digits(True), options.each), loops(digits(False))
    scratch = Network(2, options.width)
    train(scratch, few, 10 * options.epochs, 1e-3)

    tuned = Network(2, options.width)
    saved = torch.load(options.output)
    features = {name: value for name, value in saved.items() if not name.startswith("scores")}
    missing, unexpected = tuned.load_state_dict(features, strict=False)
    assert missing == ["scores.weight", "scores.bias"] and not unexpected
    tuned.features.requires_grad_(False)
    train(tuned, few, 10 * options.epochs, 3e-3)
    frozen = accuracy(tuned, test)
    tuned.features.requires_grad_(True)
    train(tuned, few, options.epochs, 2e-4)

    result = accuracy(scratch, test), frozen, accuracy(tuned, test)
    print(f"loops, from {len(few)} examples:")
    for name, value in zip(("from nothing", "saved features", "then fine-tuned"), result):
        print(f"  {name:<16}{value:.1%} right")
    return result


if __name__ == "__main__":
    main()
