"""A ResNet on CIFAR-10, with the usual augmentation, in epochs that can be interrupted.

`--data FOLDER` reads CIFAR-10 there (and downloads it with `--download`); without it random images
stand in, to try the program out. Weights, optimizer, schedule, random numbers and the place in the
data are saved after every epoch; `--resume` goes on from there and gives the very same run.
"""

import argparse
import time
from pathlib import Path

import flambeau as torch
from flambeau import nn
from flambeau.utils.data import DataLoader
from flambeau.utils.training_state import training_state
from flambeau.vision import datasets, transforms

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels, filters, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(filters)
        self.around = nn.Sequential()
        if stride != 1 or channels != filters:
            self.around = nn.Sequential(
                nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters)
            )

    def forward(self, x):
        y = self.bn1(self.conv1(x)).relu()
        return (self.bn2(self.conv2(y)) + self.around(x)).relu()


class ResNet(nn.Module):
    """The ResNet for images of 32 x 32: three stages of `depth` blocks."""

    def __init__(self, depth=3, width=16, classes=10):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        blocks, channels = [], width
        for stage in range(3):
            for place in range(depth):
                stride = 2 if stage and not place else 1
                blocks.append(Block(channels, width << stage, stride))
                channels = width << stage
        self.blocks = nn.Sequential(*blocks)
        self.scores = nn.Linear(channels, classes)

    def forward(self, x):
        return self.scores(self.blocks(self.stem(x)).mean((2, 3)))


def sets(options):
    """Images to learn from and images to be tested on."""
    plain = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)])
    moved = transforms.Compose(
        [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(), plain]
    )
    if options.data is None:
        print("no --data: random images stand in for CIFAR-10")
        count = 96 if options.quick else 2000
        return (
            datasets.FakeData(count, (3, 32, 32), 10, moved),
            datasets.FakeData(count // 4, (3, 32, 32), 10, plain, random_offset=count),
        )
    arguments = dict(root=options.data, download=options.download)
    return (
        datasets.CIFAR10(train=True, transform=moved, **arguments),
        datasets.CIFAR10(train=False, transform=plain, **arguments),
    )


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="the folder of CIFAR-10")
    parser.add_argument("--download", action="store_true", help="fetch it if it is not there")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--depth", type=int, default=3, help="3 gives ResNet-20, 9 ResNet-56")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--workers", type=int, default=0, help="processes that load images")
    parser.add_argument("--output", type=Path, default=Path("runs/resnet_cifar.pt"))
    parser.add_argument("--resume", action="store_true", help="go on from the saved file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two epochs of a tiny network")
    options = parser.parse_args(arguments)
    if options.quick:
        options.epochs, options.depth, options.batch = 2, 1, 32
    torch.manual_seed(options.seed)

    training, testing = sets(options)
    model = ResNet(options.depth, width=4 if options.quick else 16)
    loader = DataLoader(training, options.batch, shuffle=True, num_workers=options.workers)
    tests = DataLoader(testing, 4 * options.batch, num_workers=options.workers)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(loader))
    state = training_state(
        model=model, optimizer=optimizer, schedule=schedule, loader=loader, epoch=0
    )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    first = 1
    if options.resume:
        state.load(options.output)
        first = state.epoch + 1
        print(f"going on with epoch {first}")

    losses = []
    for epoch in range(first, options.epochs + 1):
        begin, total = time.perf_counter(), 0.0
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        losses.append(total / len(loader))
        right = accuracy(model, tests)
        rate = len(training) / (time.perf_counter() - begin)
        print(f"epoch {epoch}  loss {losses[-1]:.4f}  right {right:.2%}  {rate:.0f} images/s")
        state.epoch = epoch
        state.save(options.output)
    print(f"written: {options.output}")
    return losses


if __name__ == "__main__":
    main()
