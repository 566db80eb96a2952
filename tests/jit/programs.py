"""Programs that are compiled, saved and loaded; FUNCTIONS and MODULES list them with inputs.

The tests read this file as text and put flambeau or PyTorch in the place of `torch`, so that the
same source runs in both.
"""

# ruff: noqa

import enum
import math
from typing import Any, Dict, Final, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def ramp(*shape):
    """Numbers that are the same everywhere."""
    count = math.prod(shape)
    return torch.sin(torch.arange(count, dtype=torch.float32) * 0.7).reshape(shape)


class Point(NamedTuple):
    x: Tensor
    scale: float


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Pair:
    def __init__(self, a: int, b: Tensor):
        self.a = a
        self.b = b

    def total(self) -> Tensor:
        return self.b.sum() * self.a

    def grow(self, by: int = 1):
        self.a += by

    def __add__(self, other: "Pair") -> "Pair":
        return Pair(self.a + other.a, self.b + other.b)

    @staticmethod
    def twice(x: Tensor) -> Tensor:
        return x * 2

    @property
    def size(self) -> int:
        return self.a * 10


# -- functions -------------------------------------------------------------------------------------


def arithmetic(x, n: int, f: float):
    a = 2 * x + n - f / 3
    b = 1 - x
    c = 1 / (x + 5)
    d = 2 ** (x / 4)
    return a, b, c, d, 2 > x, n // 2, n % 3, -n, n / 2, f**2, n**2, abs(-n), x @ x, x % 2, n & 6


def branches(x: Tensor, k: int) -> Tensor:
    if k > 2:
        y = x + 1
    elif k == 0:
        y = x - 1
    else:
        y = x * 0
    z = y if bool(y.sum() > 0) else -y
    return z


def types_and_sizes(x: Tensor, n: int):
    size = torch.Size([n, x.size(0)])
    wide = x.expand(size).type(torch.float64)
    return wide, wide.type(x.dtype), size == wide.shape, torch.Size((n, 2))[0]


def early(x, k: int):
    if k < 0:
        return x
    if k > 10:
        x = x * 2
        if k > 20:
            return x + 1
    else:
        x = x - 1
    return x * 3


def loops(x, n: int):
    total = 0
    for i in range(n):
        if i == 2:
            continue
        if i > 5:
            break
        total += i
        x = x + i
    while total > 3:
        total -= 2
        if total == 5:
            break
    for j in range(10, 2, -3):
        x = x + j
    return x, total


def search(xs: List[int], wanted: int) -> int:
    for k, value in enumerate(xs):
        if value == wanted:
            return k
    return -1


def nested_returns(x, n: int):
    for i in range(n):
        for j in range(i):
            if i * j == 6:
                return x + i, j
    return x, -1


def containers(x, names: List[str]):
    table: Dict[str, Tensor] = {}
    for k, name in enumerate(names):
        table[name] = x * k
    keys = [key for key in table.keys()]
    total = torch.zeros(1)
    for key, value in table.items():
        total = total + value.sum()
    if "b" in table:
        total = total + 100
    squares = [i * i for i in range(5)]
    pairs = {name: len(name) for name in names}
    squares.append(7)
    squares.extend([1, 2])
    last = squares.pop()
    return keys, total, squares, last, pairs, squares[1:3], squares[-1], len(table)


def strings(n: int, name: str):
    text = f"n is {n}, name is {name}"
    words = text.split(" ")
    return (
        text.upper(),
        words,
        "-".join(words),
        "is" in text,
        text.replace("is", "was"),
        text[0:3],
        str(n) + "!",
        "%d %s" % (n, name),
        text.startswith("n"),
    )


def optionals(x: Optional[Tensor], k: Optional[int] = None) -> Tensor:
    if x is None:
        x = torch.ones(2)
    if k is not None and k > 2:
        x = x * k
    y: Optional[Tensor] = None
    for i in range(3):
        if y is None:
            y = x + i
        else:
            y = y + x
    assert y is not None
    return y


def unions(x: Union[int, List[int], str]) -> int:
    if isinstance(x, int):
        return x
    elif isinstance(x, str):
        return len(x)
    else:
        return sum(x)


