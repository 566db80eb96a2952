"""A variational autoencoder: digits become points in a plane, and points become digits again.

The encoder gives a mean and a variance for every digit, the decoder draws from a point in between;
the loss weighs how well digits come back against how far the points are from a normal
distribution. At the end a sheet of digits is drawn from a grid of points.
"""

import argparse
from pathlib import Path

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils.data import DataLoader, TensorDataset
from flambeau.vision.datasets import Digits
from flambeau.vision.utils import save_image

PIXELS = 64


class VAE(nn.Module):
    """Pixels to two numbers, with their uncertainty, and back."""

    def __init__(self, hidden, latent=2):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(PIXELS, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.mean, self.log_variance = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, PIXELS),
        )

    def encode(self, x):
        h = self.encoder(x)
        return self.mean(h), self.log_variance(h)

    def forward(self, x):
        mean, log_variance = self.encode(x)
        # the draw as a function of mean and variance, so that gradients pass through it
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(z), mean, log_variance


def loss_of(model, x):
    """Reconstruction and distance from the standard normal distribution, per digit."""
    scores, mean, log_variance = model(x)
    reconstruction = F.binary_cross_entropy_with_logits(scores, x, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
    return (reconstruction + divergence) / len(x)


def sheet(model, count):
    """Digits at count x count points, spread as the normal distribution is."""
    quantiles = torch.linspace(0.05, 0.95, count)
    axis = torch.special.ndtri(quantiles)
    points = torch.cartesian_prod(axis, axis)
    with torch.no_grad():
        return model.decoder(points).sigmoid().view(-1, 1, 8, 8)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--output", type=Path, default=Path("runs/vae.png"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few epochs of a small network")
    options = parser.parse_args(arguments)
    if options.quick:
        options.epochs, options.hidden = 5, 64
    torch.manual_seed(options.seed)

    digits, unseen = (Digits(train=train).data.view(-1, PIXELS) / 255 for train in (True, False))
    loader = DataLoader(TensorDataset(digits), batch_size=64, shuffle=True)
    model = VAE(options.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(1, options.epochs + 1):
        total = 0.0
        for (x,) in loader:
            loss = loss_of(model, x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        if epoch == 1 or epoch % max(1, options.epochs // 6) == 0:
            with torch.no_grad():
                test = loss_of(model, unseen).item()
            print(f"epoch {epoch:3d}  loss {total / len(digits):.2f}  unseen digits {test:.2f}")

    options.output.parent.mkdir(parents=True, exist_ok=True)
    images = F.interpolate(sheet(model, 16), scale_factor=4, mode="bilinear")
    save_image(images, options.output, nrow=16, padding=1)
    print(f"written: {options.output}")
    return test


if __name__ == "__main__":
    main()
