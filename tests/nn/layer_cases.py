"""Layers, each with a call; and what can be seen of one, in any library.

A case reads "how it is made <- how it is called": `x(2, 3)` is a tensor that wants a gradient,
`k(9, 2, 3)` holds whole numbers below 9. `observe` runs a case in flambeau or PyTorch alike.
"""

import math
import warnings
import zlib

import numpy as np

CASES = """
Identity(3, a=4) <- x(2, 3)
Linear(3, 5) <- x(4, 3)
Linear(3, 5, bias=False) <- x(2, 4, 3)
Linear(4, 2, dtype=lib.float64) <- x(4, dtype=lib.float64)
Linear(40, 30) <- x(7, 40)
modules.linear.NonDynamicallyQuantizableLinear(3, 2) <- x(3)
Bilinear(3, 4, 2) <- x(5, 3), x(5, 4)
Bilinear(3, 4, 2, bias=False) <- x(2, 5, 3), x(2, 5, 4)
LazyLinear(4) <- x(2, 3)
LazyLinear(4, bias=False) <- x(3)
Threshold(0.1, 20.0) <- x(3, 4)
Threshold(0.1, 20.0, True) <- x(3, 4) * 1
ReLU() <- x(3, 4)
ReLU(True) <- x(3, 4) * 1
ReLU(inplace=True) <- x(20) * 1
RReLU() <- x(3, 4)
RReLU(0.1, 0.3, True) <- x(3, 4) * 1
Hardtanh() <- x(3, 4)
Hardtanh(-0.5, 2.0, True) <- x(3, 4) * 1
Hardtanh(min_value=-2, max_value=0.5) <- x(3, 4)
ReLU6() <- x(3, 4) * 8
ReLU6(True) <- x(3, 4) * 8
Sigmoid() <- x(3, 4)
Hardsigmoid() <- x(3, 4) * 4
Hardsigmoid(True) <- x(3, 4) * 4
Tanh() <- x(3, 4)
SiLU() <- x(3, 4)
SiLU(True) <- x(3, 4) * 1
Mish() <- x(3, 4)
Mish(True) <- x(3, 4) * 1
Hardswish() <- x(3, 4) * 4
Hardswish(True) <- x(3, 4) * 4
ELU() <- x(3, 4)
ELU(0.5, True) <- x(3, 4) * 1
CELU() <- x(3, 4)
CELU(2.0, True) <- x(3, 4) * 1
SELU() <- x(3, 4)
SELU(True) <- x(3, 4) * 1
GLU() <- x(3, 4)
GLU(0) <- x(4, 3)
GELU() <- x(3, 4)
GELU("tanh") <- x(3, 4)
Hardshrink() <- x(3, 4)
Hardshrink(0.2) <- x(3, 4)
LeakyReLU() <- x(3, 4)
LeakyReLU(0.2, True) <- x(3, 4) * 1
LogSigmoid() <- x(3, 4)
Softplus() <- x(3, 4)
Softplus(2.0, 1.0) <- x(3, 4)
Softshrink() <- x(3, 4)
PReLU() <- x(3, 4)
PReLU(4, 0.1) <- x(3, 4, 2)
Softsign() <- x(3, 4)
Tanhshrink() <- x(3, 4)
Softmin(1) <- x(3, 4)
Softmin() <- x(3, 4)
Softmax() <- x(3, 4)
Softmax(dim=0) <- x(3, 4)
Softmax2d() <- x(2, 3, 2, 2)
Softmax2d() <- x(3, 2, 2)
LogSoftmax(-1) <- x(3, 4)
LogSoftmax() <- x(2, 3, 4)
MultiheadAttention(4, 2) <- x(3, 2, 4), x(5, 2, 4), x(5, 2, 4)
MultiheadAttention(4, 2) <- x(3, 4), x(5, 4), x(5, 4), need_weights=False
MultiheadAttention(4, 2, batch_first=True) <- *[x(2, 3, 4)] * 3
MultiheadAttention(4, 1, bias=False, kdim=3, vdim=5, batch_first=True) <- x(2, 3, 4), x(2, 4, 3), x(2, 4, 5)
MultiheadAttention(6, 3, add_bias_kv=True) <- x(3, 2, 6), x(5, 2, 6), x(5, 2, 6), average_attn_weights=False
MultiheadAttention(6, 3, add_zero_attn=True) <- x(3, 2, 6), x(5, 2, 6), x(5, 2, 6), k(2, 2, 5) > 0
MultiheadAttention(4, 2) <- x(3, 2, 4), x(3, 2, 4), x(3, 2, 4), attn_mask=k(2, 3, 3).float() * -3
Conv1d(2, 4, 3) <- x(3, 2, 7)
Conv1d(2, 4, 3, 2, 1, 2, 2, False) <- x(2, 7)
Conv1d(2, 4, 4, padding="same", padding_mode="circular") <- x(2, 2, 7)
Conv2d(2, 4, 3) <- x(2, 2, 5, 6)
Conv2d(2, 4, (3, 2), stride=2, padding=1, dilation=2, groups=2, bias=False) <- x(2, 2, 7, 6)
Conv2d(2, 3, 3, padding=(1, 2), padding_mode="reflect") <- x(2, 2, 5, 6)
Conv2d(2, 3, 3, padding="same", padding_mode="replicate") <- x(2, 5, 6)
Conv2d(2, 3, 3, padding=2, padding_mode="circular", stride=2) <- x(1, 2, 5, 6)
Conv2d(2, 3, (2, 4), padding="same", dilation=2) <- x(1, 2, 5, 6)
Conv2d(2, 3, 2, padding="valid") <- x(1, 2, 5, 6)
Conv3d(2, 4, 2, padding=1) <- x(1, 2, 3, 4, 3)
Conv3d(2, 4, (1, 2, 2), stride=(1, 2, 1), groups=2) <- x(2, 3, 4, 3)
ConvTranspose1d(2, 4, 3, 2) <- x(1, 2, 5)
ConvTranspose1d(2, 4, 3, 2, 1, 1, 2, False) <- x(1, 2, 5)
ConvTranspose2d(2, 4, 3, 2, 1, dilation=2) <- x(1, 2, 3, 4)
ConvTranspose2d(2, 4, 3, 2) <- x(1, 2, 3, 4), output_size=(8, 10)
ConvTranspose2d(2, 4, 3, 2) <- x(1, 2, 3, 4), output_size=lib.Size((1, 2, 7, 9))
ConvTranspose2d(2, 4, 3, 2) <- x(2, 3, 4), output_size=[8, 9]
ConvTranspose3d(2, 3, 2, 2) <- x(1, 2, 2, 3, 2)
ConvTranspose3d(2, 4, (1, 2, 3), padding=(0, 1, 1), groups=2) <- x(2, 2, 3, 2)
LazyConv1d(4, 3) <- x(2, 3, 7)
LazyConv2d(6, 3, groups=3, bias=False) <- x(2, 3, 5, 5)
LazyConv3d(4, 2) <- x(3, 3, 4, 3)
LazyConvTranspose1d(4, 3) <- x(2, 3, 7)
LazyConvTranspose2d(4, 3, 2) <- x(2, 3, 4, 4), output_size=(10, 10)
LazyConvTranspose3d(4, 2) <- x(1, 3, 2, 3, 2)
BatchNorm1d(3) <- x(5, 3)
BatchNorm1d(3, momentum=None) <- x(5, 3, 2)
BatchNorm1d(3, affine=False) <- x(5, 3)
BatchNorm2d(3, 1e-3, 0.3) <- x(2, 3, 4, 5)
BatchNorm2d(3, bias=False, track_running_stats=False) <- x(2, 3, 4, 5)
BatchNorm3d(2) <- x(2, 2, 2, 3, 2)
SyncBatchNorm(3) <- x(4, 3, 2)
LazyBatchNorm1d() <- x(5, 3)
LazyBatchNorm2d(bias=False) <- x(2, 3, 2, 2)
LazyBatchNorm3d(affine=False, track_running_stats=False) <- x(2, 3, 2, 2, 2)
InstanceNorm1d(3) <- x(2, 3, 5)
InstanceNorm1d(3, affine=True) <- x(3, 5)
InstanceNorm2d(3, affine=True, track_running_stats=True) <- x(2, 3, 4, 5)
InstanceNorm2d(3, affine=True, bias=False) <- x(2, 3, 4, 5)
InstanceNorm3d(3, momentum=0.4, track_running_stats=True) <- x(2, 3, 2, 3, 2)
LazyInstanceNorm1d() <- x(2, 3, 5)
LazyInstanceNorm2d(affine=False) <- x(2, 3, 4, 5)
LazyInstanceNorm3d(track_running_stats=False) <- x(2, 3, 2, 3, 2)
LocalResponseNorm(2) <- x(2, 5, 3, 3)
LocalResponseNorm(3, 0.5, 0.6, 2.0) <- x(2, 5, 3)
CrossMapLRN2d(3) <- x(2, 5, 3, 2).detach()
CrossMapLRN2d(4, 0.5, 0.6, 2) <- x(2, 5, 3, 2).detach()
LayerNorm(4) <- x(2, 3, 4)
LayerNorm((3, 4), 1e-3, bias=False) <- x(2, 3, 4)
LayerNorm([3, 4], elementwise_affine=False) <- x(2, 3, 4)
GroupNorm(2, 4) <- x(3, 4, 5)
GroupNorm(2, 4, affine=False) <- x(3, 4, 2)
GroupNorm(4, 4, 0.1, bias=False) <- x(3, 4, 2, 2)
RMSNorm(4) <- x(2, 3, 4)
RMSNorm((3, 4), 1e-2, False) <- x(2, 3, 4)
Dropout() <- x(4, 30)
Dropout(0.2, True) <- x(4, 30) * 1
Dropout(0.0) <- x(4, 3)
Dropout(1.0) <- x(4, 3)
Dropout1d(0.4) <- x(4, 9, 3)
Dropout2d(0.2, True) <- x(4, 9, 3, 2) * 1
Dropout3d() <- x(4, 9, 2, 2, 2)
AlphaDropout(0.3) <- x(4, 30)
FeatureAlphaDropout(0.3) <- x(4, 9, 2, 2, 2)
ConstantPad1d(2, 3.5) <- x(2, 3, 4)
ConstantPad2d((1, 2, 0, 3), 3.5) <- x(2, 3, 4, 3)
ConstantPad3d([1, 0, 2, 1, 1, -1], 3.5) <- x(2, 3, 4, 3)
ZeroPad1d(2) <- x(2, 3, 4)
ZeroPad2d((-1, 2, 3, 4)) <- x(2, 3, 4)
ZeroPad3d(1) <- x(1, 2, 2, 2, 2)
ReflectionPad1d(2) <- x(2, 3, 4)
ReflectionPad2d((1, 2, 2, 0)) <- x(2, 3, 4)
ReflectionPad3d(1) <- x(2, 3, 4, 3)
ReplicationPad1d((3, 1)) <- x(2, 3, 4)
ReplicationPad2d((1, 2, 3, 4)) <- x(2, 3, 3, 2)
ReplicationPad3d(1) <- x(1, 2, 3, 3, 2)
CircularPad1d((3, 1)) <- x(2, 3, 4)
CircularPad2d((1, 2, 3, 1)) <- x(2, 3, 3, 2)
CircularPad3d(1) <- x(1, 2, 3, 3, 2)
MaxPool1d(2) <- x(2, 3, 7)
MaxPool1d(3, 1, 1, 2, True, True) <- x(3, 7)
MaxPool2d((2, 3), return_indices=True, ceil_mode=True) <- x(2, 3, 5, 7)
MaxPool2d(3, 2, 1) <- x(2, 3, 5, 7)
MaxPool3d(2, 1) <- x(1, 2, 3, 4, 3)
MaxUnpool1d(2) <- x(1, 2, 3), k(1, 1, 2, 3) + lib.tensor([0, 3, 5])
MaxUnpool2d(2, 3, 1) <- x(1, 2, 2, 2), k(1, 1, 2, 2, 2) + lib.tensor([[0, 3], [5, 7]])
MaxUnpool2d(2) <- x(1, 2, 2, 2), k(1, 1, 2, 2, 2) + lib.tensor([[0, 3], [5, 7]]), output_size=(5, 5)
MaxUnpool3d(2) <- x(1, 1, 1, 1, 2), lib.tensor([[[[[0, 13]]]]])
AvgPool1d(2) <- x(2, 3, 7)
AvgPool1d(3, 2, 1, True, False) <- x(3, 7)
AvgPool2d(2, divisor_override=3) <- x(2, 3, 5, 7)
AvgPool2d((3, 2), 2, 1, count_include_pad=False) <- x(2, 3, 5, 7)
AvgPool3d(2, 3, 1) <- x(1, 2, 4, 4, 5)
FractionalMaxPool2d(2, 3) <- x(2, 3, 7, 8)
FractionalMaxPool2d(2, output_ratio=0.5, return_indices=True) <- x(2, 3, 7, 8)
FractionalMaxPool3d(2, (2, 3, 3)) <- x(2, 3, 5, 7, 8)
FractionalMaxPool3d((2, 1, 2), output_ratio=(0.5, 0.6, 0.7)) <- x(2, 5, 7, 8)
LPPool1d(2, 3) <- x(2, 3, 7)
LPPool2d(1.5, (3, 2), stride=2, ceil_mode=True) <- x(2, 3, 7, 7).abs()
LPPool3d(2, 2) <- x(1, 2, 4, 4, 4)
AdaptiveMaxPool1d(3) <- x(2, 3, 7)
AdaptiveMaxPool2d((2, None), return_indices=True) <- x(2, 3, 7, 5)
AdaptiveMaxPool3d(2) <- x(2, 3, 3, 4, 5)
AdaptiveAvgPool1d(3) <- x(2, 3, 7)
AdaptiveAvgPool2d((2, None)) <- x(2, 3, 7, 5)
AdaptiveAvgPool3d(2) <- x(2, 3, 3, 4, 5)
Fold((4, 5), 2) <- x(2, 8, 12)
Fold(5, (2, 3), dilation=(2, 1), padding=1, stride=2) <- x(2, 12, 9)
Unfold(2, stride=(2, 1)) <- x(2, 3, 5, 6)
Unfold((2, 3), 2, 1) <- x(2, 3, 5, 6)
Upsample(scale_factor=2) <- x(1, 2, 3)
Upsample(scale_factor=(2, 1.5), mode="bilinear", align_corners=True) <- x(1, 2, 3, 4)
Upsample(size=(5, 7), mode="bicubic") <- x(1, 2, 3, 4)
Upsample(7, mode="linear", align_corners=False) <- x(1, 2, 3)
Upsample(scale_factor=1.7, mode="trilinear", recompute_scale_factor=True) <- x(1, 2, 3, 3, 2)
UpsamplingNearest2d(scale_factor=2) <- x(1, 2, 3, 4)
UpsamplingBilinear2d((5, 6)) <- x(1, 2, 3, 4)
PixelShuffle(2) <- x(2, 8, 3, 2)
PixelUnshuffle(2) <- x(2, 2, 4, 6)
ChannelShuffle(2) <- x(2, 6, 3, 2)
PairwiseDistance() <- x(4, 5), x(4, 5)
PairwiseDistance(1.0, 1e-3, True) <- x(4, 5), x(5)
CosineSimilarity() <- x(4, 5), x(4, 5)
CosineSimilarity(0, 1e-3) <- x(4, 5), x(4, 5)
Flatten() <- x(2, 3, 4)
Flatten(0, 1) <- x(2, 3, 4)
Unflatten(1, (2, 3)) <- x(2, 6)
Unflatten(-1, [2, -1]) <- x(2, 6)
Embedding(6, 3) <- k(6, 4, 2)
Embedding(6, 3, padding_idx=-1, norm_type=3.0, scale_grad_by_freq=True) <- k(6, 9)
Embedding(6, 3, max_norm=0.5) <- k(6, 9)
Embedding.from_pretrained(x(6, 3).detach(), False, 2) <- k(6, 9)
EmbeddingBag(6, 3) <- k(6, 4, 2)
EmbeddingBag(6, 3, mode="sum", padding_idx=1) <- k(6, 9), lib.tensor([0, 4, 4]), x(9)
EmbeddingBag(6, 3, mode="max", max_norm=2.0) <- k(6, 9), lib.tensor([0, 4])
EmbeddingBag(6, 3, include_last_offset=True) <- k(6, 9), lib.tensor([0, 4, 9])
EmbeddingBag.from_pretrained(x(6, 3).detach(), mode="sum") <- k(6, 4, 2), None, x(4, 2)
Sequential(Linear(3, 4), ReLU(), Linear(4, 2)) <- x(5, 3)
Sequential(OrderedDict(conv=Conv2d(1, 2, 3), norm=BatchNorm2d(2), pool=MaxPool2d(2))) <- x(2, 1, 6, 6)
Sequential(LazyLinear(4), Dropout(0.3), LazyLinear(3)) <- x(5, 3)
""".strip().splitlines()  # noqa: E501