def anything(x: Any) -> str:
    if isinstance(x, Tensor):
        return "tensor"
    if isinstance(x, int):
        return "int"
    return "other"


def indexing(x):
    x = x.clone()
    x[0] = 1.0
    x[1, 1:3] = x[0, :2]
    x[x > 2] = 0.5
    a = x[:, 0]
    b = x[1:, None, ::2]
    c = x[..., -1]
    d = x[torch.tensor([0, 2])]
    e = x[0, 1]
    f = x[[0, 1]]
    return x, a, b, c, d, e, f


def tuples(x):
    a, (b, c) = x, (x + 1, 3)
    t = (a, b, c)
    first, *rest = t
    return t[0] + t[-2], len(t), rest, t[1:]


def named(x):
    p = Point(x, 2.0)
    return p.x * p.scale, p[1], p


def enums(x, c: Color):
    if c == Color.RED:
        return x, c.value
    return -x, c.value


def classes(x):
    p = Pair(2, x)
    p.grow()
    q = p + Pair(1, x)
    return q.total(), p.a, Pair.twice(x), p.size


def shapes(x):
    n, m = x.shape
    y = x.view(m, n).permute(1, 0).reshape(-1).unsqueeze(0)
    values, indices = x.max(dim=1)
    found = torch.topk(x, 2)
    return (
        y,
        values,
        indices,
        x.dim(),
        x.numel(),
        x.size(1),
        found.values,
        x.dtype == torch.float32,
        x.t(),
        torch.cat([x, x], dim=1),
        torch.stack([x, x]).chunk(2),
        x.split(2, dim=0),
    )


def functionals(x):
    y = F.relu(x) + F.leaky_relu(x, 0.2) + F.gelu(x)
    y = F.softmax(y, dim=-1) + F.log_softmax(y, dim=1).exp()
    y = F.layer_norm(y, [y.size(-1)])
    y = F.dropout(y, 0.5, False)
    z = F.normalize(x, dim=1)
    loss = F.mse_loss(x, y) + F.smooth_l1_loss(x, z, reduction="sum")
    return (
        y,
        loss,
        F.pad(x, [1, 1]),
        F.one_hot(torch.tensor([0, 1]), 3),
        F.cross_entropy(x, torch.tensor([0, 1, 2])),
    )


def asserts(x, n: int):
    assert n > 0, f"bad {n}"
    if n > 100:
        raise ValueError("too large")
    return x * n


def casts(x):
    s = x.sum()
    return (
        int(s),
        float(s),
        bool(s > 0),
        s.item(),
        x.to(torch.float64),
        x.long(),
        x.int().sum().item() + 1,
    )


def grads_off(x):
    with torch.no_grad():
        y = x * 2
    return y


def maths(x: float, n: int):
    return (
        math.sqrt(x),
        math.ceil(x),
        math.floor(x),
        math.pi,
        math.log(x),
        math.pow(x, 2.0),
        round(x),
        min(n, 3),
        max(x, 2.0),
        math.exp(1.0),
    )


def helper(x, scale: float = 2.0):
    return x * scale


def calls(x):
    return helper(x) + helper(x, 3.0) + helper(x, scale=0.5)


def zips(a: List[int], b: List[float]):
    total = 0.0
    for x, y in zip(a, b):
        total += x * y
    for k, (x, y) in enumerate(zip(a, b)):
        total += k
    return total, sorted(a), list(range(3)), a[::-1], sum(a), min(a), any([True, False])


def scripted_or_not(x):
    if torch.jit.is_scripting():
        return x + 1
    else:
        return undefined_function(x)  # noqa: F821


def in_place(x):
    y = x.clone()
    y += 1
    y *= 2
    y.add_(1).clamp_(min=0.0, max=3.0)
    y.zero_()
    y[:, 0].fill_(4)
    return y


def typed_comment(x, n):
    # type: (Tensor, int) -> Tensor
    return x * n


def chained(x, n: int):
    return 0 < n < 10, n in [1, 2, 3], n not in (4, 5), not n, n > 0 and n < 3 or n == 7


def empties(n: int):
    a: List[int] = []
    b = torch.jit.annotate(Dict[int, List[str]], {})
    for i in range(n):
        a.append(i)
        b[i] = [str(i)] * i
    return a, b


