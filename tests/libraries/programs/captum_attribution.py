"""Attributions of captum for a small network."""

import torch
from captum.attr import (
    LRP,
    DeepLift,
    FeatureAblation,
    FeaturePermutation,
    GradientShap,
    GuidedBackprop,
    GuidedGradCam,
    InputXGradient,
    IntegratedGradients,
    LayerActivation,
    LayerConductance,
    LayerGradCam,
    LayerIntegratedGradients,
    NeuronConductance,
    NoiseTunnel,
    Occlusion,
    Saliency,
    ShapleyValueSampling,
)
from captum.metrics import infidelity, sensitivity_max
from showing import show
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.relu, self.pool = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AvgPool2d(2)
        self.fc = nn.Linear(4 * 3 * 3, 3)

    def forward(self, x):
        return self.fc(self.pool(self.relu(self.conv(x))).flatten(1))


net, x = Net().eval(), torch.randn(2, 1, 8, 8)
for kind in (
    Saliency,
    InputXGradient,
    IntegratedGradients,
    DeepLift,
    GuidedBackprop,
    FeatureAblation,
):
    words = dict(n_steps=8) if kind is IntegratedGradients else {}
    show(kind.__name__, kind(net).attribute(x, target=1, **words))
show("lrp", LRP(net).attribute(x, target=1))
show("occlusion", Occlusion(net).attribute(x, (1, 3, 3), target=0, strides=(1, 2, 2)))
value, delta = IntegratedGradients(net).attribute(
    x, torch.zeros_like(x), target=2, n_steps=8, return_convergence_delta=True
)
show("delta", value, delta)
torch.manual_seed(1)
show("shap", GradientShap(net).attribute(x, torch.zeros(3, 1, 8, 8), target=1, n_samples=3).shape)
torch.manual_seed(1)
show("noise", NoiseTunnel(Saliency(net)).attribute(x, nt_samples=3, nt_type="smoothgrad", target=0))
show(
    "cam", LayerGradCam(net, net.conv).attribute(x, 1), GuidedGradCam(net, net.conv).attribute(x, 1)
)
show(
    "layers",
    LayerActivation(net, net.conv).attribute(x),
    LayerConductance(net, net.conv).attribute(x, target=1, n_steps=6),
    LayerIntegratedGradients(net, net.conv).attribute(x, target=1, n_steps=6),
)
show("neuron", NeuronConductance(net, net.conv).attribute(x, (0, 1, 1), target=1, n_steps=6))
flat = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
y = torch.randn(4, 5)
torch.manual_seed(2)
show("shapley", ShapleyValueSampling(flat).attribute(y, target=0, n_samples=4))
show("permuted", FeaturePermutation(flat).attribute(y, target=0))
torch.manual_seed(3)
show(
    "infidelity",
    infidelity(
        flat,
        lambda a: (torch.ones_like(a) * 0.1, a - 0.1),
        y,
        Saliency(flat).attribute(y, 0),
        target=0,
    ),
)
show("sensitivity", sensitivity_max(Saliency(flat).attribute, y, target=0, n_perturb_samples=2))
