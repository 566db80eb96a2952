"""shap: deep, gradient and kernel explainers of small networks."""

import numpy as np
import shap
import torch
from showing import show
from torch import nn

torch.manual_seed(0)
np.random.seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 2))
x = torch.randn(20, 4)
show("deep", np.asarray(shap.DeepExplainer(net, x[:10]).shap_values(x[10:12])))
found = shap.GradientExplainer(net, x[:10]).shap_values(x[10:12], nsamples=20, rseed=1)
show("gradients", np.asarray(found))

cnn = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 2))
images = torch.randn(6, 1, 8, 8)
values = shap.DeepExplainer(cnn, images[:4]).shap_values(images[4:])
show("images", np.asarray(values).shape, np.asarray(values).sum(), np.asarray(values))
explainer = shap.GradientExplainer((cnn, cnn[0]), images[:4], local_smoothing=0.1)
values, ranks = explainer.shap_values(images[4:], nsamples=5, rseed=1, ranked_outputs=1)
show("a layer", np.asarray(values).shape, ranks)


def function(a):
    return net(torch.tensor(a, dtype=torch.float32)).detach().numpy()


kernel = shap.KernelExplainer(function, x[:5].numpy())
show("kernel", np.asarray(kernel.shap_values(x[5:7].numpy(), nsamples=20, silent=True)))
