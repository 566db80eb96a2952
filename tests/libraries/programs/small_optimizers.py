"""lion-pytorch, torch-optimizer, adabelief, pytorch-optimizer, pytorch-warmup, torch-ema, mup."""

import pytorch_optimizer
import pytorch_warmup
import torch
import torch_optimizer
from adabelief_pytorch import AdaBelief
from lion_pytorch import Lion
from showing import show
from torch import nn
from torch_ema import ExponentialMovingAverage

x = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))


def trained(make):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizer = make(net.parameters())
    average = ExponentialMovingAverage(net.parameters(), 0.9)
    for _ in range(4):
        optimizer.zero_grad()
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward(create_graph=getattr(optimizer, "needs_graph", False))
        optimizer.step()
        average.update()
    with average.average_parameters():
        return loss, net[0].weight.clone(), net(x).sum()


show("Lion", *trained(lambda p: Lion(p, 1e-2, weight_decay=0.1)))
show("AdaBelief", *trained(lambda p: AdaBelief(p, 1e-2, print_change_log=False)))
for name in ("AccSGD AdaBound AdaMod AdaBelief AggMo DiffGrad Lamb MADGRAD NovoGrad PID QHAdam QHM RAdam Ranger RangerQH RangerVA "
             "SGDP SGDW SWATS Yogi Apollo AdamP A2GradExp").split():
    show("torch_optimizer " + name, *trained(lambda p: getattr(torch_optimizer, name)(p, lr=1e-2) if name not in ("A2GradExp",)
                                             else getattr(torch_optimizer, name)(p)))
for name in ("AdaFactor AdamP AdaNorm Adan Aida Amos ApolloDQN CAME DAdaptAdam DiffGrad Fromage GaLore Grams Gravity Kate LaProp "
             "LARS Lion MADGRAD MARS Muon Nero PNM Prodigy QHAdam RAdam Ranger ScheduleFreeAdamW SCION Shampoo SM3 SOAP "
             "SophiaH Tiger TRAC Yogi").split():
    kind = getattr(pytorch_optimizer, name, None)
    if kind is None or name in ("TRAC", "SophiaH"):
        continue
    try:
        result = trained(lambda p: kind(p, lr=1e-2))
    except TypeError:
        continue
    show("pytorch_optimizer " + name, *result)
base = torch.optim.SGD([nn.Parameter(torch.ones(2))], 0.1)
warm = pytorch_warmup.LinearWarmup(base, 4)
for _ in range(3):
    base.step()
    with warm.dampening():
        pass
    show("warmup", base.param_groups[0]["lr"])
