"""Functions with derivatives of their own: `autograd.Function`, checked and used in a network.

Three of them: a rounding whose gradient passes straight through, a fused softplus that keeps one
tensor instead of several, and a norm whose backward has a derivative again. Each is compared with
finite differences before a small network with quantized activations is trained on two spirals.
"""

import argparse
import math

import flambeau as torch
from flambeau import nn


class Round(torch.autograd.Function):
    """Round to one of `levels` values in [0, 1]; gradients pass as if nothing had happened."""

    @staticmethod
    def forward(ctx, x, levels):
        ctx.save_for_backward((x >= 0) & (x <= 1))
        return (x.clamp(0, 1) * (levels - 1)).round() / (levels - 1)

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad * inside, None


class Softplus(torch.autograd.Function):
    """log(1 + exp(x)) without overflow; only the sigmoid is kept."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.sigmoid())
        return x.clamp(min=0) + (-x.abs()).exp().log1p()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (sigmoid,) = ctx.saved_tensors
        return grad * sigmoid


class Length(torch.autograd.Function):
    """The length of each row; written with tensors, so it can be differentiated twice."""

    @staticmethod
    def forward(ctx, x):
        length = x.square().sum(-1, keepdim=True).sqrt()
        ctx.save_for_backward(x, length)
        return length.squeeze(-1)

    @staticmethod
    def backward(ctx, grad):
        x, _ = ctx.saved_tensors
        return grad.unsqueeze(-1) * x / Length.apply(x).unsqueeze(-1)


class Quantized(nn.Module):
    """An activation with few levels."""

    def __init__(self, levels):
        super().__init__()
        self.levels = levels

    def forward(self, x):
        return Round.apply(torch.sigmoid(x), self.levels)


def spirals(count):
    """Two spirals around each other."""
    turn = torch.linspace(0.25, 1, count) * 2 * math.pi
    arm = torch.stack([turn.cos(), turn.sin()], 1) * turn[:, None] / math.pi
    points = torch.cat([arm, -arm]) + 0.05 * torch.randn(2 * count, 2)
    return points, torch.arange(2).repeat_interleave(count)


def check():
    """Derivatives against finite differences."""
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Softplus.apply, (x,))
    assert torch.autograd.gradcheck(Length.apply, (x,))
    assert torch.autograd.gradgradcheck(Length.apply, (x,))
    assert torch.allclose(Softplus.apply(x), nn.functional.softplus(x))
    y = torch.tensor([0.2, 0.8, 1.5], requires_grad=True)
    Round.apply(y, 3).sum().backward()
    assert y.grad.tolist() == [1, 1, 0]
    print("derivatives agree with finite differences")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--levels", type=int, default=4, help="values that an activation can take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="fewer epochs")
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    check()
    points, labels = spirals(200)
    model = nn.Sequential(
        nn.Linear(2, 64), Quantized(options.levels), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    epochs = 60 if options.quick else options.epochs
    for epoch in range(1, epochs + 1):
        scores = model(points)
        # softplus of the difference is the cross entropy of two classes
        difference = scores.gather(1, 1 - labels[:, None]) - scores.gather(1, labels[:, None])
        loss = Softplus.apply(difference).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % (epochs // 6) == 0:
            right = (scores.argmax(1) == labels).float().mean().item()
            print(f"epoch {epoch:3d}  loss {loss.item():.4f}  accuracy {right:.3f}")
    return right


if __name__ == "__main__":
    main()