def waits(x):
    task = torch.jit.fork(helper, x, 3.0)
    y = x + 1
    return y + torch.jit.wait(task)


# -- modules ---------------------------------------------------------------------------------------


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 3)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.second(self.drop(F.relu(self.first(x))))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 8, 3, padding=1, bias=False),
            nn.GroupNorm(2, 8),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d((1, 1)),
        )
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.features(x)
        x = torch.flatten(x, 1)
        return F.log_softmax(self.head(x), dim=1)


class Residual(nn.Module):
    def __init__(self, width: int, down: bool):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.down = nn.Conv2d(width, width, 1) if down else None

    def forward(self, x: Tensor) -> Tensor:
        same = x
        out = self.norm(self.conv(x))
        if self.down is not None:
            same = self.down(x)
        out += same
        return F.relu(out, inplace=True)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Residual(4, k % 2 == 1) for k in range(3)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.mean([2, 3])


class Attributes(nn.Module):
    limit: Final[int]
    names: List[str]

    def __init__(self):
        super().__init__()
        self.limit = 3
        self.names = ["a", "b"]
        self.table = {"k": 2.5}
        self.pair = (1, 0.5)
        self.steps = 0
        self.last: Optional[int] = None
        self.register_buffer("mean", torch.ones(3))
        self.weight = nn.Parameter(torch.full((3,), 2.0))
        self.kind = "sum"

    def forward(self, x):
        self.steps += 1
        for _ in range(self.limit):
            x = x + self.mean
        self.mean = self.mean * 0.5
        if self.kind == "sum":
            x = x.sum()
        return x * self.weight * self.table["k"] * self.pair[1], self.names, self.steps

    @torch.jit.export
    def reset(self, to: int = 0) -> int:
        self.steps = to
        return self.steps

    @torch.jit.unused
    def plot(self, x):
        import matplotlib  # noqa: F401

        return x


class Dicts(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})

    def forward(self, x, which: str = "a") -> Dict[str, Tensor]:
        out: Dict[str, Tensor] = {}
        for name, head in self.heads.items():
            out[name] = head(x)
        if which in out:
            out["chosen"] = out[which]
        out["direct"] = self.heads["b"](x)
        return out


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 6)
        self.lstm = nn.LSTM(6, 5, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(10, 4)
        self.out = nn.Linear(4, 2)

    def forward(self, tokens, state: Optional[Tuple[Tensor, Tensor]] = None):
        x = self.embed(tokens)
        x, state = self.lstm(x, state)
        x, _ = self.gru(x)
        return self.out(x), state


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, xs):
        h = torch.zeros(xs.size(1), 4)
        outs: List[Tensor] = []
        for t in range(xs.size(0)):
            h = self.cell(xs[t], h)
            outs.append(h)
        return torch.stack(outs)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x, mask: Optional[Tensor] = None):
        return self.encoder(x, mask)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)
        self.heads = 2

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (
            self.qkv(x)
            .reshape(b, n, 3, self.heads, d // self.heads)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class Helpers(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = F.relu
        self.layers = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        self.table = nn.ParameterList([nn.Parameter(torch.ones(3) * k) for k in range(2)])

    def scale(self, x, by: float = 2.0):
        return x * by

    @property
    def width(self) -> int:
        return 3

    def forward(self, x):
        y = self.scale(self.act(x)) + self.width
        y = self.layers[0](y)
        for layer in self.layers:
            y = layer(y)
        return self.scale(y, by=0.5) + len(self.layers)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))

    def forward(self, x, n: int):
        p = Pair(n, x)
        for _ in range(n):
            x = self.net(x) + self.first(x)
        return x + p.total(), Point(x, 0.5)


