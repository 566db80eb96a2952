"""higher: gradients through steps of an optimizer."""

import higher
import torch
from showing import gradients, show
from torch import nn

for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
    inner = kind(net.parameters(), lr=0.05)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    with higher.innerloop_ctx(net, inner, copy_initial_weights=False) as (functional, stepping):
        for _ in range(3):
            loss = (functional(x) - y).square().mean()
            stepping.step(loss)
        final = (functional(x) - y).square().mean()
        final.backward()
    show(kind.__name__, loss, final, gradients(net))
