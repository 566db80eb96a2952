"""Layers of torch.nn are captured whole, and do the same: results, gradients, buffers, draws."""

import pytest

import flambeau
from flambeau import nn

# layer: the shapes of its inputs (i: indices)
LAYERS = """
Linear(3, 4): 2x3 | Bilinear(2, 3, 2): 4x2, 4x3 | Identity(): 3 | Embedding(5, 3): i2x3
EmbeddingBag(5, 3): i2x3 | Conv1d(2, 4, 3): 1x2x5 | Conv2d(2, 4, 3, padding=1): 1x2x5x5
Conv2d(4, 4, 3, groups=2, padding_mode="circular", padding=1): 1x4x5x5 | Conv3d(1, 2, 2): 1x1x3x3x3
ConvTranspose2d(2, 3, 2, stride=2): 1x2x3x3 | BatchNorm1d(3): 4x3 | BatchNorm2d(2): 2x2x3x3
BatchNorm1d(3, momentum=0.5, affine=False): 4x3 | BatchNorm1d(3, track_running_stats=False): 4x3
InstanceNorm2d(2, affine=True, track_running_stats=True): 2x2x3x3 | GroupNorm(2, 4): 2x4x3
LayerNorm(3): 2x3 | RMSNorm(3): 2x3 | LocalResponseNorm(2): 1x4x3x3 | ReLU(): 5 | ReLU6(): 5
ReLU(inplace=True): 5 | GELU(): 5 | GELU("tanh"): 5 | SiLU(): 5 | Mish(): 5 | Tanh(): 5
Sigmoid(): 5 | LeakyReLU(0.2): 5 | ELU(): 5 | SELU(): 5 | CELU(): 5 | PReLU(): 5 | RReLU(): 5
Hardtanh(): 5 | Hardswish(): 5 | Hardsigmoid(): 5 | Hardshrink(): 5 | Softshrink(): 5
Softplus(): 5 | Softsign(): 5 | Tanhshrink(): 5 | Threshold(0.1, 2): 5 | GLU(): 2x4
LogSigmoid(): 5 | Softmax(-1): 2x3 | LogSoftmax(1): 2x3 | Softmin(0): 2x3 | Dropout(0.5): 4x4
Dropout2d(): 2x3x2x2 | AlphaDropout(): 4x4 | FeatureAlphaDropout(): 2x3x4 | Flatten(): 2x3x4
Unflatten(1, (1, 3)): 2x3 | MaxPool1d(2): 1x2x4 | MaxPool2d(2): 1x2x4x4 | AvgPool2d(2): 1x2x4x4
MaxPool2d(2, return_indices=True): 1x2x4x4 | AdaptiveAvgPool2d(1): 1x2x4x4 | LPPool2d(2, 2): 1x2x4x4
AdaptiveMaxPool2d(2): 1x2x4x4 | FractionalMaxPool2d(2, output_size=2): 1x2x5x5
Upsample(scale_factor=2): 1x2x3x3 | Upsample(size=5, mode="bilinear"): 1x2x3x3
PixelShuffle(2): 1x4x2x2 | PixelUnshuffle(2): 1x1x4x4 | ChannelShuffle(2): 1x4x2x2
ZeroPad2d(1): 1x1x2x2 | ReflectionPad1d(1): 1x2x3 | ReplicationPad2d(1): 1x1x2x2
ConstantPad1d(1, 3.0): 1x2 | CircularPad1d(1): 1x1x3 | Fold((4, 4), 2): 1x4x9 | Unfold(2): 1x1x4x4
CosineSimilarity(): 2x3, 2x3 | PairwiseDistance(): 2x3, 2x3 | MSELoss(): 2x3, 2x3
L1Loss(reduction="sum"): 2x3, 2x3 | SmoothL1Loss(): 2x3, 2x3 | HuberLoss(): 2x3, 2x3
CrossEntropyLoss(): 3x5, i3 | CrossEntropyLoss(label_smoothing=0.1): 3x5, i3 | NLLLoss(): 3x5, i3
KLDivLoss(reduction="batchmean"): 2x3, 2x3 | BCEWithLogitsLoss(): 2x3, 2x3
PoissonNLLLoss(): 2x3, 2x3 | TripletMarginLoss(): 2x3, 2x3, 2x3
MultiheadAttention(4, 2): 3x2x4, 3x2x4, 3x2x4 | TransformerEncoderLayer(4, 2, 8): 3x2x4
TransformerDecoderLayer(4, 2, 8): 3x2x4, 3x2x4
Transformer(4, 2, 1, 1, 8, batch_first=True): 3x2x4, 3x3x4 | RNN(3, 4): 5x2x3
LSTM(3, 4, num_layers=2, dropout=0.5): 5x2x3 | GRU(3, 4, bidirectional=True): 5x2x3
RNNCell(3, 4): 2x3 | LSTMCell(3, 4): 2x3 | GRUCell(3, 4): 2x3
utils.parametrizations.weight_norm(nn.Linear(3, 4)): 2x3
"""
CASES = [case.strip() for case in LAYERS.replace("\n", "|").split("|") if case.strip()]


def tensor(text):
    shape = tuple(map(int, text.strip().lstrip("i").split("x")))
    if text.strip()[0] == "i":
        return flambeau.arange(flambeau.Size(shape).numel()).reshape(shape) % 5
    return flambeau.rand(shape).requires_grad_()


def leaves(value):
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [value] if isinstance(value, flambeau.Tensor) else []


def seen(case, compile):
    """What a layer gives, twice in training and once in evaluation, and what it leaves behind."""
    text, _, shapes = case.rpartition(":")
    flambeau.manual_seed(0)
    layer = eval("nn." + text, {"nn": nn})
    run, found = compile(layer), []
    for training in (True, True, False):
        layer.train(training)
        inputs = [tensor(shape) for shape in shapes.split(",")]
        given = [x * 1 for x in inputs]  # layers may write to them
        results = leaves(run(*given))
        loss = sum(r.sum() for r in results if r.is_floating_point())
        if loss.requires_grad:
            loss.backward()
        found += [*results, *(x.grad for x in inputs if x.grad is not None)]
    found += [p.grad for p in layer.parameters() if p.grad is not None]
    return [*found, *layer.buffers(), flambeau.get_rng_state()]


@pytest.mark.parametrize("case", CASES)
def test_layers(case):
    wanted = seen(case, lambda layer: layer)
    found = seen(case, lambda m: flambeau.compile(m, backend="eager", fullgraph=True))
    assert len(found) == len(wanted) and all(map(flambeau.equal, found, wanted))
