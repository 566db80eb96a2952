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
