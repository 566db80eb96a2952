"""fvcore: operations and activations counted in graphs, tables, losses, schedules."""

import torch
from fvcore.common.param_scheduler import (
    CompositeParamScheduler,
    CosineParamScheduler,
    LinearParamScheduler,
)
from fvcore.nn import (
    ActivationCountAnalysis,
    FlopCountAnalysis,
    flop_count_table,
    giou_loss,
    parameter_count_table,
    sigmoid_focal_loss,
    sigmoid_focal_loss_jit,
    smooth_l1_loss,
)
from showing import show
from timm.models import create_model
from torch import nn


def count(name, module, *inputs):
    flops = FlopCountAnalysis(module, inputs)
    flops.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    show(name, flops.total(), *sorted(flops.by_operator().items()))
    show(name, "by module", *sorted(flops.by_module().items())[:20])
    show(name, "uncalled", *sorted(flops.uncalled_modules())[:5])
    activations = ActivationCountAnalysis(module, inputs).unsupported_ops_warnings(False)
    show(name, activations.total(), *sorted(activations.by_operator().items()))


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.norm = nn.LayerNorm(3)
        self.attention = nn.MultiheadAttention(3, 1)
        self.up = nn.ConvTranspose1d(3, 4, 2, stride=2)
        self.linear = nn.Linear(3, 3)
        self.unused = nn.GRUCell(3, 3)

    def forward(self, tokens):
        x = self.norm(self.embedding(tokens))
        x = self.attention(x, x, x)[0]
        y = self.up(x.transpose(1, 2))
        y = nn.functional.interpolate(y[None], scale_factor=2.0, mode="bilinear")[0]
        return torch.einsum("bij,bkj->bik", y, y), self.linear(x) @ x.transpose(1, 2)


torch.manual_seed(0)
small = nn.Sequential(
    nn.Conv2d(3, 4, 3),
    nn.BatchNorm2d(4),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(4, 2),
).eval()
image = torch.randn(1, 3, 8, 8)
count("small", small, image)
for line in flop_count_table(FlopCountAnalysis(small, image)).splitlines():
    show("table", line)
for line in parameter_count_table(small).splitlines():
    show("parameters", line)
count("mixed", Mixed().eval(), torch.tensor([[1, 2, 3], [0, 1, 2]]))
for name in ("resnet18", "mobilenetv3_small_050", "convnext_atto"):
    count(name, create_model(name).eval(), torch.randn(1, 3, 64, 64))

given, wanted = torch.randn(6, requires_grad=True), torch.randint(0, 2, (6,)).float()
for loss in (sigmoid_focal_loss, sigmoid_focal_loss_jit):
    found = loss(given, wanted, alpha=0.25, reduction="mean")
    show("focal", found, *torch.autograd.grad(found, given))
boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 2.0]], requires_grad=True)
others = torch.tensor([[1.0, 0.0, 2.0, 3.0], [4.0, 1.0, 5.0, 2.0]])
found = giou_loss(boxes, others, reduction="sum")
show("giou", found, *torch.autograd.grad(found, boxes))
show("smooth", smooth_l1_loss(boxes, others, beta=0.5, reduction="mean"))
schedule = CompositeParamScheduler(
    [LinearParamScheduler(0.1, 1.0), CosineParamScheduler(1.0, 0.0)],
    [0.25, 0.75],
    ["rescaled", "rescaled"],
)
show("schedule", *(schedule(k / 8) for k in range(8)))
