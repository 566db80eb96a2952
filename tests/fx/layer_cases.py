"""Layers of torch.nn, and things that are done with a proxy, as `torch.fx` records them."""

from tests.fx.cases import names

LAYERS = """
Linear(3, 4); Conv1d(2, 2, 1); Conv2d(3, 4, 3, padding=1); LayerNorm(3)
BatchNorm2d(3).eval(); GroupNorm(1, 3); RMSNorm(3); Embedding(5, 3); Bilinear(2, 2, 2); Identity()
ReLU(); ReLU6(); GELU(); SiLU(); Tanh(); Sigmoid(); LeakyReLU(); ELU(); CELU(); SELU(); Mish()
Hardtanh(); Hardswish(); Hardsigmoid(); Hardshrink(); Softplus(); Softsign(); Softshrink()
Tanhshrink(); Threshold(0.1, 2); GLU(); LogSigmoid(); PReLU(); Dropout(0.1); Dropout2d(); Flatten()
Unflatten(1, (1, 3)); MaxPool2d(2); AvgPool2d(2); AdaptiveAvgPool2d(1); AdaptiveMaxPool2d(1)
LPPool2d(2, 2); Upsample(scale_factor=2); PixelShuffle(2); ChannelShuffle(2); ZeroPad2d(1)
ReflectionPad1d(1); Fold((4, 4), 2); Unfold(2); LocalResponseNorm(2); CosineSimilarity()
PairwiseDistance(); MSELoss(); L1Loss(); SmoothL1Loss(); HuberLoss(); CrossEntropyLoss(); NLLLoss()
KLDivLoss(); BCEWithLogitsLoss(); TripletMarginLoss()
"""
LAYERS = [text.strip() for text in LAYERS.replace("\n", ";").split(";") if text.strip()]
LEAVES = ["MultiheadAttention(4, 2)", "TransformerEncoderLayer(4, 2, 8)", "LSTM(3, 4)"]

DONE = """
p.keys(); len(p); iter(p); bool(p); p(1); p.x.y; p[0]; -p; ~p; p // 2; 2 // p; p | 1; p is None
p == p; p < 1; p.size(0); torch.relu(p); torch.add(p, p, alpha=2); p @ torch.ones(2); p.T.mT
torch.ones(2) @ p; torch.ones(2) + p; torch.ones(2)[p]; torch.cat([p, torch.ones(2)]); F.relu(p)
divmod(p, 2); round(p); pow(p, 2); p ** 2; 2 ** p; p << 1; p ^ 1; p and 1; int(p); sum([p, p])
max(p, 1); p.to(p); math.ceil(p); str(p); p in {}; {p: 1} == {}; isinstance(p, torch.Tensor)
"""
DONE = [text.strip() for text in DONE.replace("\n", ";").split(";") if text.strip()]


def seen_through(torch, layer):
    """A layer recorded by a tracer without leaves, and as a leaf."""
    n = names(torch)

    class Through(n.fx.Tracer):
        def is_leaf_module(self, m, path):
            return layer in LEAVES and isinstance(m, type(made))

    made = eval("nn." + layer, vars(n))
    try:
        return str(Through().trace(n.nn.Sequential(made) if layer in LEAVES else made))
    except Exception as error:  # branches that depend on shapes
        return f"{type(error).__name__}: {error}"


def done(torch, text):
    """What is put into a graph when something is done with a proxy."""
    n = names(torch)
    graph = n.fx.Graph()
    n.p = n.fx.Proxy(graph.placeholder("p"))
    try:
        result = repr(eval(text, vars(n)))
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    return [result, str(graph)]


# -- ops, as make_fx records them ------------------------------------------------------------------

OPS = """
lambda x, w: torch.relu(x @ w).sum() * 2
lambda x: (x + 1).exp() / 3
lambda x: x.sum(1).mean().sqrt()
lambda x, y: torch.where(x > 0, x, y)
lambda x: x.max(0)
lambda x: x.clone().add_(1).mul_(2)
lambda x: [x.cos(), {'s': x.sin()}]
lambda x: torch.cat([x, x]).view(-1)
lambda x: x.relu() + x.sigmoid() * x.tanh()
lambda x: x.view(2, 6).t() @ x.view(2, 6)
lambda x: x.permute(1, 0).contiguous()
lambda x: x.unsqueeze(0).squeeze(0).expand(2, 3, 4)
lambda x: x[0]
lambda x: x[:, 1:3]
lambda x: x.mean((0, 1), keepdim=True)
lambda x: x.amax(1)
lambda x: x.argmax(1)
lambda x: x.topk(2)
lambda x: x.sort()
lambda x: x.cumsum(0)
lambda x: torch.clamp(x, 0, 1)
lambda x: torch.clamp_min(x, 0)
lambda x: torch.stack([x, x], 1)
lambda x: torch.bmm(x[None], x.t()[None])
lambda x: x.to(torch.float64)
lambda x: x.double().float()
lambda x: x.masked_fill(x > 0, 0)
lambda x: F.gelu(x)
lambda x: F.silu(x)
lambda x: F.layer_norm(x, (4,))
lambda x: F.mse_loss(x, x + 1)
lambda x: F.hardtanh(x)
lambda x: F.elu(x)
lambda x: x.gather(1, x.argmax(1, keepdim=True))
lambda x: x.exp().log().sqrt().rsqrt().abs().neg().sin().erf()
lambda x: x // 2
lambda x: x % 2
lambda x: 1 - x
lambda x: 2 / x
lambda x: x == 1
lambda x: (x > 1) & (x < 2)
lambda x: x.split(1)
lambda x: x.unbind()
lambda x: x.repeat(2, 1)
lambda x: x.tril()
lambda x: x.norm()
lambda x: x.prod()
lambda x: x.sum(-1, keepdim=True)
lambda x: x.any()
lambda x: x.min(1)[0]
lambda x: x.pow(3)
lambda x: x ** 0.5
lambda x: x.addcmul(x, x, value=2)
lambda x: torch.lerp(x, x, 0.5)
lambda x: x.detach()
lambda x: x.clone()
""".strip().splitlines()


def ops(torch, text):
    """The code of what make_fx records."""
    n = names(torch)
    make_fx = n.part("fx.experimental.proxy_tensor").make_fx
    function = eval(text, vars(n))
    count = function.__code__.co_argcount
    given = [torch.ones(3, 4), torch.ones(4, 3) if "@ w" in text else torch.ones(3, 4)]
    return make_fx(function)(*given[:count]).code
