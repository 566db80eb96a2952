"""normflows, nflows and zuko: densities by invertible maps."""

import nflows.distributions
import nflows.flows
import nflows.transforms as nt
import normflows as nf
import torch
import zuko
from showing import gradients, show

x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
C = torch.randn(6, 2, generator=torch.Generator().manual_seed(1))
for name in ("NSF", "MAF", "NICE", "RealNVP", "NAF", "SOSPF", "BPF", "GF", "CNF"):
    kind = getattr(zuko.flows, name, None)
    if kind is None:
        continue
    torch.manual_seed(1)
    words = dict(hidden_features=(8, 8)) if name != "CNF" else dict(hidden_features=(8,))
    flow = kind(3, 2, **words) if name in ("CNF", "GF") else kind(3, 2, transforms=2, **words)
    loss = -flow(C).log_prob(x).mean()
    loss.backward()
    show("zuko " + name, loss, gradients(flow))
    if name in ("NSF", "RealNVP", "MAF"):
        torch.manual_seed(2)
        show("zuko sample", flow(C).rsample())
for name, make in {
    "maf": lambda: nt.MaskedAffineAutoregressiveTransform(3, 8),
    "spline": lambda: nt.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
        3, 8, tails="linear", tail_bound=3.0
    ),
    "lu": lambda: nt.LULinear(3),
    "permutation": lambda: nt.ReversePermutation(3),
    "svd": lambda: nt.SVDLinear(3, 2),
    "norm": lambda: nt.ActNorm(3),
}.items():
    torch.manual_seed(1)
    flow = nflows.flows.Flow(make(), nflows.distributions.StandardNormal([3]))
    loss = -flow.log_prob(x).mean()
    if loss.requires_grad:
        loss.backward()
    torch.manual_seed(2)
    show("nflows " + name, loss, gradients(flow) if loss.requires_grad else 0, flow.sample(4))
torch.manual_seed(1)
base = nf.distributions.DiagGaussian(4)
layers = []
for _ in range(2):
    layers += [
        nf.flows.AffineCouplingBlock(nf.nets.MLP([2, 8, 4], init_zeros=False)),
        nf.flows.Permute(4, "swap"),
        nf.flows.ActNorm(4),
    ]
model = nf.NormalizingFlow(base, layers)
z = torch.randn(6, 4, generator=torch.Generator().manual_seed(2))
loss = model.forward_kld(z)
loss.backward()
show("normflows", loss, gradients(model), model.log_prob(z))
torch.manual_seed(3)
spline = nf.NormalizingFlow(
    nf.distributions.DiagGaussian(2),
    [nf.flows.AutoregressiveRationalQuadraticSpline(2, 1, 8), nf.flows.LULinearPermute(2)],
)
show("spline", spline.forward_kld(z[:, :2]), spline.sample(3))
layers = torch.nn.ModuleList([nf.flows.Planar((2,)), nf.flows.Radial((2,))])
show("planar", *(value for layer in layers for value in layer(z[:, :2])))
