"""Small models of many kinds, as programs write them: (name, model, batch of arguments, loss)."""

import math

import flambeau as torch
from flambeau import nn

F = nn.functional


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.short = nn.Identity()
        if stride != 1 or inside != outside:
            self.short = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        out = F.relu(self.norm1(self.first(x)))
        return F.relu(self.norm2(self.second(out)) + self.short(x))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(40, 16), nn.Embedding(12, 16)
        self.blocks = nn.ModuleList(Block(16, 2) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 40, bias=False)
        self.drop = nn.Dropout(0.1)

    def forward(self, i):
        x = self.drop(self.tokens(i) + self.places(torch.arange(i.shape[1])))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.mean, self.spread = nn.Linear(20, 16), nn.Linear(16, 4), nn.Linear(16, 4)
        self.back = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 20))

    def forward(self, x):
        h = F.relu(self.inner(x))
        mean, spread = self.mean(h), self.spread(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * spread)
        lost = F.binary_cross_entropy_with_logits(self.back(z), x.sigmoid(), reduction="sum")
        return lost - 0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer, self.head = kind(6, 12, batch_first=True), nn.Linear(12, 5)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


class Siren(nn.Module):
    """Sines of sines, and a gate that is computed by hand."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 5)])
        self.gate = nn.Parameter(torch.ones(16))

    def forward(self, x):
        x = torch.sin(30 * self.layers[0](x))
        x = torch.sin(self.layers[1](x) * torch.sigmoid(self.gate)) + x
        return self.layers[2](x)


class Moving(nn.Module):
    """Statistics of its own, written in place, and a branch on its mode."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 5)
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        if self.training:
            self.calls += 1
            self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return self.linear(x - self.mean)


def _labels(count, classes=5):
    return lambda: torch.randint(classes, (count,))


def _numbers(*shape):
    return lambda: torch.randn(shape)


def convnet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(),
        nn.Linear(6 * 9, 5),
    )  # fmt: skip


def residual():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), Residual(8, 8, 1),
        Residual(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip


def depthwise():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(),
        nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Hardswish(), nn.ConvTranspose2d(8, 4, 2, 2),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4 * 64, 5),
    )  # fmt: skip


def mixer():
    return nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.BatchNorm1d(16), nn.Linear(16, 16), nn.ELU(),
        nn.Dropout(0.3), nn.LayerNorm(16), nn.Linear(16, 5),
    )  # fmt: skip


def encoder():
    layer = nn.TransformerEncoderLayer(6, 2, 16, batch_first=True, dropout=0.1)
    return nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(24, 5))


CASES = {
    "perceptron": (mixer, _numbers(7, 6), _labels(7), F.cross_entropy),
    "convnet": (convnet, _numbers(4, 1, 8, 8), _labels(4), F.cross_entropy),
    "residual": (residual, _numbers(3, 3, 8, 8), _labels(3), F.cross_entropy),
    "depthwise": (depthwise, _numbers(3, 3, 8, 8), _labels(3), F.cross_entropy),
    "gpt": (GPT, lambda: torch.randint(40, (3, 12)), _labels(36, 40), F.cross_entropy),
    "encoder": (encoder, _numbers(3, 4, 6), _labels(3), F.cross_entropy),
    "vae": (VAE, _numbers(5, 20), _labels(5), lambda loss, y: loss),
    "lstm": (lambda: Recurrent(nn.LSTM), _numbers(4, 5, 6), _labels(4), F.cross_entropy),
    "gru": (lambda: Recurrent(nn.GRU), _numbers(4, 5, 6), _labels(4), F.cross_entropy),
    "siren": (Siren, _numbers(9, 6), _labels(9), F.cross_entropy),
    "moving": (Moving, _numbers(9, 6), _labels(9), F.cross_entropy),
    "regression": (mixer, _numbers(7, 6), _numbers(7, 5), F.mse_loss),
}
