"""Calls on quantized tensors that mean the same with flambeau and with PyTorch."""

import math


def numbers(m, *shape, seed=0, scale=1.0):
    """Numbers without a generator: the same everywhere, some of them halfway between levels."""
    count = math.prod(shape)
    values = [((k * 7919 + seed * 104729) % 2003 - 1001) / 512.0 * scale for k in range(count)]
    return m.tensor(values).reshape(shape)


def quantized(m, *shape, scale=0.03125, zero_point=100, seed=0, dtype="quint8"):
    return m.quantize_per_tensor(
        numbers(m, *shape, seed=seed), scale, zero_point, getattr(m, dtype)
    )


def channels(m, weight, axis=0):
    rows = weight.movedim(axis, 0).flatten(1).abs().amax(1) / 127
    zeros = m.zeros(len(rows), dtype=m.int64)
    return m.quantize_per_channel(weight, rows.double(), zeros, axis, m.qint8)


def summary(result):
    """A result as plain numbers."""
    if isinstance(result, (tuple, list)):
        return [summary(item) for item in result]
    if not hasattr(result, "is_quantized"):
        return result
    if not result.is_quantized:
        return {"dtype": str(result.dtype), "values": result.detach().tolist()}
    facts = {"dtype": str(result.dtype), "values": result.int_repr().tolist()}
    if "per_tensor" in str(result.qscheme()):
        return {**facts, "scale": result.q_scale(), "zero_point": result.q_zero_point()}
    return {
        **facts,
        "scale": result.q_per_channel_scales().tolist(),
        "zero_point": result.q_per_channel_zero_points().tolist(),
        "axis": result.q_per_channel_axis(),
    }


def linear(kind, per_channel, bias=True, rows=7, depth=29, columns=19):
    def run(m):
        weight = numbers(m, columns, depth, seed=3, scale=0.1)
        whole = m.quantize_per_tensor(weight, 0.002, 0, m.qint8)
        packed = m.ops.quantized.linear_prepack(
            channels(m, weight) if per_channel else whole, numbers(m, columns) if bias else None
        )
        if "dynamic" in kind:
            return getattr(m.ops.quantized, kind)(numbers(m, rows, depth, seed=5), packed, True)
        x = quantized(m, rows, depth, seed=5)
        return getattr(m.ops.quantized, kind)(x, packed, 0.05, 60)

    return run


def convolution(kind, size, weight_size, stride=1, padding=0, dilation=1, groups=1):
    dims = len(size) - 2

    def run(m):
        transposed = "transpose" in kind
        weight = numbers(m, *weight_size, seed=2, scale=0.2)
        q = m.quantize_per_tensor(weight, 0.004, 0, m.qint8) if transposed else channels(m, weight)
        out = weight_size[1] * groups if transposed else weight_size[0]
        facts = [[n] * dims for n in (stride, padding)]
        facts += [[0] * dims] if transposed else []
        facts += [[dilation] * dims]
        pack = getattr(m.ops.quantized, kind.replace("_relu", "") + "_prepack")
        packed = pack(q, numbers(m, out, seed=9), *facts, groups)
        return getattr(m.ops.quantized, kind)(quantized(m, *size), packed, 0.1, 50)

    return run


def of_two(name, *args):
    def run(m):
        a, b = quantized(m, 3, 5), quantized(m, 3, 5, scale=0.02, zero_point=90, seed=4)
        return getattr(m.ops.quantized, name)(a, b, *args)

    return run


def of_one(function):
    return lambda m: function(m, quantized(m, 2, 3, 6, 6))


def faked(m):
    x = numbers(m, 40).requires_grad_()
    out = m.fake_quantize_per_tensor_affine(x, 0.015, 40, 0, 127)
    out.sum().backward()
    return out, x.grad


def learned(m):
    x = numbers(m, 3, 8).requires_grad_()
    scale = m.tensor([0.01, 0.02, 0.03], requires_grad=True)
    zero = m.tensor([3.0, 0.0, 5.0], requires_grad=True)
    out = m._fake_quantize_learnable_per_channel_affine(x, scale, zero, 0, 0, 127, 0.5)
    (out * numbers(m, 3, 8, seed=8)).sum().backward()
    return out, x.grad, scale.grad, zero.grad


