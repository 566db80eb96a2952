"""Programs that `torch.fx` records, for PyTorch and flambeau alike."""

import collections
import dataclasses
import enum
import importlib
import math
import operator
import types
import typing

Pair = collections.namedtuple("Pair", "first second")


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Record:
    number: int
    value: object


def names(torch):
    """What programs may say."""
    part = lambda path: importlib.import_module(f"{torch.__name__}.{path}")
    return types.SimpleNamespace(
        torch=torch,
        nn=torch.nn,
        F=part("nn.functional"),
        fx=part("fx"),
        Tensor=torch.Tensor,
        math=math,
        operator=operator,
        Pair=Pair,
        Color=Color,
        Record=Record,
        typing=typing,
        inf=math.inf,
        nan=math.nan,
        part=part,
        PH=part("fx._symbolic_trace").PH,
    )


# -- functions, by the number of tensors they take -------------------------------------------------

FUNCTIONS = """
lambda x: torch.relu(x) + 1
lambda x: -x ** 2 / 3 // 2 % 5
lambda x: (1 - x, 1 / (x + 9), 2 ** x, x @ x.T, x == 1, x < 2, x != 3, 3 < x, 2 >= x, abs(x), +x)
lambda x: ((x > 0) & (x < 1), (x > 0) | (x < 1), (x > 0) ^ (x < 1), ~(x > 0))
lambda x: x.relu().sum(dim=0, keepdim=True).view(-1)
lambda x: x[0]
lambda x: x[0, ..., :2]
lambda x: x[None, 1:, ::2]
lambda x: x[x > 0]
lambda x: x.T.shape
lambda x: x.shape[0] + x.size(1) + x.dim()
lambda x: x.size()
lambda x: {"a": x, "b": [x, (x + 1, 2)], "c": None}
lambda x: Pair(x, 1)
lambda x: Record(1, x)
lambda x: (range(3), slice(1, 2), inf, -inf, nan, 1 + 2j, "a'b", True, None, ...)
lambda x: x.to(torch.float64)
lambda x: x.to(dtype=torch.int32, device=torch.device("cpu"))
lambda x: x.contiguous(memory_format=torch.contiguous_format)
lambda x: torch.zeros(3) + x
lambda x: torch.ones(3) * x - torch.arange(3)
lambda x: torch.cat([x, x], dim=1)
lambda x: torch.stack((x, x))
lambda x: torch.split(x, 1)[0]
lambda x: torch.chunk(x, 2)
lambda x: torch.max(x, 1).values
lambda x: torch.max(x, dim=1)[0]
lambda x: torch.topk(x, 2)
lambda x: torch.einsum("ij,kj->ik", x, x)
lambda x: torch.matmul(x, x.transpose(0, 1))
lambda x: torch.norm(x)
lambda x: torch.norm(x, dim=1)
lambda x: torch.unique(x)
lambda x: torch.cdist(x, x)
lambda x: torch.tensordot(x, x, dims=2)
lambda x: torch.meshgrid(x[0], x[1], indexing="ij")
lambda x: torch.meshgrid(x[0], x[1])
lambda x: torch.broadcast_tensors(x, x[0])
lambda x: torch.where(x > 0, x, 0.0)
lambda x: torch.zeros_like(x, dtype=torch.float64)
lambda x: torch.full((x.size(0), 2), 1.5)
lambda x: torch.arange(x.size(1))
lambda x: torch.linalg.norm(x)
lambda x: torch.linalg.svd(x)[1]
lambda x: torch.fft.fft(x).real
lambda x: torch.special.i1(x)
lambda x: torch.flatten(x, 0)
lambda x: torch.add(x, x, alpha=2)
lambda x: torch.relu(input=x)
lambda x: torch.clamp(x, min=0)
lambda x: torch.bmm(x[None], x.T[None])
lambda x: torch.addmm(x[:, :2], x, x.T)
lambda x: torch.sum(x).item()
lambda x: F.relu(x)
lambda x: F.relu(x, inplace=False)
lambda x: F.relu(x, True)
lambda x: F.gelu(x)
lambda x: F.gelu(x, approximate="tanh")
lambda x: F.softmax(x, dim=1)
lambda x: F.log_softmax(x, -1)
lambda x: F.dropout(x, 0.5, False)
lambda x: F.linear(x, torch.ones(2, 3))
lambda x: F.linear(x, torch.ones(2, 3), bias=torch.ones(2))
lambda x: F.layer_norm(x, (3,))
lambda x: F.layer_norm(x, [x.size(-1)])
lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3))
lambda x: F.conv1d(x[None], torch.ones(2, 2, 1), padding=1)
lambda x: F.conv2d(x[None, None], torch.ones(1, 1, 2, 2), None, 1)
lambda x: F.max_pool1d(x, 2)
lambda x: F.max_pool2d(x[None], kernel_size=2, stride=1)
lambda x: F.avg_pool2d(x[None], 2, 1)
lambda x: F.adaptive_avg_pool2d(x[None], (1, 1))
lambda x: F.adaptive_avg_pool1d(x, 1)
lambda x: F.interpolate(x[None], scale_factor=2)
lambda x: F.pad(x, (1, 1), value=2.0)
lambda x: F.mse_loss(x, x + 1)
lambda x: F.cross_entropy(x, torch.zeros(2, dtype=torch.long))
lambda x: F.nll_loss(F.log_softmax(x, 1), torch.zeros(2, dtype=torch.long), reduction="sum")
lambda x: F.embedding(torch.arange(2), x)
lambda x: F.one_hot(x.long().abs(), 9)
lambda x: F.normalize(x, dim=0)
lambda x: F.threshold(x, 0.1, 20)
lambda x: F.logsigmoid(x)
lambda x: F.softplus(x)
lambda x: F.leaky_relu(x, 0.2)
lambda x: F.elu(x)
lambda x: F.hardtanh(x)
lambda x: F.silu(x)
lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None])
lambda x: F.cosine_similarity(x, x + 1)
lambda x: F.unfold(x[None, None], 2)
lambda x: math.sqrt(2) * x
lambda x: x.foo.bar(3, k=x) if False else x
lambda x: x.new_zeros((2, 3)).fill_(1)
lambda x: x.add_(0).mul(2)
lambda x: x.masked_fill(x > 0, -inf)
lambda x: x.split(1)
lambda x: x.unsqueeze(0).expand(2, -1, -1).reshape(-1, 3).permute(1, 0)
lambda x: x.mean((0, 1), keepdim=True)
lambda x: x.type(torch.float64).type_as(x)
lambda x: sum([x, x, x])
lambda x: [x * k for k in range(3)]
lambda x: tuple(map(abs, [x, -x]))
lambda x, y=2, *, z=3.5: x * y + z
lambda x, *rest: x
lambda x, **named: x
lambda x: x.__getitem__(0)
lambda x: x.__add__(1)
lambda x: getattr(x, "T")
lambda x: operator.add(x, 1)
lambda x: operator.itemgetter(0)(x)
lambda x: torch.tensor([1.0, 2.0, 3.0]) + x
lambda x: torch.manual_seed(3) and x
lambda x: fx.symbolic_trace(lambda y: y + 1)(x) if False else x
""".strip().splitlines()

