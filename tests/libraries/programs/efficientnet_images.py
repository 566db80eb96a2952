"""efficientnet-pytorch, segmentation-models-pytorch and open_clip: networks and losses."""

import open_clip
import segmentation_models_pytorch as smp
import torch
from efficientnet_pytorch import EfficientNet
from showing import gradients, show

torch.manual_seed(0)
net = EfficientNet.from_name("efficientnet-b0", num_classes=5, image_size=32).eval()
image = torch.randn(2, 3, 32, 32)
out = net(image)
out.square().mean().backward()
show("efficientnet", out, gradients(net), net.extract_features(image))
for name in ("Unet", "FPN", "Linknet", "PSPNet", "DeepLabV3Plus", "UnetPlusPlus", "MAnet"):
    torch.manual_seed(1)
    model = getattr(smp, name)("resnet18", encoder_weights=None, classes=2).eval()
    out = model(torch.randn(1, 3, 64, 64))
    out.square().mean().backward()
    show(name, out, gradients(model))
target = torch.randint(0, 2, (1, 64, 64))
for loss in (
    smp.losses.DiceLoss("multiclass"),
    smp.losses.JaccardLoss("multiclass"),
    smp.losses.FocalLoss("multiclass"),
    smp.losses.LovaszLoss("multiclass"),
    smp.losses.TverskyLoss("multiclass"),
):
    show(type(loss).__name__, loss(out, target))
stats = smp.metrics.get_stats(out.argmax(1), target, mode="multiclass", num_classes=2)
show(
    "metrics",
    smp.metrics.iou_score(*stats, reduction="micro"),
    smp.metrics.f1_score(*stats, reduction="macro"),
)
torch.manual_seed(2)
clip = open_clip.CLIP(
    embed_dim=16,
    vision_cfg=dict(image_size=32, layers=2, width=32, head_width=8, patch_size=8),
    text_cfg=dict(context_length=12, vocab_size=60, width=32, heads=4, layers=2),
).eval()
a, b, scale = clip(image, torch.randint(0, 60, (2, 12)))
loss = open_clip.ClipLoss()(a, b, scale)
loss.backward()
show("open_clip", a, b, scale, loss, gradients(clip))
