"""ncps, pykan, rtdl-revisiting-models: liquid cells, splines on edges, tables by transformers."""

import kan
import ncps.torch
import numpy
import torch
from ncps.wirings import AutoNCP
from rtdl_revisiting_models import MLP, FTTransformer, ResNet
from showing import gradients, show
from torch.nn import functional as F

torch.manual_seed(0)
x = torch.randn(3, 6, 4)
for name, make in {
    "ltc": lambda: ncps.torch.LTC(4, AutoNCP(12, 2, seed=3)),
    "cfc": lambda: ncps.torch.CfC(4, 8, proj_size=2),
    "wired": lambda: ncps.torch.CfC(4, AutoNCP(12, 2, seed=4)),
    "mixed": lambda: ncps.torch.CfC(4, 8, mixed_memory=True, mode="pure"),
}.items():
    torch.manual_seed(1)
    net = make()
    out, state = net(x)
    out.square().mean().backward()
    show(name, out, state, gradients(net))

numpy.random.seed(0)
torch.manual_seed(2)
net = kan.KAN(width=[2, 3, 1], grid=3, k=3, seed=0, auto_save=False)
a = torch.rand(20, 2) * 2 - 1
target = (torch.sin(3 * a[:, :1]) + a[:, 1:] ** 2) / 2
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
losses = []
for _ in range(4):
    optimizer.zero_grad()
    loss = F.mse_loss(net(a), target)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
show("kan", losses, net(a), [p.abs().mean() for p in net.parameters() if p.requires_grad])

torch.manual_seed(3)
numbers, kinds = torch.randn(6, 3), torch.randint(0, 4, (6, 2))
for name, net, given in (
    ("mlp", MLP(d_in=3, d_out=2, n_blocks=2, d_block=8, dropout=0.1), (numbers,)),
    ("resnet", ResNet(d_in=3, d_out=2, n_blocks=2, d_block=8, d_hidden=None,
        d_hidden_multiplier=2.0, dropout1=0.1, dropout2=0.0), (numbers,)),
    ("ft", FTTransformer(n_cont_features=3, cat_cardinalities=[4, 4], d_out=2,
        **{**FTTransformer.get_default_kwargs(1), "d_block": 16, "attention_n_heads": 4}),
        (numbers, kinds)),
):  # fmt: skip
    torch.manual_seed(4)
    out = net(*given)
    F.cross_entropy(out, torch.tensor([0, 1, 0, 1, 1, 0])).backward()
    show(name, out, gradients(net))
