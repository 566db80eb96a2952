"""Three small trainings whose losses are compared with PyTorch's, step by step.

Each takes the package to run with (`torch`), so that tests/golden/record_curves.py runs the same
lines. Initial weights, dropout and the order of samples all come from one seed.
"""

import math

STEPS = 50


def _run(torch, model, optimizer, batches, scheduler=None):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        out = model(x)
        loss = torch.nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(loss.item())
    return losses


def _shuffled(torch, x, y, size):
    """Batches in an order that is drawn anew for each pass over the data."""
    count = 0
    while True:
        order = torch.randperm(len(x))
        for start in range(0, len(x) - size + 1, size):
            if count == STEPS:
                return
            count += 1
            chosen = order[start : start + size]
            yield x[chosen], y[chosen]


def mlp(torch):
    """Two hidden layers with dropout, SGD with momentum and a falling learning rate."""
    nn = torch.nn
    torch.manual_seed(1)
    x = torch.randn(400, 20)
    y = (x[:, 0] * x[:, 1] > 0).long() + 2 * (x[:, 2] > 0.3).long()
    model = nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 32), nn.Tanh(),
        nn.Dropout(0.1), nn.Linear(32, 4),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 20, 0.5)
    return _run(torch, model, optimizer, _shuffled(torch, x, y, 32), scheduler)


def convnet(torch):
    """Convolutions, batch norm, pooling and dropout of channels on images of stripes, with Adam."""
    nn = torch.nn
    torch.manual_seed(2)
    phase = torch.linspace(0, 2 * math.pi, 16)
    y = torch.randint(0, 5, (200,))
    waves = torch.sin((y + 1).reshape(-1, 1) * phase)
    x = waves.reshape(-1, 1, 1, 16) + 0.5 * torch.randn(200, 2, 16, 16)
    model = nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout2d(0.1), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 5),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    return _run(torch, model, optimizer, _shuffled(torch, x, y, 16))


def transformer(torch):
    """An encoder with learned places that predicts the next of a sequence's tokens, with AdamW."""
    nn = torch.nn
    torch.manual_seed(3)
    start, step = torch.randint(0, 12, (120, 1)), torch.randint(1, 4, (120, 1))
    tokens = (start + step * torch.arange(13)) % 12
    x, y = tokens[:, :-1], tokens[:, 1:]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(12, 32), nn.Embedding(12, 32)
            layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(32, 12)

        def forward(self, i):
            length = i.shape[1]
            mask = nn.Transformer.generate_square_subsequent_mask(length)
            h = self.tokens(i) + self.places(torch.arange(length))
            return self.head(self.layers(h, mask, is_causal=True))

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    return _run(torch, model, optimizer, _shuffled(torch, x, y, 24))


PROGRAMS = {"mlp": mlp, "convnet": convnet, "transformer": transformer}