# what cannot be recorded: PyTorch's errors
REFUSED = """
lambda x: 1 if x else 2
lambda x: 1 if x.sum() > 0 else 2
lambda x: [v for v in x]
lambda x: len(x)
lambda x: int(x)
lambda x: float(x)
lambda x: range(x)
lambda x: {**x}
lambda x: torch.add(*x)
lambda x: x in [1]
lambda x: [1, 2][x]
lambda x: ({1}, x)
lambda x: (b"a", x)
lambda x: {x: 1}
lambda x: (yield x)
lambda x: int
lambda x: nn.Linear(2, 2)(x)
lambda x: nn.Parameter(torch.ones(2)) + x
lambda x: next(iter(x))
lambda x: x and 1
lambda x: not x
lambda x: x.__setitem__(0, 1) or operator.setitem(x, 0, 1)
3
""".strip().splitlines()

# -- modules ---------------------------------------------------------------------------------------

MODULES = {}


def module(function):
    MODULES[function.__name__] = function
    return function


@module
def plain(n):
    class Plain(n.nn.Module):
        def __init__(self):
            super().__init__()
            nn = n.nn
            self.l = nn.Linear(3, 4)
            self.p = nn.Parameter(n.torch.ones(4))
            self.register_buffer("b", n.torch.ones(4))
            self.t = n.torch.ones(4)
            self.seq = nn.Sequential(nn.ReLU(), nn.Linear(4, 4))

        def forward(self, x, y=None, *, k=2.5):
            z = self.seq(self.l(x)) + self.p * self.b + self.t
            z = n.F.relu(z).view(-1, 4)[0, ..., :2]
            z += 1
            a, b = z
            return {"q": z.size(0), "r": (a + b, [z.T, k])}

    return Plain()


