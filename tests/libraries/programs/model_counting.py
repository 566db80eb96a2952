"""fvcore, thop, ptflops, torchsummary: parameters and operations counted."""

import contextlib
import io

import torch
from fvcore.nn import FlopCountAnalysis, giou_loss, parameter_count, sigmoid_focal_loss
from ptflops import get_model_complexity_info
from showing import show
from thop import profile
from torch import nn
from torchsummary import summary

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 4, 3, padding=1),
    nn.BatchNorm2d(4),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(2),
    nn.Flatten(),
    nn.Linear(16, 3),
)
x = torch.randn(1, 3, 8, 8)
show("thop", profile(net, (x,), verbose=False))
show(
    "ptflops",
    get_model_complexity_info(
        net,
        (3, 8, 8),
        as_strings=False,
        print_per_layer_stat=False,
        verbose=False,
        backend="pytorch",
    ),
)
show("parameters", dict(parameter_count(net)))
text = io.StringIO()
with contextlib.redirect_stdout(text):
    summary(net, (3, 8, 8), device="cpu")
show("summary", *text.getvalue().split()[-40:])
show("focal", sigmoid_focal_loss(torch.randn(4, 3), torch.rand(4, 3), reduction="mean"))
show("giou", giou_loss(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 1, 3, 3]])))
with contextlib.redirect_stderr(io.StringIO()):
    show("fvcore", FlopCountAnalysis(net, x).total())
