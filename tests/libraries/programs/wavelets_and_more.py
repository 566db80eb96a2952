"""ptwt, fft-conv-pytorch, torchquad: transforms and integrals."""

import numpy as np
import ptwt
import pywt
import torch
from fft_conv_pytorch import FFTConv2d, fft_conv
from showing import gradients, show
from torchquad import VEGAS, Boole, GaussLegendre, MonteCarlo, Simpson, Trapezoid

torch.manual_seed(0)
signal = torch.randn(2, 40, dtype=torch.float64, requires_grad=True)
image = torch.randn(2, 3, 16, 16)
for name in ("haar", "db4", "sym5"):
    for mode in ("zero", "reflect", "periodic"):
        found = ptwt.wavedec(signal, pywt.Wavelet(name), mode=mode, level=2)
        back = ptwt.waverec(found, pywt.Wavelet(name))
        show(f"{name} {mode}", found, (back - signal).abs().max() < 1e-9)
(grad,) = torch.autograd.grad(sum(c.square().sum() for c in found), signal)
show("gradient", grad)
planes = ptwt.wavedec2(image, "db2", level=2, mode="constant")
show("planes", planes[0], *planes[1], ptwt.waverec2(planes, "db2"))
cubes = ptwt.wavedec3(torch.randn(1, 8, 8, 8), "haar", level=1)
show("cubes", cubes[0], cubes[1]["aad"], ptwt.waverec3(cubes, "haar"))
show("separable", ptwt.fswavedec2(image, "haar", level=1)[1]["ad"])
show("stationary", ptwt.swt(torch.randn(2, 32), "db2", level=2))
packet = ptwt.WaveletPacket(torch.randn(2, 32), "db2", mode="reflect", maxlevel=3)
show("packet", packet["ada"], packet.get_level(2))
show("matrix", ptwt.MatrixWavedec("db2", level=2)(torch.randn(2, 32)))
show("matrix 2", ptwt.MatrixWavedec2("haar", level=2)(torch.randn(1, 16, 16))[0])
scales = np.arange(1, 9)
found, frequencies = ptwt.cwt(
    torch.randn(2, 64), scales, ptwt.continuous_transform._ShannonWavelet("shan0.1-0.4")
)
show("continuous", found, frequencies)

conv = FFTConv2d(3, 4, 5, padding=2, padding_mode="reflect", stride=2, dilation=1, bias=True)
out = conv(image)
out.square().mean().backward()
show("fft conv", out, gradients(conv))
show(
    "fft conv 3",
    fft_conv(torch.randn(1, 4, 8, 8, 8), torch.randn(2, 2, 3, 3, 3), groups=2, padding=1),
)

UNIT = [[0, 1], [-1, 1]]
f = lambda x: torch.sin(x[:, 0]) + torch.exp(x[:, 1])
for rule, count in ((Trapezoid, 101), (Simpson, 101), (Boole, 81), (GaussLegendre, 100)):
    found = rule().integrate(f, dim=2, N=count, integration_domain=UNIT, backend="torch")
    show(rule.__name__, found)
domain = torch.tensor([[0.0, 1.0], [-1.0, 1.0]], requires_grad=True)
found = MonteCarlo().integrate(f, dim=2, N=500, integration_domain=domain, seed=3, backend="torch")
found.backward()
show("monte carlo", found, domain.grad)
show(
    "vegas",
    VEGAS().integrate(f, dim=2, N=2000, integration_domain=UNIT, seed=4, backend="torch"),
)
