"""pytorch-grad-cam and TorchCAM: which pixels a network looks at."""

import numpy as np
import torch
from pytorch_grad_cam import (
    KPCA_CAM,
    AblationCAM,
    EigenCAM,
    EigenGradCAM,
    FullGrad,
    GradCAM,
    GradCAMElementWise,
    GradCAMPlusPlus,
    GuidedBackpropReLUModel,
    HiResCAM,
    LayerCAM,
    RandomCAM,
    ScoreCAM,
    XGradCAM,
)
from pytorch_grad_cam.metrics.cam_mult_image import CamMultImageConfidenceChange
from pytorch_grad_cam.utils.image import show_cam_on_image
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget, SemanticSegmentationTarget
from showing import show
from torch import nn
from torchcam import methods

torch.manual_seed(0)
np.random.seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
        )
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 4)

    def forward(self, x):
        return self.fc(self.pool(self.features(x)).flatten(1))


net = Net().eval()
images = torch.rand(2, 3, 16, 16)
targets = [ClassifierOutputTarget(1), ClassifierOutputTarget(3)]
for kind in (
    GradCAM,
    HiResCAM,
    GradCAMElementWise,
    GradCAMPlusPlus,
    XGradCAM,
    EigenCAM,
    EigenGradCAM,
    LayerCAM,
    FullGrad,
    ScoreCAM,
    AblationCAM,
    KPCA_CAM,
    RandomCAM,
):
    with kind(model=net, target_layers=[net.features[4]]) as cam:
        found = cam(input_tensor=images, targets=targets)
        show(kind.__name__, found.shape, found.mean(), found[:, 5, 7], found[:, 12, 3])
with GradCAM(model=net, target_layers=[net.features[0], net.features[4]]) as cam:
    found = cam(images, targets=None, aug_smooth=True)
show("smooth", found.mean(), found[:, 5, 7])
show("on image", show_cam_on_image(images[0].permute(1, 2, 0).numpy(), found[0]).mean())
guided = GuidedBackpropReLUModel(model=net, device="cpu")(images[:1], target_category=1)
show("guided", guided.mean(), guided[5, 7])
show("confidence", CamMultImageConfidenceChange()(images, found, targets, net))


class Segments(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.last = net.features[:3], nn.Conv2d(8, 3, 1)

    def forward(self, x):
        return self.last(self.inner(x))


torch.manual_seed(2)
segments = Segments().eval()
mask = np.zeros((16, 16), dtype="float32")
mask[4:9, 3:12] = 1
with GradCAM(model=segments, target_layers=[segments.inner[0]]) as cam:
    found = cam(images[:1], targets=[SemanticSegmentationTarget(1, mask)])
show("segments", found.mean(), found[:, 5, 7])

for kind in (
    "CAM",
    "GradCAM",
    "GradCAMpp",
    "SmoothGradCAMpp",
    "XGradCAM",
    "LayerCAM",
    "ScoreCAM",
    "ISCAM",
):
    torch.manual_seed(1)
    words = {"fc_layer": "fc"} if kind == "CAM" else {}
    with getattr(methods, kind)(net, target_layer="features.4", **words) as cam:
        scores = net(images[:1].clone().requires_grad_())
        show("torchcam " + kind, cam(2, scores)[0])
