"""e3nn: irreps, spherical harmonics, tensor products, equivariance."""

import torch
from e3nn import o3
from e3nn.math import soft_one_hot_linspace
from e3nn.nn import BatchNorm, FullyConnectedNet, Gate
from showing import gradients, show

torch.manual_seed(0)
irreps = o3.Irreps("4x0e + 2x1o + 1x2e")
x = irreps.randn(5, -1)
R = o3.rand_matrix()
show("rotation", R, irreps.D_from_matrix(R))
show("harmonics", o3.spherical_harmonics([0, 1, 2, 3], torch.randn(4, 3), normalize=True))
show("wigner", o3.wigner_3j(1, 1, 2), o3.wigner_D(2, *(torch.tensor(a) for a in (0.1, 0.2, 0.3))))
product = o3.FullyConnectedTensorProduct(irreps, "1x0e + 1x1o", "3x0e + 2x1o")
y = o3.Irreps("1x0e + 1x1o").randn(5, -1)
out = product(x, y)
out.square().mean().backward()
show("product", out, gradients(product))
turned = product(x @ irreps.D_from_matrix(R).T, y @ product.irreps_in2.D_from_matrix(R).T)
show(
    "equivariant",
    bool(torch.allclose(turned, out @ product.irreps_out.D_from_matrix(R).T, atol=1e-4)),
)
linear = o3.Linear(irreps, "2x0e + 3x1o")
show("linear", linear(x))
gate = Gate("2x0e", [torch.tanh], "1x0e", [torch.sigmoid], "1x1o")
show("gate", gate(gate.irreps_in.randn(3, -1)))
show("norm", BatchNorm(irreps)(x), o3.Norm(irreps)(x))
show(
    "radial",
    soft_one_hot_linspace(torch.rand(4), 0.0, 1.0, 5, basis="smooth_finite", cutoff=True),
    FullyConnectedNet([5, 8, 3], torch.nn.functional.silu)(torch.randn(4, 5)),
)
show(
    "angles",
    o3.matrix_to_angles(R),
    o3.matrix_to_quaternion(R),
    o3.angles_to_axis_angle(*o3.matrix_to_angles(R)),
)
