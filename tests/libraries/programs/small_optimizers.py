"""lion-pytorch, torch-optimizer, adabelief, pytorch-optimizer, torch-ema, pytorch-warmup."""

import pytorch_optimizer
import pytorch_warmup
import torch
import torch_optimizer
from adabelief_pytorch import AdaBelief
from lion_pytorch import Lion
from showing import show
from torch import nn
from torch_ema import ExponentialMovingAverage

OLDER = """AccSGD AdaBound AdaMod AdaBelief AggMo DiffGrad Lamb MADGRAD NovoGrad PID QHAdam QHM
RAdam
Ranger RangerQH RangerVA SGDP SGDW SWATS Yogi Apollo AdamP""".split()
NEWER = """AdaFactor AdamP AdaNorm Adan Aida Amos ApolloDQN CAME DAdaptAdam DiffGrad Fromage GaLore
Grams Gravity Kate LaProp LARS Lion MADGRAD MARS Nero PNM Prodigy QHAdam RAdam Ranger SM3
ScheduleFreeAdamW Shampoo Tiger Yogi""".split()
x = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))


def trained(kind, **options):
    """Loss and weights after a few steps, or the kind of error."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    try:
        optimizer = kind(net.parameters(), lr=1e-2, **options)
        if hasattr(optimizer, "train"):
            optimizer.train()
        average = ExponentialMovingAverage(net.parameters(), 0.9)
        for _ in range(4):
            optimizer.zero_grad()
            loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            average.update()
    except Exception as error:
        return [type(error).__name__]
    with average.average_parameters():
        return loss, net[0].weight.clone(), net(x).sum()


show("Lion", *trained(Lion, weight_decay=0.1))
show("AdaBelief", *trained(AdaBelief, print_change_log=False))
for name in OLDER:
    show("torch_optimizer " + name, *trained(getattr(torch_optimizer, name)))
for name in NEWER:
    if hasattr(pytorch_optimizer, name):
        show("pytorch_optimizer " + name, *trained(getattr(pytorch_optimizer, name)))
# SOAP turns a gradient into the bases of its own singular vectors: all but the diagonal is rounding
# there, and every element is scaled to one size. PyTorch itself, with inputs off by 1e-7, has other
# weights in the second digit; the loss is what can be compared.
torch.manual_seed(1)
layer = nn.Linear(4, 4)
optimizer = pytorch_optimizer.SOAP(layer.parameters(), lr=1e-2)
for _ in range(4):
    optimizer.zero_grad()
    loss = (layer(x) - x.flip(1).sin()).square().mean()
    loss.backward()
    optimizer.step()
show("pytorch_optimizer SOAP", loss)
base = torch.optim.SGD([nn.Parameter(torch.ones(2))], 0.1)
warm = pytorch_warmup.LinearWarmup(base, 4)
for _ in range(3):
    base.step()
    with warm.dampening():
        pass
    show("warmup", base.param_groups[0]["lr"])
