"""BLiTZ, bayesian-torch, torchbnn and laplace-torch: weights with distributions."""

import torch
import torchbnn
from bayesian_torch.layers import Conv2dReparameterization, LinearFlipout, LinearReparameterization
from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn, get_kl_loss
from blitz.losses import kl_divergence_from_nn
from blitz.modules import (
    BayesianConv2d,
    BayesianEmbedding,
    BayesianGRU,
    BayesianLinear,
    BayesianLSTM,
)
from blitz.utils import variational_estimator
from laplace import Laplace
from laplace.curvature import AsdlGGN, BackPackGGN, CurvlinopsGGN
from showing import gradients, show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(16, 4), torch.randn(16, 2)


@variational_estimator
class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = BayesianLinear(4, 8), BayesianLinear(8, 2)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


net = Regressor()
loss = net.sample_elbo(inputs=x, labels=y, criterion=nn.MSELoss(), sample_nbr=3)
loss.backward()
show("blitz", loss, gradients(net), kl_divergence_from_nn(net))
net.freeze_()
show("frozen", net(x))
net.unfreeze_()
show("mean and deviation", net.mfvi_forward(x, sample_nbr=4))
for name, layer, feed in (
    ("conv", BayesianConv2d(2, 3, (3, 3)), torch.randn(2, 2, 6, 6)),
    ("lstm", BayesianLSTM(4, 5), torch.randn(2, 3, 4)),
    ("gru", BayesianGRU(4, 5), torch.randn(2, 3, 4)),
    ("embedding", BayesianEmbedding(7, 4), torch.tensor([[1, 2], [6, 0]])),
):
    out = layer(feed)
    out = out[0] if isinstance(out, tuple) else out
    out.square().sum().backward()
    show("blitz " + name, out, gradients(layer), layer.log_variational_posterior)

for name, layer, feed in (
    ("linear", LinearReparameterization(4, 3), x),
    ("flipout", LinearFlipout(4, 3), x),
    ("conv", Conv2dReparameterization(2, 3, 3), torch.randn(2, 2, 6, 6)),
):
    out, kl = layer(feed)
    (out.square().mean() + kl).backward()
    show("bayesian-torch " + name, out, kl, gradients(layer))
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
prior = {
    "prior_mu": 0.0,
    "prior_sigma": 1.0,
    "posterior_mu_init": 0.0,
    "posterior_rho_init": -3.0,
    "type": "Flipout",
    "moped_enable": True,
    "moped_delta": 0.5,
}
dnn_to_bnn(net, prior)
show("converted", net(x), get_kl_loss(net))

net = nn.Sequential(
    torchbnn.BayesLinear(0, 0.1, 4, 8), nn.ReLU(), torchbnn.BayesLinear(0, 0.1, 8, 2)
)
loss = nn.MSELoss()(net(x), y) + 0.1 * torchbnn.BKLLoss(reduction="mean")(net)
loss.backward()
show("torchbnn", loss, gradients(net))

labels = torch.arange(16) % 3
for kind, target, likelihood in (
    ("regression", y, "regression"),
    ("classes", labels, "classification"),
):
    for structure in ("full", "kron", "diag"):
        for backend in (CurvlinopsGGN, BackPackGGN, AsdlGGN):
            if backend is not CurvlinopsGGN and structure != "full":
                continue
            torch.manual_seed(1)
            out = 2 if kind == "regression" else 3
            net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, out))
            loader = DataLoader(TensorDataset(x, target), batch_size=8)
            la = Laplace(
                net,
                likelihood,
                subset_of_weights="all",
                hessian_structure=structure,
                backend=backend,
            )
            la.fit(loader)
            evidence = la.log_marginal_likelihood(torch.tensor(1.5))
            show(f"laplace {kind} {structure}", evidence, la(x[:3]))
            la.optimize_prior_precision(method="marglik", n_steps=5)
            show("precision", la.prior_precision)
            show("samples", la.predictive_samples(x[:2], n_samples=5))
    last = Laplace(net, likelihood, subset_of_weights="last_layer", hessian_structure="kron")
    last.fit(loader)
    show("last layer", last(x[:3]))
