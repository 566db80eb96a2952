"""entmax, torchcde, pytorch-tabnet, denoising-diffusion-pytorch, neuraloperator."""

import torch
import torchcde
from denoising_diffusion_pytorch import GaussianDiffusion, Unet
from entmax import entmax15, entmax_bisect, normmax_bisect, sparsemax
from entmax.losses import Entmax15Loss, SparsemaxLoss
from neuralop.models import FNO
from pytorch_tabnet.tab_network import TabNet
from showing import gradients, show

torch.manual_seed(0)
x = torch.randn(4, 6, requires_grad=True)
for f in (
    sparsemax,
    entmax15,
    lambda z, d: entmax_bisect(z, 1.3, d),
    lambda z, d: normmax_bisect(z, 2, d),
):
    out = f(x, -1)
    (grad,) = torch.autograd.grad(out.square().sum(), x)
    show("entmax", out, grad)
show("losses", SparsemaxLoss()(x, torch.arange(4)), Entmax15Loss()(x, torch.arange(4)))


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4 * 3)

    def forward(self, t, z):
        return self.linear(z).tanh().view(z.shape[0], 4, 3)


path = torch.randn(2, 6, 3).cumsum(1)
for make in (
    torchcde.hermite_cubic_coefficients_with_backward_differences,
    torchcde.natural_cubic_coeffs,
    torchcde.linear_interpolation_coeffs,
):
    coeffs = make(path)
    curve = (
        torchcde.LinearInterpolation(coeffs)
        if "linear_interp" in make.__name__
        else torchcde.CubicSpline(coeffs)
    )
    torch.manual_seed(1)
    field = Field()
    z = torchcde.cdeint(
        X=curve,
        func=field,
        z0=torch.ones(2, 4),
        t=curve.interval,
        method="rk4",
        options=dict(step_size=0.5),
    )
    z[:, -1].square().sum().backward()
    show(make.__name__, curve.evaluate(0.7), z, gradients(field))
torch.manual_seed(2)
net = TabNet(6, 2, n_d=4, n_a=4, n_steps=2, group_attention_matrix=torch.eye(6)).eval()
out, sparse = net(x.detach())
(out.square().mean() + sparse).backward()
show("tabnet", out, sparse, gradients(net))
torch.manual_seed(3)
unet = Unet(dim=8, dim_mults=(1, 2), flash_attn=False, attn_dim_head=8, attn_heads=2)
diffusion = GaussianDiffusion(unet, image_size=16, timesteps=10, sampling_timesteps=3)
loss = diffusion(torch.rand(2, 3, 16, 16))
loss.backward()
show("diffusion", loss, gradients(unet))
torch.manual_seed(4)
show("sampled", diffusion.sample(batch_size=1))
torch.manual_seed(5)
fno = FNO(n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2)
out = fno(torch.randn(2, 1, 16, 16))
out.square().mean().backward()
show("fno", out, gradients(fno))
