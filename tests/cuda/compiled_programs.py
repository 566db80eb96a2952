"""Programs that are compiled on a GPU: each gives (function, what makes its arguments).

In a file of its own, because `torch.compile` reads the text of functions.
"""

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


def drawn(*shape):
    return lambda: torch.randn(*shape, device="cuda")


def classes(count, *shape):
    return lambda: torch.randint(0, count, shape).to("cuda")


def chain(x, y):
    z = (x * y + 1).tanh()
    return z * y, (z - x).relu().sum(1)


def created(x):
    rows = torch.arange(x.shape[0], device=x.device)
    zeros = torch.zeros(x.shape[1], device="cuda")
    scale = torch.tensor([2.0], device=x.device)
    return x * scale + zeros + rows[:, None]


def normalised(x):
    return F.layer_norm(F.softmax(x @ x.t(), -1), (x.shape[0],))


def dropped(x):
    return F.dropout(x, 0.5) + torch.rand_like(x)


def written(x, y):
    x.mul_(2).add_(y)
    return x + y


def on_the_host(x):
    return x.cpu() + 1  # a break: another device


def read(x):
    if x.sum().item() > 1e6:
        return x
    return x * 2


def cast(x, w):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return F.linear(x, w).relu().float().sum()


def looked_up(places, table):
    return F.embedding(places, table).sum(1)


def pooled(x, w):
    return F.max_pool2d(F.conv2d(x, w, padding=1).relu(), 2)


def residual(x, y, w):
    """A head and a tail of layer_norm, in other dtypes than its own."""
    x = x + y.bfloat16()
    return x, F.layer_norm(x, w.shape, w, w).bfloat16()


def long_residual(x, w):
    x = x * 2 + 1  # rows that do not fit into registers
    return F.layer_norm(x, w.shape, w).tanh()


def attended(x):
    return (F.softmax(x * 0.5, -1) + x).half()


FUNCTIONS = {
    "residual": (residual, drawn(50, 36), drawn(50, 36), drawn(36)),
    "odd_residual": (residual, drawn(5, 7), drawn(5, 7), drawn(7)),
    "long_residual": (long_residual, drawn(3, 5000), drawn(5000)),
    "attended": (attended, drawn(40, 64)),
    "chain": (chain, drawn(6, 5), drawn(6, 5)),
    "created": (created, drawn(4, 3)),
    "normalised": (normalised, drawn(6, 5)),
    "dropped": (dropped, drawn(40, 5)),
    "written": (written, drawn(7), drawn(7)),
    "on_the_host": (on_the_host, drawn(3)),
    "read": (read, drawn(3)),
    "cast": (cast, drawn(4, 8), drawn(5, 8)),
    "looked_up": (looked_up, classes(9, 4, 3), drawn(9, 6)),
    "pooled": (pooled, drawn(2, 3, 8, 8), drawn(4, 3, 3, 3)),
}


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(12, 32), nn.Linear(32, 4)
        self.norm, self.drop = nn.BatchNorm1d(32), nn.Dropout(0.3)

    def forward(self, x):
        return self.last(self.drop(F.gelu(self.norm(self.first(x)))))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(11, 16), nn.LayerNorm(16)
        self.mix, self.out = nn.Linear(16, 48), nn.Linear(16, 4)

    def forward(self, places):
        x = self.table(places)
        q, k, v = self.mix(self.norm(x)).view(*x.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(x.shape) + x).mean(1)


class Mixed(nn.Module):
    """Residuals in float32 around products in bfloat16."""

    def __init__(self, width=24):
        super().__init__()
        self.table = nn.Embedding(11, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.out = nn.Linear(width, 4)

    def forward(self, places):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            x = self.table(places)
            for norm, layer in zip(self.norms, self.layers):
                x = x + F.gelu(layer(norm(x)))
            return self.out(x).mean(1).float()


MODELS = {
    "mixed": (Mixed, classes(11, 8, 6)),
    "mlp": (Mlp, drawn(8, 12)),
    "attention": (Attention, classes(11, 8, 6)),
}


def training(net, optimizer):
    """A whole step as one function."""

    def step(x, target):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
