"""A DCGAN: one network draws digits, another tells drawn digits from real ones.

Both are convolutional; each learns from the other's mistakes. The drawings of the same sixty-four
random points are saved after every few epochs, so the pictures show how drawing is learnt.
"""

import argparse
from pathlib import Path

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils.data import DataLoader, TensorDataset
from flambeau.vision.datasets import Digits
from flambeau.vision.utils import save_image

SIZE = 16


def generator(latent, width):
    """Random points to images in [-1, 1]."""
    return nn.Sequential(
        nn.ConvTranspose2d(latent, 4 * width, 4, bias=False),
        nn.BatchNorm2d(4 * width),
        nn.ReLU(),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * width, 1, 4, stride=2, padding=1, bias=False),
        nn.Tanh(),
    )


def discriminator(width):
    """Images to one score: high for real ones."""
    return nn.Sequential(
        nn.Conv2d(1, width, 4, stride=2, padding=1, bias=False),
        nn.LeakyReLU(0.2),
        nn.Dropout2d(0.2),
        nn.Conv2d(width, 2 * width, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.LeakyReLU(0.2),
        nn.Dropout2d(0.2),
        nn.Conv2d(2 * width, 1, 4, bias=False),
        nn.Flatten(0),
    )


def initialize(module):
    """Small normal weights, as the paper has them."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--width", type=int, default=32, help="channels of the smallest layer")
    parser.add_argument("--latent", type=int, default=32, help="numbers that a drawing starts from")
    parser.add_argument("--output", type=Path, default=Path("runs/dcgan"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="one epoch of small networks")
    options = parser.parse_args(arguments)
    if options.quick:
        options.epochs, options.width, options.latent = 1, 8, 8
    torch.manual_seed(options.seed)
    options.output.mkdir(parents=True, exist_ok=True)

    images = Digits(size=SIZE).data[:, None] / 127.5 - 1
    loader = DataLoader(TensorDataset(images), batch_size=64, shuffle=True, drop_last=True)
    draw = generator(options.latent, options.width).apply(initialize)
    judge = discriminator(options.width).apply(initialize)
    settings = dict(lr=4e-4, betas=(0.5, 0.999))
    draw_optimizer = torch.optim.Adam(draw.parameters(), **settings)
    judge_optimizer = torch.optim.Adam(judge.parameters(), **settings)
    points = torch.randn(64, options.latent, 1, 1)

    for epoch in range(1, options.epochs + 1):
        judged = fooled = 0.0
        for (real,) in loader:
            fake = draw(torch.randn(len(real), options.latent, 1, 1))
            # real images are called real with some doubt, which keeps the judge from certainty
            yes, no = torch.full((len(real),), 0.9), torch.zeros(len(real))
            judge_loss = F.binary_cross_entropy_with_logits(judge(real), yes)
            judge_loss = judge_loss + F.binary_cross_entropy_with_logits(judge(fake.detach()), no)
            judge_optimizer.zero_grad()
            judge_loss.backward()
            judge_optimizer.step()

            draw_loss = F.binary_cross_entropy_with_logits(judge(fake), torch.ones(len(real)))
            draw_optimizer.zero_grad()
            draw_loss.backward()
            draw_optimizer.step()
            judged += judge_loss.item() / len(loader)
            fooled += draw_loss.item() / len(loader)
        if epoch == 1 or epoch % max(1, options.epochs // 6) == 0:
            draw.eval()
            with torch.no_grad():
                drawn = draw(points)
            draw.train()
            path = options.output / f"epoch_{epoch:03d}.png"
            save_image(F.interpolate(drawn, scale_factor=3), path, normalize=True, padding=2)
            print(f"epoch {epoch:3d}  judge {judged:.3f}  draw {fooled:.3f}  {path}")
    return judged, fooled


if __name__ == "__main__":
    main()
