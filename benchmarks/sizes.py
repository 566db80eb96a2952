"""Calls whose sizes were never seen before: ragged batches, growing caches, pictures of any height.

Usage: python benchmarks/sizes.py [--threads 1,2] [--only PATTERN] [--seconds 1] [--shared]

Every run of a statement takes sizes from a stream that does not repeat, so whatever a package
remembers of earlier calls is of no use to it but for what does not depend on sizes. Both packages
draw the same stream.
"""

from timing import Case, main

# Numbers from 1 on in an order that looks random and never repeats: every odd multiplier modulo a
# power of two is a permutation. `fresh(n)` counts through 1 ... n that way, then goes on beyond n.
STREAM = """
import itertools
def fresh(n, least=1):
    bits = (n - 1).bit_length()
    for round in itertools.count():
        for k in range(1 << bits):
            size = (k * 0x9E3779B1 + 12345) % (1 << bits)
            if size < n:
                yield round * n + size + least
"""
VECTOR = STREAM + "x = torch.randn(1 << 20)\ns = fresh(16000)\n"
MATRIX = STREAM + "x = torch.randn(1 << 20)\ns = fresh(8000)\n"
RAGGED = (
    STREAM
    + """
pad_sequence = torch.nn.utils.rnn.pad_sequence
x = torch.randn(1 << 20)
s = fresh(6000, 8)
def ragged():
    k = next(s)
    parts = [x[:k], x[: k - 3], x[: k - 5], x[: k - 7]]
    padded = pad_sequence(parts, batch_first=True)
    lengths = torch.tensor([k, k - 3, k - 5, k - 7])
    mask = torch.arange(k)[None, :] < lengths[:, None]
    return (padded * mask).sum()
"""
)
INDEXED = (
    STREAM
    + """
x = torch.randn(1 << 20)
i = torch.randint(0, 1 << 20, (1 << 20,))
s = fresh(16000)
def chosen():
    y = x[i[: next(s)]]
    return y[y > 0].sum()
"""
)
PICTURES = (
    STREAM
    + """
nn = torch.nn
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
x = torch.randn(1, 3, 5000, 8)
s = fresh(300, 8)
"""
)
CACHE = (
    STREAM
    + """
F = torch.nn.functional
q = torch.randn(1, 4, 1, 32)
keys, values = torch.randn(1, 4, 40000, 32), torch.randn(1, 4, 40000, 32)
s = fresh(1000, 8)
"""
)
MLP = (
    STREAM
    + """
nn, F = torch.nn, torch.nn.functional
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = torch.randn(1 << 16, 16), torch.randint(0, 4, (1 << 16,))
s = fresh(500)
def step():
    n = next(s)
    opt.zero_grad()
    loss = F.cross_entropy(model(x[:n]), y[:n])
    loss.backward()
    opt.step()
    return loss
"""
)
NAMES = (
    STREAM
    + """
nn = torch.nn
torch.manual_seed(0)
class Characters(nn.Module):
    def __init__(self):
        super().__init__()
        self.i2h, self.h2o = nn.Linear(57 + 32, 32), nn.Linear(57 + 32, 18)
    def forward(self, x, h):
        both = torch.cat((x, h), 1)
        return torch.log_softmax(self.h2o(both), 1), torch.tanh(self.i2h(both))
model = Characters()
letters = torch.nn.functional.one_hot(torch.arange(100000) % 57, 57).float()[:, None]
s = fresh(16, 2)
def name():
    h, n = torch.zeros(1, 32), next(s) % 16 + 2
    for k in range(n):
        out, h = model(letters[k], h)
    loss = nn.functional.nll_loss(out, torch.tensor([n % 18]))
    loss.backward()
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-0.005)
        p.grad = None
    return loss
"""
)
GRAD = (
    STREAM
    + """
x = torch.randn(1 << 20, requires_grad=True)
s = fresh(4000, 2)
def back():
    k = next(s)
    y = x.detach()[:k].requires_grad_()
    (y * y + y).sum().backward()
    return y.grad
"""
)
LAYERS = (
    STREAM
    + """
nn, F = torch.nn, torch.nn.functional
norm, table = nn.LayerNorm(32), nn.Embedding(100, 32)
x = torch.randn(1 << 17, 32)
i = torch.randint(0, 100, (1 << 17,))
y = torch.randint(0, 32, (1 << 17,))
s = fresh(2000, 2)
"""
)
IMAGES = (
    STREAM
    + """
F = torch.nn.functional
x = torch.randn(1, 3, 20000, 8)
s = fresh(500, 4)
"""
)