class Inputs:
    """Makes the arguments of a call, the same in every library, and remembers them."""

    def __init__(self, lib):
        self.lib, self.made = lib, []

    def x(self, *shape, dtype=None):
        count = math.prod(shape)
        values = np.sin(np.arange(count) * 1.7 + 3 * len(self.made) + 0.5) * 1.3
        t = self.lib.tensor(values.tolist(), dtype=dtype or self.lib.float32).reshape(shape)
        self.made.append(t.requires_grad_())
        return t

    def k(self, below, *shape):
        values = [(i * i * 7 + i) % below for i in range(math.prod(shape))]
        return self.lib.tensor(values).reshape(shape)


def names(lib):
    """What the text of a case may use."""
    from collections import OrderedDict

    inputs = Inputs(lib)
    return inputs, {**vars(lib.nn), "lib": lib, "OrderedDict": OrderedDict,
                    "x": inputs.x, "k": inputs.k}  # fmt: skip


def make(lib, case, seed=11):
    """The module of a case, with the initial values of a seed."""
    lib.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(case.split(" <- ")[0], names(lib)[1])


def call(lib, module, case, seed=5):
    """(outputs, inputs) of one call."""
    inputs, known = names(lib)
    known["m"] = module
    lib.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = eval(f"m({case.split(' <- ')[1]})", known)
    return [t for t in flat(found) if t is not None], inputs.made