class LayerNormCell(nn.Module):
    def __init__(self, inputs: int, width: int):
        super().__init__()
        self.weight_ih = nn.Parameter(torch.ones(4 * width, inputs))
        self.weight_hh = nn.Parameter(torch.ones(4 * width, width))
        self.norm = nn.LayerNorm(4 * width)

    def forward(
        self, input: Tensor, state: Tuple[Tensor, Tensor]
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        hx, cx = state
        gates = self.norm(torch.mm(input, self.weight_ih.t()) + torch.mm(hx, self.weight_hh.t()))
        ingate, forgetgate, cellgate, outgate = gates.chunk(4, 1)
        cy = torch.sigmoid(forgetgate) * cx + torch.sigmoid(ingate) * torch.tanh(cellgate)
        hy = torch.sigmoid(outgate) * torch.tanh(cy)
        return hy, (hy, cy)


class CellLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = LayerNormCell(3, 4)

    def forward(
        self, input: Tensor, state: Tuple[Tensor, Tensor]
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        inputs = input.unbind(0)
        outputs = torch.jit.annotate(List[Tensor], [])
        for i in range(len(inputs)):
            out, state = self.cell(inputs[i], state)
            outputs += [out]
        return torch.stack(outputs), state


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.attn = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.heads = heads
        self.register_buffer(
            "mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16), persistent=False
        )

    def forward(self, x: Tensor, past: Optional[Tuple[Tensor, Tensor]] = None):
        B, T, C = x.size()
        q, k, v = self.attn(self.norm1(x)).split(C, dim=2)
        q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        if past is not None:
            k = torch.cat((past[0], k), dim=-2)
            v = torch.cat((past[1], v), dim=-2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / (k.size(-1) ** 0.5))
        att = att.masked_fill(self.mask[:, :, :T, : k.size(-2)] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        x = x + self.proj(y)
        return x + self.mlp(self.norm2(x)), (k, v)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.places = nn.Parameter(torch.zeros(1, 16, 8))
        self.blocks = nn.ModuleList([Block(8, 2) for _ in range(2)])
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(
        self, idx: Tensor, targets: Optional[Tensor] = None
    ) -> Tuple[Tensor, Optional[Tensor]]:
        b, t = idx.size()
        assert t <= 16, f"Cannot forward sequence of length {t}, block size is only 16"
        x = self.tokens(idx) + self.places[:, :t, :]
        for block in self.blocks:
            x, _ = block(x)
        logits = self.head(x)
        loss: Optional[Tensor] = None
        if targets is not None:
            loss = F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
        return logits, loss

    @torch.jit.export
    def generate(self, idx: Tensor, count: int) -> Tensor:
        for _ in range(count):
            last = idx if idx.size(1) <= 16 else idx[:, -16:]
            logits, _ = self.forward(last, None)
            following = torch.argmax(logits[:, -1, :], dim=-1, keepdim=True)
            idx = torch.cat((idx, following), dim=1)
        return idx


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.mu = nn.Linear(8, 2)
        self.spread = nn.Linear(8, 2)
        self.decoder = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 6), nn.Sigmoid())

    def encode(self, x):
        h = self.encoder(x)
        return self.mu(h), self.spread(h)

    def reparameterize(self, mu, logvar):
        if self.training:
            return mu + torch.randn_like(logvar) * torch.exp(0.5 * logvar)
        else:
            return mu

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 6))
        return self.decoder(self.reparameterize(mu, logvar)), mu, logvar


class Beam:
    def __init__(self, ids: List[int], score: float):
        self.ids = ids
        self.score = score

    def extend(self, i: int, s: float) -> "Beam":
        return Beam(self.ids + [i], self.score + s)


def beam_search(logp: Tensor, width: int) -> Tuple[List[int], float]:
    beams = [Beam([0], 0.0)]
    for t in range(logp.size(0)):
        found: List[Beam] = []
        for b in beams:
            v, i = logp[t].topk(width)
            for j in range(width):
                found.append(b.extend(int(i[j].item()), float(v[j])))
        best: List[Beam] = []
        while len(best) < width and len(found) > 0:
            top = 0
            for c in range(len(found)):
                if found[c].score > found[top].score:
                    top = c
            best.append(found.pop(top))
        beams = best
    return beams[0].ids, beams[0].score


def suppression(boxes: Tensor, scores: Tensor, limit: float) -> Tensor:
    keep: List[int] = []
    order = scores.argsort(descending=True)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    while order.numel() > 0:
        i = int(order[0])
        keep.append(i)
        if order.numel() == 1:
            break
        rest = order[1:]
        start = torch.max(boxes[i, :2], boxes[rest, :2])
        end = torch.min(boxes[i, 2:], boxes[rest, 2:])
        size = (end - start).clamp(min=0)
        inter = size[:, 0] * size[:, 1]
        order = rest[inter / (area[i] + area[rest] - inter) <= limit]
    return torch.tensor(keep, dtype=torch.int64)


