"""pytorch-msssim, piq, lpips without weights."""

import lpips
import piq
import torch
from pytorch_msssim import SSIM, ms_ssim, ssim
from showing import show

torch.manual_seed(0)
x, y = torch.rand(2, 3, 176, 176, requires_grad=True), torch.rand(2, 3, 176, 176)
for name, f in {
    "ssim": lambda: ssim(x, y, data_range=1.0),
    "ms_ssim": lambda: ms_ssim(x, y, data_range=1.0),
    "SSIM": lambda: SSIM(data_range=1.0, size_average=False)(x, y).sum(),
    "piq ssim": lambda: piq.ssim(x, y),
    "psnr": lambda: piq.psnr(x, y),
    "tv": lambda: piq.total_variation(x),
    "vif": lambda: piq.vif_p(x, y),
    "fsim": lambda: piq.fsim(x, y),
    "gmsd": lambda: piq.gmsd(x, y),
    "mdsi": lambda: piq.mdsi(x, y),
    "haarpsi": lambda: piq.haarpsi(x, y),
    "vsi": lambda: piq.vsi(x, y),
    "dss": lambda: piq.dss(x, y),
    "iw_ssim": lambda: piq.information_weighted_ssim(x, y),
    "brisque": lambda: 0 * x.sum(),
}.items():
    value = f()
    (grad,) = torch.autograd.grad(value, x)
    show(name, value, grad)
torch.manual_seed(1)
for net in ("alex", "squeeze"):
    distance = lpips.LPIPS(net=net, pretrained=False, pnet_rand=True, verbose=False).eval()
    value = distance(x[:, :, :64, :64], y[:, :, :64, :64]).mean()
    (grad,) = torch.autograd.grad(value, x)
    show("lpips " + net, value, grad)
