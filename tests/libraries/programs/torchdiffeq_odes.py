"""Ordinary differential equations: solvers, adjoints, events."""

import torch
from showing import gradients, show
from torch import nn
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.manual_seed(0)
field = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
f = type(
    "Field",
    (nn.Module,),
    {
        "__init__": lambda s: (nn.Module.__init__(s), setattr(s, "net", field))[0],
        "forward": lambda s, t, y: s.net(y),
    },
)()
y0, t = torch.randn(3, 2), torch.linspace(0, 1, 4)
for method in (
    "dopri5",
    "dopri8",
    "bosh3",
    "adaptive_heun",
    "euler",
    "midpoint",
    "rk4",
    "explicit_adams",
    "implicit_adams",
):
    for solve in (odeint, odeint_adjoint):
        field.zero_grad()
        out = solve(f, y0, t, method=method, rtol=1e-4, atol=1e-5)
        out[-1].square().sum().backward()
        show(method, out, gradients(field))
time, state = odeint_event(
    lambda t, y: torch.stack([y[1], -torch.ones_like(y[1])]),
    torch.tensor([1.0, 0.0]),
    torch.tensor(0.0),
    event_fn=lambda t, y: y[0],
    atol=1e-6,
    rtol=1e-6,
)
show("event", time, state[-1])