FUNCTIONS = [
    (arithmetic, lambda: [(ramp(3, 3), 7, 2.5), (ramp(2, 2), 4, 1.0)]),
    (branches, lambda: [(ramp(3), 3), (ramp(3), 0), (ramp(3), 1)]),
    (types_and_sizes, lambda: [(ramp(3), 2), (ramp(1), 4)]),
    (early, lambda: [(ramp(3), k) for k in (-1, 5, 15, 25)]),
    (loops, lambda: [(ramp(2), n) for n in (0, 1, 4, 9)]),
    (search, lambda: [([1, 2, 3], 2), ([1], 5), ([], 1)]),
    (nested_returns, lambda: [(ramp(2), 3), (ramp(2), 5)]),
    (containers, lambda: [(ramp(2), ["a", "b"]), (ramp(2), ["c"])]),
    (strings, lambda: [(3, "you")]),
    (optionals, lambda: [(None, 3), (ramp(2), None), (ramp(2), 5)]),
    (unions, lambda: [(3,), ([1, 2],), ("abc",)]),
    (anything, lambda: [(3,), (ramp(1),), ("x",)]),
    (indexing, lambda: [(ramp(4, 4),)]),
    (tuples, lambda: [(ramp(2),)]),
    (named, lambda: [(ramp(2),)]),
    (enums, lambda: [(ramp(2), Color.RED), (ramp(2), Color.GREEN)]),
    (classes, lambda: [(ramp(3),)]),
    (shapes, lambda: [(ramp(4, 3),)]),
    (functionals, lambda: [(ramp(3, 4),)]),
    (asserts, lambda: [(ramp(2), 3)]),
    (casts, lambda: [(ramp(3),)]),
    (grads_off, lambda: [(ramp(3),)]),
    (maths, lambda: [(2.5, 4)]),
    (calls, lambda: [(ramp(3),)]),
    (zips, lambda: [([3, 1], [0.5, 2.0, 1.0])]),
    (scripted_or_not, lambda: [(ramp(3),)]),
    (in_place, lambda: [(ramp(2, 2),)]),
    (typed_comment, lambda: [(ramp(2), 3)]),
    (chained, lambda: [(ramp(1), 2), (ramp(1), 0), (ramp(1), 7)]),
    (empties, lambda: [(3,)]),
    (waits, lambda: [(ramp(3),)]),
    (beam_search, lambda: [(torch.log_softmax(ramp(4, 7), 1), 2)]),
    (suppression, lambda: [(torch.cat([ramp(6, 2), ramp(6, 2) + 1.5], 1), ramp(6), 0.3)]),
]

MODULES = [
    (Mlp, lambda: [(ramp(2, 4),)]),
    (ConvNet, lambda: [(ramp(2, 1, 8, 8),)]),
    (ResNet, lambda: [(ramp(1, 4, 5, 5),)]),
    (Attributes, lambda: [(ramp(3),), (ramp(3),)]),
    (Dicts, lambda: [(ramp(2, 4),), (ramp(2, 4), "b")]),
    (Recurrent, lambda: [(torch.arange(6).reshape(2, 3),)]),
    (Steps, lambda: [(ramp(3, 2, 3),)]),
    (Encoder, lambda: [(ramp(2, 3, 8),)]),
    (Attention, lambda: [(ramp(2, 5, 8),)]),
    (Helpers, lambda: [(ramp(2, 3),)]),
    (Mixed, lambda: [(ramp(2, 3), 2)]),
    (CellLayer, lambda: [(ramp(5, 2, 3), (ramp(2, 4), ramp(2, 4)))]),
    (
        Gpt,
        lambda: [
            (torch.arange(12).reshape(2, 6) % 11,),
            (torch.arange(12).reshape(2, 6) % 11,) * 2,
        ],
    ),
    (Vae, lambda: [(ramp(2, 6),)]),
]