CASES = {
    "quantize": lambda m: quantized(m, 50),
    "quantize signed": lambda m: quantized(m, 50, zero_point=-3, dtype="qint8"),
    "quantize 32 bits": lambda m: quantized(m, 20, scale=0.001, zero_point=7, dtype="qint32"),
    "quantize channels": lambda m: channels(m, numbers(m, 4, 9), 1),
    "quantize range": lambda m: m.quantize_per_tensor_dynamic(numbers(m, 30), m.quint8, False),
    "dequantize": lambda m: quantized(m, 20).dequantize(),
    "dequantize channels": lambda m: channels(m, numbers(m, 4, 9)).dequantize(),
    "choose": lambda m: m._choose_qparams_per_tensor(numbers(m, 30) * 3, True),
    "fake": faked,
    "fake learnable": learned,
    "linear": linear("linear", False),
    "linear channels": linear("linear", True),
    "linear relu": linear("linear_relu", True, bias=False),
    "linear wide": linear("linear", True, rows=3, depth=64, columns=70),
    "linear dynamic": linear("linear_dynamic", True),
    "linear relu dynamic": linear("linear_relu_dynamic", False),
    "conv2d": convolution("conv2d", (2, 3, 9, 8), (5, 3, 3, 3), 2, 1),
    "conv2d deep": convolution("conv2d", (1, 16, 6, 6), (20, 16, 3, 3), 1, 1),
    "conv2d 1x1": convolution("conv2d_relu", (1, 8, 5, 5), (18, 8, 1, 1)),
    "conv2d dilated": convolution("conv2d", (1, 4, 9, 9), (6, 4, 3, 3), 1, 2, 2),
    "conv2d groups": convolution("conv2d", (1, 8, 6, 6), (12, 4, 3, 3), 1, 1, 1, 2),
    "conv2d depthwise": convolution("conv2d_relu", (1, 19, 6, 6), (19, 1, 3, 3), 1, 1, 1, 19),
    "conv1d": convolution("conv1d", (2, 5, 17), (6, 5, 3), 2, 1),
    "conv3d": convolution("conv3d", (1, 3, 4, 5, 5), (4, 3, 2, 2, 2), 1, 1),
    "conv_transpose2d": convolution("conv_transpose2d", (1, 4, 5, 5), (4, 3, 3, 3), 2, 1),
    "add": of_two("add", 0.06, 70),
    "add_relu": of_two("add_relu", 0.06, 70),
    "mul": of_two("mul", 0.05, 20),
    "relu": of_one(lambda m, q: q.relu()),
    "clamp": of_one(lambda m, q: q.clamp(-0.3, 0.8)),
    "leaky_relu": of_one(lambda m, q: m.nn.functional.leaky_relu(q, 0.1)),
    "sigmoid": of_one(lambda m, q: q.sigmoid()),
    "hardswish": of_one(lambda m, q: m.ops.quantized.hardswish(q, 0.04, 30)),
    "max_pool2d": of_one(lambda m, q: m.nn.functional.max_pool2d(q, 3, 2, 1)),
    "avg_pool2d": of_one(lambda m, q: m.nn.functional.avg_pool2d(q, 2)),
    "adaptive_avg_pool2d": of_one(lambda m, q: m.nn.functional.adaptive_avg_pool2d(q, 1)),
    "mean": of_one(lambda m, q: q.mean((2, 3))),
    "interpolate": of_one(lambda m, q: m.nn.functional.interpolate(q, scale_factor=2)),
    "cat": of_one(lambda m, q: m.cat([q, q.flip(0)], 1)),
    "pad": of_one(lambda m, q: m.nn.functional.pad(q, (1, 1), value=0.25)),
    "index": of_one(lambda m, q: q[:, 1, ::2]),
    "part of channels": lambda m: channels(m, numbers(m, 4, 9))[1:3],
    "one channel": lambda m: channels(m, numbers(m, 4, 9))[2],
    "add_scalar": of_one(lambda m, q: m.ops.quantized.add_scalar(q, 0.7)),
    "mul_scalar": of_one(lambda m, q: m.ops.quantized.mul_scalar(q, -2.0)),
    "text": lambda m: repr(quantized(m, 2, 3)) + repr(channels(m, numbers(m, 2, 3))),
}
