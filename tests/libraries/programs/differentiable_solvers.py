"""xitorch, qpth, cvxpylayers and TorchOpt: gradients through solutions and through training."""

import cvxpy
import torch
import torchopt
import xitorch
import xitorch.integrate
import xitorch.interpolate
import xitorch.linalg
import xitorch.optimize
from cvxpylayers.torch import CvxpyLayer
from qpth.qp import QPFunction, QPSolvers
from showing import gradients, show
from torch import nn

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
area = xitorch.integrate.quad(lambda t, c: torch.exp(-c * t), torch.zeros_like(end), end, params=(c,))
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

torch.manual_seed(1)
net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
data, goal = torch.randn(8, 3), torch.randn(8, 1)
scale = torch.tensor(1.0, requires_grad=True)
for make in (
    lambda n: torchopt.MetaSGD(n, lr=0.1, momentum=0.9),
    lambda n: torchopt.MetaAdam(n, lr=0.1, use_accelerated_op=False),
    lambda n: torchopt.MetaRMSProp(n, lr=0.05),
):
    optimizer = make(net)
    before = torchopt.extract_state_dict(net, by="reference"), torchopt.extract_state_dict(optimizer)
    for _ in range(3):
        optimizer.step((net(data * scale) - goal).square().mean())
    loss = (net(data) - goal).square().mean()
    (grad,) = torch.autograd.grad(loss, scale)
    show("meta", loss, grad)
    torchopt.recover_state_dict(net, before[0])
    torchopt.stop_gradient(net)
chain = torchopt.chain(torchopt.clip.clip_grad_norm(1.0), torchopt.adamw(1e-2))
function = torch.func.functional_call
params = {k: v.detach().clone().requires_grad_() for k, v in net.named_parameters()}
state = chain.init(params)
for _ in range(3):
    loss = (function(net, params, (data,)) - goal).square().mean()
    found = torch.autograd.grad(loss, tuple(params.values()))
    updates, state = chain.update(dict(zip(params, found)), state, params=params, inplace=False)
    params = torchopt.apply_updates(params, updates, inplace=False)
show("chain", loss, params["0.weight"])
schedule = torchopt.schedule.linear_schedule(0.1, 0.01, 10, 2)
plain = torchopt.Adam(net.parameters(), lr=schedule)
for _ in range(3):
    plain.zero_grad()
    loss = (net(data) - goal).square().mean()
    loss.backward()
    plain.step()
show("plain", loss, gradients(net))


@torchopt.diff.implicit.custom_root(
    lambda x, c: 2 * (x - c) + 4 * x**3, argnums=1, solve=torchopt.linear_solve.solve_cg()
)
def solve(x, c):
    for _ in range(60):
        x = x - 0.05 * (2 * (x - c) + 4 * x**3)
    return x.detach()


c = torch.tensor([0.5, 1.0], requires_grad=True)
found = solve(torch.zeros(2), c)
show("implicit", found, torch.autograd.grad(found.sum(), c)[0])