def flat(found):
    """What tuples in tuples hold, as one list."""
    return [t for part in found for t in flat(part)] if isinstance(found, tuple) else [found]


def differentiate(outputs):
    """Backward, from a sum in which every element counts differently."""
    total = 0
    for t in outputs:
        if t.requires_grad:
            weights = [math.cos(0.7 * i) for i in range(t.numel())]
            total = total + (t * t.new_tensor(weights).reshape(t.shape)).sum()
    if not isinstance(total, int):
        total.backward()


def numbers(t):
    return np.array(t.detach().double().tolist() if t.is_floating_point() else t.tolist())


def observe(lib, case):
    """Everything that can be seen of a case: name of what is seen -> array or text."""
    module = make(lib, case)
    seen = {"text": repr(module)}
    lazy = "Lazy" in case
    if not lazy:
        see_state(seen, "initial", module)
    outputs, inputs = call(lib, module, case)
    if lazy:
        seen["text after"] = repr(module)
    for place, t in enumerate(outputs):
        seen[f"output {place}"] = numbers(t)
        seen[f"dtype {place}"] = str(t.dtype).split(".")[-1]
    differentiate(outputs)
    for place, t in enumerate(inputs):
        if t.grad is not None:
            seen[f"gradient {place}"] = numbers(t.grad)
    for name, p in module.named_parameters():
        seen[f"gradient {name}"] = "none" if p.grad is None else numbers(p.grad)
    see_state(seen, "after", module)
    module.eval()
    for place, t in enumerate(call(lib, module, case)[0]):
        seen[f"evaluated {place}"] = numbers(t)
    return seen


def see_state(seen, when, module):
    state = module.state_dict()
    versions = {name: entry["version"] for name, entry in state._metadata.items()}
    seen[f"{when} keys"] = [f"{key} {list(t.shape)} {t.dtype}" for key, t in state.items()]
    seen[f"{when} versions"] = str(versions)
    for key, t in state.items():
        seen[f"{when} {key}"] = numbers(t)


def bits(array):
    """A checksum of numbers as float32: equal bits or not."""
    return zlib.crc32(np.asarray(array, dtype="float32").tobytes())


def digest(array):
    """A few numbers that tell an array from others: shape, size of values, two weighted sums."""
    flat = np.asarray(array, dtype="float64").ravel()
    place = np.arange(flat.size)
    sums = [float(np.abs(flat).sum()), float(flat @ np.cos(place)), float(flat @ np.cos(place * 2))]
    return [list(np.shape(array)), *[float(f"{s:.7g}") for s in sums]]
