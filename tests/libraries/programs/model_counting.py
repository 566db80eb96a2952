"""thop and torchsummary: parameters and operations counted."""

import contextlib
import io

import torch
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
text = io.StringIO()
with contextlib.redirect_stdout(text):
    summary(net, (3, 8, 8), device="cpu")
show("summary", *text.getvalue().split()[-40:])
