"""Small image models of timm: gradients, feature pyramids, optimizers, schedules, mixup."""

import numpy as np
import timm
import torch
from showing import gradients, show
from timm.data import Mixup
from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3

TINY = {
    "resnet18": {},
    "vit_tiny_patch16_224": dict(img_size=32),
    "convnext_atto": {},
    "mobilenetv3_small_050": {},
    "efficientnet_b0": {},
    "swin_tiny_patch4_window7_224": dict(img_size=56),
    "mixer_s32_224": dict(img_size=64),
    "regnety_002": {},
    "deit_tiny_patch16_224": dict(img_size=32),
    "ghostnet_050": {},
    "levit_128s": {},
}
torch.manual_seed(0)
image = torch.randn(2, 3, 32, 32)
SIZES = {"swin_tiny_patch4_window7_224": 56, "mixer_s32_224": 64, "levit_128s": 224}
for name, options in TINY.items():
    torch.manual_seed(1)
    model = timm.create_model(name, pretrained=False, num_classes=5, **options).eval()
    size = SIZES.get(name, 32)
    x = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(2))
    y = model(x)
    y.square().mean().backward()
    show(name, y, gradients(model), sum(p.numel() for p in model.parameters()))
torch.manual_seed(1)
pyramid = timm.create_model("resnet10t", features_only=True, out_indices=(1, 3)).eval()
show("pyramid", pyramid(image), pyramid.feature_info.channels())
model = timm.create_model("resnet10t", num_classes=4, drop_path_rate=0.1)
for kind in ("adamw", "lamb", "sgd", "nadamw", "lion", "madgrad"):
    torch.manual_seed(3)
    model = timm.create_model("test_vit", num_classes=4, img_size=32)
    optimizer = create_optimizer_v2(model, kind, lr=1e-3, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=4, warmup_t=1, warmup_lr_init=1e-4)
    ema = ModelEmaV3(model, decay=0.9)
    for step in range(3):
        loss = LabelSmoothingCrossEntropy(0.1)(model(image), torch.tensor([0, 3]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model, step=step)
        schedule.step(step)
    show(kind, loss, optimizer.param_groups[0]["lr"], next(ema.module.parameters()))
np.random.seed(0)
mixed, target = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=4)(
    image.clone(), torch.tensor([1, 2])
)
show("mixup", mixed, target, SoftTargetCrossEntropy()(torch.randn(2, 4), target))
