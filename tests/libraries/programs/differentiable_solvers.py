"""xitorch, qpth and cvxpylayers: gradients through solutions."""

import cvxpy
import torch
import xitorch
import xitorch.integrate
import xitorch.interpolate
import xitorch.linalg
import xitorch.optimize
from cvxpylayers.torch import CvxpyLayer
from qpth.qp import QPFunction, QPSolvers
from showing import show

torch.manual_seed(0)
a = torch.rand(4, 4, dtype=torch.float64, requires_grad=True)
symmetric = a @ a.mT + torch.eye(4, dtype=torch.float64)
op = xitorch.LinearOperator.m(symmetric)
values, vectors = xitorch.linalg.symeig(op, neig=2)
(grad,) = torch.autograd.grad(values.sum() + vectors.abs().sum(), a, retain_graph=True)
show("eigenvalues", values, vectors.abs(), grad)
b = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
for method in ("cg", "bicgstab", "exactsolve"):
    x = xitorch.linalg.solve(op, b, method=method)
    found = torch.autograd.grad(x.square().sum(), (a, b), retain_graph=True)
    show("solve " + method, x, *found)
u, s, vh = xitorch.linalg.svd(xitorch.LinearOperator.m(a), k=2)
show("svd", s, torch.autograd.grad(s.sum(), a)[0])
y0 = torch.zeros(3, dtype=torch.float64)
c = torch.rand(3, dtype=torch.float64, requires_grad=True)
root = xitorch.optimize.rootfinder(lambda y, c: y + 0.5 * torch.tanh(y) - c, y0, params=(c,))
show("root", root, torch.autograd.grad(root.square().sum(), c)[0])
fixed = xitorch.optimize.equilibrium(lambda y, c: 0.5 * torch.cos(y) + c, y0, params=(c,))
show("fixed point", fixed, torch.autograd.grad(fixed.sum(), c)[0])
low = xitorch.optimize.minimize(lambda y, c: ((y - c) ** 2).sum() + (y**4).sum(), y0, params=(c,))
show("minimum", low, torch.autograd.grad(low.sum(), c)[0])
times = torch.linspace(0, 1, 5, dtype=torch.float64)
path = xitorch.integrate.solve_ivp(lambda t, y, c: -c * y, times, y0 + 1, params=(c,))
show("path", path, torch.autograd.grad(path.sum(), c)[0])
end = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
area = xitorch.integrate.quad(
    lambda t, c: torch.exp(-c * t), torch.zeros_like(end), end, params=(c,)
)
show("area", area, *torch.autograd.grad(area.sum(), (end, c)))
curve = xitorch.interpolate.Interp1D(times, path[:, 0].detach(), method="cspline")
show("spline", curve(torch.tensor([0.1, 0.55], dtype=torch.float64)))

q = (a.detach() @ a.detach().mT + torch.eye(4)).double().requires_grad_()
p = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
g, h = -torch.eye(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
eq, one = torch.ones(1, 4, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
z = QPFunction(verbose=False, solver=QPSolvers.PDIPM_BATCHED)(q, p, g, h, eq, one)
show("qpth", z, *torch.autograd.grad(z.square().sum(), (q, p)))

x, m, v = cvxpy.Variable(3), cvxpy.Parameter((4, 3)), cvxpy.Parameter(4)
problem = cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.pnorm(m @ x - v, p=1)), [x >= 0])
layer = CvxpyLayer(problem, parameters=[m, v], variables=[x])
matrix = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
right = torch.randn(4, dtype=torch.float64, requires_grad=True)
(solution,) = layer(matrix, right)
solution.sum().backward()
show("cvxpylayers", solution)