@module
def nested(n):
    class Block(n.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.conv = n.nn.Conv2d(width, width, 3, padding=1)
            self.norm = n.nn.BatchNorm2d(width)

        def forward(self, x):
            return x + n.torch.relu(self.norm(self.conv(x)))

    class Net(n.nn.Module):
        def __init__(self):
            super().__init__()
            nn = n.nn
            self.stem = nn.Conv2d(1, 4, 3)
            self.blocks = nn.ModuleList([Block(4), Block(4)])
            self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))

        def forward(self, x):
            x = self.stem(x[None, None])
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    return Net().eval()


@module
def shared_weights(n):
    class Tied(n.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = n.nn.Linear(3, 3)
            self.b = self.a

        def forward(self, x):
            return self.b(self.a(x)) @ self.a.weight + self.b.bias

    return Tied()


@module
def attention(n):
    class Attention(n.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = n.nn.Linear(3, 18)
            self.out = n.nn.Linear(6, 3)

        def forward(self, x: n.Tensor) -> n.Tensor:
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            scores = q @ k.transpose(-2, -1) / math.sqrt(6)
            mask = n.torch.triu(n.torch.ones(2, 2), diagonal=1).bool()
            weights = n.F.softmax(scores.masked_fill(mask, -math.inf), dim=-1)
            return self.out(weights @ v)

    return Attention()


@module
def annotated(n):
    class Annotated(n.nn.Module):
        def forward(
            self,
            x: n.Tensor,
            y: typing.Optional[n.Tensor] = None,  # noqa: UP045
            z: typing.List[int] = None,  # noqa: UP006, RUF013
            w: int = 3,
        ) -> typing.Tuple[n.Tensor, int]:  # noqa: UP006
            return x * w, w

    return Annotated()


def trace(n, program, **options):
    """The graph module of a program: the text of a function, or the name of a module."""
    if program in MODULES:
        return n.fx.symbolic_trace(MODULES[program](n), **options)
    return n.fx.symbolic_trace(eval(program, vars(n)), **options)


def texts(torch, program):
    """Graph and code, as text."""
    made = trace(names(torch), program)
    return {"graph": str(made.graph), "code": made.code, "str": str(made)}


def said(torch, program):
    """The error that a program meets."""
    try:
        trace(names(torch), program)
    except Exception as error:
        return [type(error).__name__, str(error)]
    return None


PROGRAMS = [*MODULES, *FUNCTIONS]

# -- arguments that are fixed ----------------------------------------------------------------------

FIXED = [
    ("lambda x, y, z: (x if y else z, y)", "{'y': True}"),
    ("lambda x, y, z: (x if y else z, y)", "{'y': 3.5}"),
    ("lambda x, y, z: (x if y else z, y)", "{'y': None}"),
    ("lambda x, y, z: x + z if y == 'a' else x", "{'y': 'a'}"),
    ("lambda x, d: x + d['a'] + d['b'][0]", "{'d': {'a': PH, 'b': [PH, 3]}}"),
    ("lambda x, d: x + d['a'] + d['b'][0]", "{'d': {'a': 1, 'b': [2]}}"),
    ("lambda x, d: {'s': x + d[0], 't': [d[1]]}", "{'d': (PH, PH)}"),
]


def fixed_texts(torch, program, fixed):
    n = names(torch)
    made = trace(n, program, concrete_args=eval(fixed, vars(n)))
    return {"graph": str(made.graph), "code": made.code}
