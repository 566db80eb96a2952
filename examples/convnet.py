"""The demo: a convolutional network reads handwritten digits, with all that a training run needs.

Data loading and augmentation, a progress bar, validation, a learning rate schedule, early stopping,
a TensorBoard log, a checkpoint, a picture of the graph and one of the losses. The digits come with
flambeau; `--mnist FOLDER` reads MNIST's files instead. Run `make demo`, or
`python examples/convnet.py` where flambeau and its `demo` extra are installed.
"""

import argparse
import time
from pathlib import Path

from tqdm import tqdm

import flambeau as torch
from flambeau import nn, viz
from flambeau.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from flambeau.utils.data import DataLoader, Subset
from flambeau.utils.early_stopping import EarlyStopping
from flambeau.utils.tensorboard import SummaryWriter
from flambeau.vision import datasets, transforms

BILINEAR = transforms.InterpolationMode.BILINEAR


class Network(nn.Module):
    """Two pairs of convolutions, each followed by a pooling, and one layer of scores."""

    def __init__(self, size=8, width=32, classes=10):
        super().__init__()

        def pair(channels, filters):
            layers = []
            for before in (channels, filters):
                layers += [nn.Conv2d(before, filters, 3, padding=1, bias=False)]
                layers += [nn.BatchNorm2d(filters), nn.ReLU()]
            return [*layers, nn.MaxPool2d(2), nn.Dropout(0.2)]

        self.features = nn.Sequential(*pair(1, width), *pair(width, 2 * width))
        self.scores = nn.Linear(2 * width * (size // 4) ** 2, classes)

    def forward(self, images):
        return self.scores(self.features(images).flatten(1))


def loaders(options):
    """Batches for training (moved and turned a little), for validation and for the test."""
    plain = transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.3, 0.35)])
    moved = transforms.Compose(
        [transforms.RandomAffine(10, (0.1, 0.1), (0.9, 1.1), 8, BILINEAR), plain]
    )
    if options.mnist:
        source, extra = datasets.MNIST, dict(root=options.mnist)
    else:
        source, extra = datasets.Digits, {}
    augmented = source(train=True, transform=moved, **extra)
    unchanged = source(train=True, transform=plain, **extra)
    test = source(train=False, transform=plain, **extra)
    order = torch.randperm(len(augmented)).tolist()
    border = len(order) // 10
    return (
        DataLoader(Subset(augmented, order[border:]), batch_size=64, shuffle=True),
        DataLoader(Subset(unchanged, order[:border]), batch_size=256),
        DataLoader(test, batch_size=256),
    )


@torch.no_grad()
def evaluate(model, loader):
    """Mean loss and share of right answers."""
    model.eval()
    loss = right = count = 0
    for images, labels in loader:
        scores = model(images)
        loss += nn.functional.cross_entropy(scores, labels, reduction="sum").item()
        right += (scores.argmax(1) == labels).sum().item()
        count += len(labels)
    model.train()
    return loss / count, right / count


def train(model, training, validation, options, writer):
    """Epochs until validation stops improving; the running average of the model, and the curves."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=5e-3, total_steps=options.epochs * len(training)
    )
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.97), use_buffers=True)
    stopping = EarlyStopping(patience=12)
    curves = {"training": [], "validation": []}
    bar = tqdm(total=options.epochs * len(training), unit="batch", disable=options.silent)
    for epoch in range(1, options.epochs + 1):
        total = 0.0
        for images, labels in training:
            loss = nn.functional.cross_entropy(model(images), labels, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            average.update_parameters(model)
            total += loss.item()
            bar.update()
        valid, accuracy = evaluate(average.module, validation)
        curves["training"].append(total / len(training))
        curves["validation"].append(valid)
        writer.add_scalars("loss", {name: values[-1] for name, values in curves.items()}, epoch)
        writer.add_scalar("accuracy/validation", accuracy, epoch)
        writer.add_scalar("learning rate", schedule.get_last_lr()[0], epoch)
        writer.add_histogram("scores/weight", model.scores.weight, epoch)
        bar.set_postfix(epoch=epoch, loss=f"{valid:.4f}", accuracy=f"{accuracy:.2%}")
        if stopping(valid, average.module):
            break
    bar.close()
    stopping.restore(average.module)
    print(f"trained {epoch} epochs; the best was number {stopping.best_epoch + 1}")
    return average.module, curves


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=25, help="epochs at most")
    parser.add_argument("--mnist", metavar="FOLDER", help="read MNIST from here, 28 x 28 pixels")
    parser.add_argument("--output", type=Path, default=Path("runs/demo"), help="where files go")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two epochs of a small network")
    parser.add_argument("--silent", action="store_true", help="no progress bar")
    options = parser.parse_args(arguments)
    if options.quick:
        options.epochs = 2
    begin = time.perf_counter()
    torch.manual_seed(options.seed)
    options.output.mkdir(parents=True, exist_ok=True)

    training, validation, test = loaders(options)
    images, _ = next(iter(validation))
    model = Network(images.shape[-1], width=8 if options.quick else 32)
    print(viz.summary(model, input_data=images[:1]))
    with SummaryWriter(options.output / "log") as writer:
        writer.add_graph(model, images[:1])
        writer.add_images("digits", images[:16].clamp(0, 1))
        model, curves = train(model, training, validation, options, writer)
        loss, accuracy = evaluate(model, test)
        writer.add_hparams({"epochs": options.epochs}, {"test accuracy": accuracy})

    checkpoint, graph = options.output / "checkpoint.pt", options.output / "graph.svg"
    torch.save(model.state_dict(), checkpoint)
    graph.write_text(viz.graph_svg(model(images[:1]), dict(model.named_parameters())))
    viz.plot_losses(curves, title="Handwritten digits").save(options.output / "losses.svg")
    restored = Network(images.shape[-1], width=8 if options.quick else 32)
    restored.load_state_dict(torch.load(checkpoint))
    assert evaluate(restored, test)[1] == accuracy, "the checkpoint differs from the model"

    seconds = time.perf_counter() - begin
    print(f"test: {accuracy:.2%} of {len(test.dataset)} digits right, loss {loss:.4f}")
    print(f"{seconds:.1f} s in all\n\nwritten:")
    print(f"  {checkpoint}  weights; PyTorch can load them too")
    print(f"  {graph}  the graph of backward")
    print(f"  {options.output / 'losses.svg'}  loss by epoch")
    print(f"  {options.output / 'log'}  for tensorboard --logdir {options.output / 'log'}")
    print(f"\nnext: python -m flambeau inspect {checkpoint}")
    print("      python examples/char_gpt.py, and the other programs in examples/")
    return accuracy


if __name__ == "__main__":
    main()
