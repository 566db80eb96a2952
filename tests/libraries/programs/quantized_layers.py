"""optimum-quanto, hqq, bitsandbytes on the processor, loralib: small weights, low ranks."""

import bitsandbytes
import loralib
import torch
from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer
from optimum import quanto
from showing import gradients, show
from torch import nn


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64))


x = torch.randn(5, 64, generator=torch.Generator().manual_seed(1))
for weights in (quanto.qint8, quanto.qfloat8):
    for activations in (quanto.qint8, None):
        net = network()
        quanto.quantize(net, weights=weights, activations=activations)
        with quanto.Calibration():
            net(x)
        show("quanto", weights.name, net(x).dequantize() if activations else net(x))
        loss = net(x).square().mean()
        loss.backward()
        show("trained", gradients(net))
        quanto.freeze(net)
        out = net(x)
        show("frozen", out.dequantize() if activations else out, type(net[0].weight).__name__)
    again = network()
    quanto.requantize(again, net.state_dict(), quanto.quantization_map(net))
    show("again", again(x))
for bits, size in ((8, 64), (4, 64), (3, 64), (2, 16), (1, 32)):
    packed, meta = Quantizer.quantize(
        network()[0].weight.data, nbits=bits, group_size=size, device="cpu"
    )
    show("hqq", bits, packed.dtype, packed.shape, Quantizer.dequantize(packed, meta))
layer = HQQLinear(
    network()[0],
    BaseQuantizeConfig(nbits=4, group_size=64),
    compute_dtype=torch.float32,
    device="cpu",
)
show("layer", layer(x), layer.W_q.dtype)
big = torch.randn(64, 64, generator=torch.Generator().manual_seed(2))
for kind in ("nf4", "fp4"):
    packed, state = bitsandbytes.functional.quantize_4bit(big, quant_type=kind, blocksize=64)
    show(kind, packed.float(), bitsandbytes.functional.dequantize_4bit(packed, state))
packed, state = bitsandbytes.functional.quantize_blockwise(big)
show("blocks", packed.float(), bitsandbytes.functional.dequantize_blockwise(packed, state))
packed, scale, _ = bitsandbytes.functional.int8_vectorwise_quant(big)
show("rows", packed.float(), scale)
four = bitsandbytes.nn.Linear4bit(64, 32, quant_type="nf4", compute_dtype=torch.float32)
torch.manual_seed(3)
four.load_state_dict(nn.Linear(64, 32).state_dict())
four = four.to("cpu")
y = x.clone().requires_grad_()
out = four(y)
out.square().mean().backward()
show("four bits", out, y.grad)
eight = bitsandbytes.nn.Linear8bitLt(64, 32, has_fp16_weights=False)
eight.load_state_dict(nn.Linear(64, 32).state_dict())
show("eight bits", eight(x))
torch.manual_seed(4)
low = nn.Sequential(
    loralib.Linear(64, 32, r=4, lora_alpha=8),
    loralib.MergedLinear(32, 48, r=2, enable_lora=[True, False, True]),
)
loralib.mark_only_lora_as_trainable(low)
low(x).square().mean().backward()
show("low ranks", low(x), gradients(low), len(loralib.lora_state_dict(low)))
low.eval()
show("merged", low(x), low[0].merged)
