"""Pyro: stochastic variational inference, NUTS and distributions."""

import pyro
import pyro.contrib.gp as gp
import pyro.distributions as dist
import torch
from pyro.infer import (
    HMC,
    MCMC,
    NUTS,
    SVI,
    Predictive,
    Trace_ELBO,
    TraceEnum_ELBO,
    config_enumerate,
)
from pyro.infer.autoguide import AutoDiagonalNormal, AutoLowRankMultivariateNormal, AutoNormal
from pyro.optim import Adam, ClippedAdam
from showing import show

pyro.set_rng_seed(0)
x = torch.randn(20, 2)
y = x @ torch.tensor([1.0, -2.0]) + 0.5 + 0.1 * torch.randn(20)


def model(x, y=None):
    w = pyro.sample("w", dist.Normal(torch.zeros(2), 1.0).to_event(1))
    b = pyro.sample("b", dist.Normal(0.0, 1.0))
    sigma = pyro.sample("sigma", dist.LogNormal(-1.0, 0.5))
    with pyro.plate("data", len(x)):
        return pyro.sample("obs", dist.Normal(x @ w + b, sigma), obs=y)


for guide_class in (AutoNormal, AutoDiagonalNormal, AutoLowRankMultivariateNormal):
    pyro.clear_param_store()
    pyro.set_rng_seed(1)
    guide = guide_class(model)
    svi = SVI(model, guide, ClippedAdam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(x, y) for _ in range(20)]
    show(guide_class.__name__, losses[0], losses[-1], guide.median(x, y))
pyro.set_rng_seed(2)
show("predictive", Predictive(model, guide=guide, num_samples=3)(x[:4])["obs"])
pyro.set_rng_seed(3)
for kernel in (NUTS(model, max_tree_depth=3), HMC(model, step_size=0.05, num_steps=3)):
    mcmc = MCMC(kernel, num_samples=5, warmup_steps=5, disable_progbar=True)
    mcmc.run(x, y)
    show(
        "mcmc",
        mcmc.get_samples()["w"].shape,
        bool((mcmc.get_samples()["w"][-1] - torch.tensor([1.0, -2.0])).abs().max() < 3),
    )


@config_enumerate
def mixture(data):
    weights = pyro.param("weights", torch.tensor([0.4, 0.6]), constraint=dist.constraints.simplex)
    means = pyro.param("means", torch.tensor([-1.0, 1.0]))
    with pyro.plate("data", len(data)):
        k = pyro.sample("k", dist.Categorical(weights))
        pyro.sample("obs", dist.Normal(means[k], 0.5), obs=data)


pyro.clear_param_store()
svi = SVI(mixture, lambda data: None, Adam({"lr": 0.1}), TraceEnum_ELBO(max_plate_nesting=1))
show("enumerated", [svi.step(y) for _ in range(5)], pyro.param("weights"), pyro.param("means"))
trace = pyro.poutine.trace(pyro.poutine.condition(model, {"w": torch.zeros(2)})).get_trace(x, y)
show("trace", sorted(trace.nodes), trace.nodes["w"]["value"])
pyro.set_rng_seed(4)
for d in (
    dist.VonMises(0.0, 2.0),
    dist.ZeroInflatedPoisson(torch.tensor(2.0), gate=torch.tensor(0.3)),
    dist.LKJCholesky(3, 1.0),
    dist.Stable(1.5, 0.2),
    dist.BetaBinomial(2.0, 3.0, 10),
    dist.InverseGamma(2.0, 1.0),
    dist.Delta(torch.tensor(1.0)),
):
    s = d.sample()
    show(type(d).__name__, s, d.log_prob(s) if not isinstance(d, dist.Stable) else 0)
flow = dist.transforms.spline(3)
show(
    "flow",
    flow(torch.randn(4, 3)),
    dist.TransformedDistribution(dist.Normal(torch.zeros(3), 1).to_event(1), [flow]).log_prob(
        torch.randn(4, 3)
    ),
)

gpr = gp.models.GPRegression(x, y, gp.kernels.RBF(2), noise=torch.tensor(0.1))
show("gp", gp.util.train(gpr, num_steps=5)[-1], gpr(x[:3], full_cov=True)[0])