# What the table of the project's plan asks for.
ASKED = [
    Case("x[:k] + 1", "x[:next(s)] + 1", VECTOR),
    Case("x[:k].sum()", "x[:next(s)].sum()", VECTOR),
    Case("x[:k].mean()", "x[:next(s)].mean()", VECTOR),
    Case("x[:k].max()", "x[:next(s)].max()", VECTOR),
    Case("cat([x[:k], x[k:]])", "k = next(s)\ntorch.cat([x[:k], x[k:32768]])", VECTOR),
    Case("stack([x[:k], x[:k]])", "k = next(s)\ntorch.stack([x[:k], x[:k]])", VECTOR),
    Case("pad_sequence, mask, masked sum", "ragged()", RAGGED),
    Case("x[i[:k]], mask, sum", "chosen()", INDEXED),
    Case("Conv2d, ReLU, pooling, any height", "model(x[:, :, :next(s)])", PICTURES),
    Case("attention over a growing cache",
         "k = next(s)\nF.scaled_dot_product_attention(q, keys[:, :, :k], values[:, :, :k])", CACHE),
    Case("softmax(q @ k.T) over a growing cache",
         "k = next(s)\ntorch.softmax(q @ keys[:, :, :k].transpose(-1, -2), -1)", CACHE),
    Case("MLP training step, any batch", "step()", MLP),
    Case("character RNN, one name", "name()", NAMES),
]  # fmt: skip
# And what programs do beside it.
OWN = [
    Case("x[:k], the view alone", "x[:next(s)]", VECTOR),
    Case("(y * y + y).sum().backward()", "back()", GRAD),
    Case("a[:k, None] * b, outer product",
         "k = next(s)\nx[:k, None] * x[:3]", MATRIX),
    Case("x[:2k].view(k, 2).t() + 1", "k = next(s)\nx[: 2 * k].view(k, 2).t() + 1", MATRIX),
    Case("zeros(k), ones(k), arange(k)",
         "k = next(s)\ntorch.zeros(k); torch.ones(k); torch.arange(k)", VECTOR),
    Case("layer_norm of k rows", "norm(x[:next(s)])", LAYERS),
    Case("embedding of k numbers", "table(i[:next(s)])", LAYERS),
    Case("softmax, log_softmax of k rows",
         "k = next(s)\nF.softmax(x[:k], 1); F.log_softmax(x[:k], 1)", LAYERS),
    Case("cross_entropy of k rows", "k = next(s)\nF.cross_entropy(x[:k], y[:k])", LAYERS),
    Case("x[:k] @ w", "x[:next(s)] @ w", LAYERS + "w = torch.randn(32, 8)"),
    Case("sort, topk, cumsum of k",
         "y = x[:next(s) + 5]\ny.sort(); y.topk(3); y.cumsum(0)", MATRIX),
    Case("y[mask] = 0, in place", "y = x[:next(s)]\ny[y > 3] = 0.0", MATRIX),
    Case("y.mul_(2).clamp_(-1, 1)", "x[:next(s)].mul_(0.5).clamp_(-1, 1)", MATRIX),
    Case("max_pool2d, interpolate, any height",
         "y = x[:, :, :next(s)]\nF.max_pool2d(y, 2); F.interpolate(y, scale_factor=2.0)", IMAGES),
    Case("dropout, gelu of k rows",
         "y = x[:next(s)]\nF.dropout(y, 0.1); F.gelu(y)", LAYERS),
    Case("layer_norm of k rows, and back", "y = x[:next(s)]\nnorm(y).backward(y)", LAYERS),
    Case("embedding of k numbers, and back",
         "k = next(s)\ntable(i[:k]).backward(x[:k])", LAYERS),
    Case("softmax of k rows, and back",
         "y = x[:next(s)].requires_grad_()\nF.softmax(y, 1).backward(y)", LAYERS),
    Case("cross_entropy of k rows, and back",
         "k = next(s)\nF.cross_entropy(x[:k].requires_grad_(), y[:k]).backward()", LAYERS),
    Case("bilinear interpolate, any height, and back",
         "y = x[:, :, :next(s)].requires_grad_()\n"
         "z = F.interpolate(y, scale_factor=0.5, mode='bilinear')\nz.backward(z)", IMAGES),
    Case("where, masked_fill, gather",
         "y = x[:next(s)]\nm = y > 0\ntorch.where(m, y, 0.0); y.masked_fill(m, 0.0)\n"
         "y.gather(1, m.long())", LAYERS),
]  # fmt: skip
CASES = [*ASKED, *OWN]

if __name__ == "__main__":
    main("Calls with sizes never seen before, flambeau against PyTorch.", CASES)
