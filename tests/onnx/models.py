"""Models that are exported: those of the examples, and small ones for features of the exporter."""

import runpy
from functools import cache
from pathlib import Path

import flambeau as torch
from flambeau import nn

EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def example(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def rand(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def actor(model):
    """The network of an agent; what it gives there is a distribution."""
    return Function(lambda x: (model.actor(model.body(x)), model.critic(model.body(x))))


# Name of a model: the model, its example inputs.
EXAMPLE_MODELS = {
    "convnet": lambda: (example("convnet")["Network"](), (rand(2, 1, 8, 8),)),
    "char_gpt": lambda: (
        example("char_gpt")["GPT"](20, 16, width=32, heads=2, layers=2),
        (torch.arange(16).reshape(1, 16) % 20,),
    ),
    "resnet_cifar": lambda: (example("resnet_cifar")["ResNet"](depth=1), (rand(2, 3, 32, 32),)),
    "transfer_learning": lambda: (
        example("transfer_learning")["Network"](5, 16),
        (rand(2, 1, 8, 8),),
    ),
    "reinforce": lambda: (actor(example("reinforce")["ActorCritic"]()), (rand(3, 4),)),
    "vae": lambda: (example("vae")["VAE"](16).encoder, (rand(2, example("vae")["PIXELS"]),)),
    "custom_function": lambda: (example("custom_function")["Quantized"](4), (rand(2, 6),)),
    "word_lstm": lambda: (
        example("word_lstm")["Model"](30, 16, 2, 0.1),
        (torch.arange(12).reshape(6, 2),),
    ),
    "digits": lambda: (
        nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
        (rand(4, 64),),
    ),
    "dcgan": lambda: (example("dcgan")["generator"](8, 4), (rand(2, 8, 1, 1),)),
}

QUICK_VISION = ["resnet18", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5"]
SLOW_VISION = [
    "alexnet", "vgg11", "densenet121", "googlenet", "inception_v3", "mnasnet0_5", "mobilenet_v2",
    "mobilenet_v3_large", "efficientnet_b0", "efficientnet_v2_s", "regnet_y_400mf",
    "regnet_x_400mf", "convnext_tiny", "swin_t", "swin_v2_t", "vit_b_32", "maxvit_t", "resnet50",
    "wide_resnet50_2", "shufflenet_v2_x1_0",
]  # fmt: skip
LARGE_INPUTS = {
    "swin_t": 224,
    "swin_v2_t": 224,
    "vit_b_32": 224,
    "maxvit_t": 224,
    "inception_v3": 75,
}


def vision(name):
    from flambeau.vision import models

    options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    torch.manual_seed(0)
    size = LARGE_INPUTS.get(name, 64)
    return getattr(models, name)(weights=None, **options), (rand(1, 3, size, size),)


class Function(nn.Module):
    """A function as a model."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


F = nn.functional
X, Y = rand(2, 3, 4), rand(2, 3, 4) + 0.1
IMAGE = rand(2, 4, 8, 8)
INDEX = torch.tensor([2, 0, 1])

# What is called, and with what: each is exported, run by others, and read back.
CALLS = {
    "arithmetic": (lambda x, y: (x + y, x - 2 * y, x * y, x / y, -x, 1 - x), (X, Y)),
    "mixed_types": (lambda x, i: (x * i, i / 2, i + 1.5, i // 2, i % 2), (X, torch.arange(4))),
    "floor": (lambda x, i: (x // 0.3, x % 0.3, i // -2, i % -3), (X, torch.arange(-4, 4))),
    "powers": (lambda x: (x**2, x.abs() ** 0.5, x.abs().sqrt(), x.square(), x.exp()), (X,)),
    "compare": (lambda x, y: (x > y, x <= 0, x == x, x != y, (x > 0) & (y > 0)), (X, Y)),
    "choose": (lambda x, y: (torch.where(x > 0, x, y), x.masked_fill(y > 0, 0.0)), (X, Y)),
    "bounds": (lambda x, y: (x.clamp(-0.5, 0.5), x.clamp(min=0), torch.maximum(x, y)), (X, Y)),
    "activations": (
        lambda x: (
            F.relu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.elu(x), F.selu(x),
            F.softplus(x), F.leaky_relu(x, 0.2), F.hardswish(x), F.hardsigmoid(x), F.mish(x),
            F.relu6(x), F.logsigmoid(x), F.hardtanh(x), F.celu(x), F.glu(x),
        ),
        (X,),
    ),
    "reductions": (
        lambda x: (
            x.sum(), x.mean(1), x.amax((0, 2)), x.prod(2), x.var(1), x.std(dim=2, correction=0),
            x.max(1), x.min(2, keepdim=True), x.argmax(1), x.logsumexp(2), x.norm(dim=1),
            (x > 0).any(1), (x > 0).all(2), x.cumsum(1),
        ),
        (X,),
    ),
    "orders": (lambda x: (x.topk(2), x.sort(1), x.sort(descending=True)), (X,)),
    "shapes": (
        lambda x: (
            x.reshape(2, -1), x.transpose(0, 1), x.permute(2, 0, 1), x.unsqueeze(1), x.flatten(1),
            x[:, 1:, ::2], x[:, 0], x[..., -1], x.expand(2, 2, 3, 4), x.repeat(1, 2, 1),
            x.flip(1), x.roll(1, 2), x.narrow(1, 1, 2), x.movedim(0, 2), x.unflatten(2, (2, 2)),
            x.repeat_interleave(2, 1), x.tril(), x.triu(1),
        ),
        (X,),
    ),
    "pieces": (lambda x: (*x.split(2, 2), *x.chunk(3, 1), *x.unbind(0)), (X,)),
    "joined": (lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y], -1)), (X, Y)),
    "picked": (
        lambda x, i: (x[:, i], x.index_select(1, i), x[i % 2, i], x.gather(1, i.view(1, 3, 1))),
        (X, INDEX),
    ),
    "put": (
        lambda x, i: (x.index_put((i % 2, i), x[0]), x.scatter(1, i.view(1, 3, 1), 2.0)),
        (X, INDEX),
    ),
    "written": (lambda x: write_into(x), (X,)),
    "padded": (
        lambda x: (
            F.pad(x, (1, 2)), F.pad(x, (1, 1), mode="reflect"), F.pad(x, (1, 1), "replicate"),
        ),
        (X,),
    ),
    "made": (
        lambda x: (torch.zeros_like(x), x.new_ones(2, 2), torch.arange(5), torch.full((2,), 3.0)),
        (X,),
    ),
    "products": (
        lambda x, y: (
            x @ y.transpose(1, 2), torch.einsum("bij,bkj->bik", x, y), F.linear(x, y[0]),
            torch.bmm(x, y.transpose(1, 2)), torch.addmm(x[0, :, :3], x[0], y[0].t(), beta=0.5),
        ),
        (X, Y),
    ),
    "attention": (
        lambda x: (
            F.scaled_dot_product_attention(x, x, x),
            F.scaled_dot_product_attention(x, x, x, is_causal=True),
            F.scaled_dot_product_attention(x, x, x, x @ x.transpose(-1, -2) > 0),
        ),
        (IMAGE,),
    ),
    "pools": (
        lambda x: (
            F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x, (4, 2)), F.adaptive_avg_pool2d(x, (3, 5)),
            F.adaptive_max_pool2d(x, 2), F.max_pool2d(x, 3, 2, ceil_mode=True),
            F.max_pool2d(x, 3, 2, 1, return_indices=True),
            F.max_pool1d(x[0], 2, return_indices=True),
        ),
        (IMAGE,),
    ),
    "resized": (
        lambda x: (
            F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 7), mode="bilinear"),
            F.interpolate(x, (9, 4), mode="bilinear", align_corners=True),
            F.interpolate(x, (12, 12), mode="bicubic"),
            F.interpolate(x, (5, 5), mode="nearest-exact"),
            F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2),
        ),
        (IMAGE,),
    ),
    "normalised": (
        lambda x: (
            F.layer_norm(x, (8,)), F.group_norm(x, 2), F.instance_norm(x), F.rms_norm(x, (8,)),
            F.softmax(x, 1), F.log_softmax(x, -1), F.normalize(x, dim=1),
        ),
        (IMAGE,),
    ),
    "losses": (
        lambda x, y: (
            F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"),
            F.cross_entropy(x.transpose(1, 2), (y[:, :, 0] > 0).long()),
            F.binary_cross_entropy_with_logits(x, (y > 0).float()),
        ),
        (X, Y),
    ),
    "soft targets": (
        lambda x, y: (
            F.cross_entropy(x, y.softmax(1)),
            F.cross_entropy(x, y.softmax(1), y[0, :, 0].abs(), label_smoothing=0.2),
            F.cross_entropy(x, y.softmax(1), reduction="none"),
            *(
                F.cross_entropy(x, (y[:, 0] > 0).long(), weight, label_smoothing=0.1, **options)
                for weight in (None, y[0, :, 0].abs())
                for options in ({}, {"reduction": "sum"}, {"ignore_index": 1})
            ),
        ),
        (X, Y),
    ),
    "quantized": (
        lambda x: (
            torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255),
            torch.fake_quantize_per_tensor_affine(x, 0.02, 0, -127, 127),
            torch.fake_quantize_per_channel_affine(
                x, torch.tensor([0.1, 0.2, 0.3]), torch.zeros(3, dtype=torch.int32), 1, -128, 127
            ),
        ),
        (X,),
    ),
    "branches": (lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,)), (X,)),
}  # fmt: skip


def write_into(x):
    x = x.clone()
    x[:, 0] = 1.0
    x[:, 1:, ::2] += 2
    x.relu_()
    return x


LAYERS = {
    "conv1d": (lambda: nn.Conv1d(3, 5, 3, padding="same"), (X,)),
    "conv2d": (lambda: nn.Conv2d(4, 6, 3, 2, 1, groups=2), (IMAGE,)),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2), (rand(1, 1, 3, 4, 4),)),
    "deconv": (lambda: nn.ConvTranspose2d(4, 3, 3, 2, 1, 1), (IMAGE,)),
    "prelu": (lambda: nn.PReLU(4), (IMAGE,)),
    "batchnorm": (lambda: nn.BatchNorm2d(4), (IMAGE,)),
    "lstm": (lambda: nn.LSTM(4, 5, 2, bidirectional=True, batch_first=True), (X,)),
    "gru": (lambda: nn.GRU(4, 5, 2), (X,)),
    "rnn": (lambda: nn.RNN(4, 5, nonlinearity="relu", bidirectional=True), (X,)),
    "lstm_cell": (lambda: nn.LSTMCell(4, 5), (X[0],)),
    "gru_cell": (lambda: nn.GRUCell(4, 5), (X[0],)),
    "embedding": (lambda: nn.Embedding(7, 3, padding_idx=0), (INDEX,)),
    "multihead": (lambda: Function(nn.MultiheadAttention(4, 2, batch_first=True)), (X, X, X)),
    "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (X,)),
}
