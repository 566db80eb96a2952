"""MONAI: networks, losses, metrics, transforms and inference on volumes."""

import numpy as np
import torch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss, DiceLoss, FocalLoss, TverskyLoss
from monai.metrics import DiceMetric
from monai.networks.nets import (
    UNETR,
    AttentionUnet,
    DenseNet,
    SegResNet,
    UNet,
)
from monai.transforms import (
    Compose,
    EnsureChannelFirst,
    GaussianSmooth,
    NormalizeIntensity,
    RandAffine,
    RandFlip,
    RandGaussianNoise,
    Resize,
    Rotate,
    ScaleIntensity,
)
from showing import gradients, show

torch.manual_seed(0)
x = torch.randn(1, 1, 16, 16, 16)
for name, make in {
    "unet": lambda: UNet(3, 1, 2, (4, 8, 16), (2, 2), num_res_units=1),
    "segresnet": lambda: SegResNet(3, 8, 1, 2, blocks_down=(1, 1), blocks_up=(1,)),
    "attention": lambda: AttentionUnet(3, 1, 2, (4, 8), (2,)),
    "unetr": lambda: UNETR(1, 2, (16, 16, 16), 4, 24, 32, 2),
    "densenet": lambda: DenseNet(3, 1, 2, 8, 4, (1, 1)),
}.items():
    torch.manual_seed(1)
    net = make().eval()
    out = net(x)
    out.square().mean().backward()
    show(name, out, gradients(net))
target = (torch.rand(1, 1, 16, 16, 16) > 0.5).float()
two = torch.randn(1, 2, 16, 16, 16)
show(
    "losses",
    DiceLoss(to_onehot_y=True, softmax=True)(two, target),
    DiceCELoss(to_onehot_y=True, softmax=True)(two, target),
    FocalLoss(to_onehot_y=True)(two, target),
    TverskyLoss(to_onehot_y=True, softmax=True)(two, target),
)
show("dice", DiceMetric()(torch.cat([1 - target, target], 1), torch.cat([target, 1 - target], 1)))
show(
    "window",
    sliding_window_inference(
        x, (8, 8, 8), 2, torch.nn.Conv3d(1, 1, 3, padding=1), overlap=0.25, mode="gaussian"
    ),
)
image = np.random.RandomState(0).rand(20, 24).astype(np.float32)
chain = Compose(
    [
        EnsureChannelFirst(channel_dim="no_channel"),
        ScaleIntensity(),
        NormalizeIntensity(),
        Resize((16, 16)),
        Rotate(0.3),
        GaussianSmooth(1.0),
        RandAffine(prob=1.0, rotate_range=0.2, padding_mode="zeros"),
        RandFlip(prob=0.5),
        RandGaussianNoise(prob=1.0),
    ]
)
chain.set_random_state(3)
show("chain", torch.as_tensor(chain(image)))
show("meta", type(chain(image)).__name__)
