"""Small models and optimizers: perceiver, local attention, faces, pruning, prodigy."""

import torch
import torch_pruning
from dadaptation import DAdaptAdam
from facenet_pytorch import InceptionResnetV1
from local_attention import LocalAttention
from nystrom_attention import NystromAttention
from perceiver_pytorch import Perceiver
from prodigyopt import Prodigy
from schedulefree import AdamWScheduleFree, SGDScheduleFree
from showing import gradients, show
from torch import nn

torch.manual_seed(0)
perceiver = Perceiver(
    input_channels=3,
    input_axis=2,
    num_freq_bands=2,
    max_freq=4.0,
    depth=1,
    num_latents=4,
    latent_dim=8,
    cross_dim_head=4,
    latent_dim_head=4,
    latent_heads=2,
    num_classes=3,
)
out = perceiver(torch.randn(2, 6, 6, 3))
out.square().mean().backward()
show("perceiver", out, gradients(perceiver))
q = torch.randn(2, 2, 16, 8)
show("local", LocalAttention(dim=8, window_size=4, causal=True, look_backward=1)(q, q, q))
show(
    "nystrom",
    NystromAttention(dim=16, dim_head=4, heads=2, num_landmarks=4)(torch.randn(2, 20, 16)),
)
torch.manual_seed(1)
face = InceptionResnetV1(pretrained=None, classify=False).eval()
show("face", face(torch.randn(1, 3, 96, 96)))
x = torch.randn(8, 4)
for name, make in {
    "prodigy": lambda p: Prodigy(p),
    "dadapt": lambda p: DAdaptAdam(p),
    "free": lambda p: AdamWScheduleFree(p, 0.01),
    "free sgd": lambda p: SGDScheduleFree(p, 0.1),
}.items():
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = make(net.parameters())
    if hasattr(optimizer, "train"):
        optimizer.train()
    for _ in range(4):
        optimizer.zero_grad()
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
    show(name, loss, net[0].weight)
torch.manual_seed(3)
net = nn.Sequential(
    nn.Conv2d(3, 8, 3),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.Conv2d(8, 4, 3),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(4, 2),
)
image = torch.randn(1, 3, 12, 12)
pruner = torch_pruning.pruner.MagnitudePruner(
    net,
    image,
    importance=torch_pruning.importance.MagnitudeImportance(p=2),
    pruning_ratio=0.5,
    ignored_layers=[net[6]],
)
pruner.step()
show(
    "pruned",
    net(image),
    sum(p.numel() for p in net.parameters()),
    torch_pruning.utils.count_ops_and_params(net, image),
)
