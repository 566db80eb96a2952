"""julius, asteroid-filterbanks, torch-dct, pytorch-tcn."""

import julius
import torch
import torch_dct
from asteroid_filterbanks import STFTFB, Encoder, FreeFB, ParamSincFB
from pytorch_tcn import TCN
from showing import gradients, show

torch.manual_seed(0)
x = torch.randn(2, 1, 2000, requires_grad=True)
for name, f in {
    "resampled": lambda: julius.resample_frac(x, 4, 3),
    "low": lambda: julius.lowpass_filter(x, 0.2),
    "bands": lambda: julius.split_bands(x, 8000, n_bands=3),
    "fft conv": lambda: julius.fft_conv1d(x, torch.randn(1, 1, 33)),
    "dct": lambda: torch_dct.dct(x),
    "idct": lambda: torch_dct.idct(torch_dct.dct(x, norm="ortho"), norm="ortho"),
}.items():
    out = f()
    (grad,) = torch.autograd.grad(out.square().mean(), x)
    show(name, out, grad)
for bank in (FreeFB(8, 16), STFTFB(16, 16), ParamSincFB(8, 17)):
    torch.manual_seed(1)
    encoder = Encoder(bank)
    show(type(bank).__name__, encoder(x))
torch.manual_seed(2)
tcn = TCN(1, [4, 4], kernel_size=3, dropout=0.0)
out = tcn(x[..., :50])
out.square().mean().backward()
show("tcn", out, gradients(tcn))
