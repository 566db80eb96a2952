"""Stochastic differential equations."""

import torch
import torchsde
from showing import gradients, show


class SDE(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift, self.size = torch.nn.Linear(2, 2), torch.nn.Parameter(torch.tensor([0.2, 0.1]))

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return self.size.expand_as(y) * (1 + 0.1 * y)


torch.manual_seed(0)
sde, y0, t = SDE(), torch.randn(3, 2), torch.linspace(0, 1, 3)
for method in ("euler", "milstein", "srk"):
    sde.zero_grad()
    bm = torchsde.BrownianInterval(
        0.0, 1.0, size=(3, 2), entropy=5, levy_area_approximation="space-time"
    )
    out = torchsde.sdeint(sde, y0, t, bm=bm, method=method, dt=0.1)
    out[-1].square().sum().backward()
    show(method, out, gradients(sde))
sde.zero_grad()
bm = torchsde.BrownianInterval(
    0.0, 1.0, size=(3, 2), entropy=6, levy_area_approximation="space-time"
)
out = torchsde.sdeint_adjoint(
    sde, y0, t, bm=bm, dt=0.1, method="milstein", adjoint_method="milstein"
)
out[-1].sum().backward()
show("adjoint", out, gradients(sde))
