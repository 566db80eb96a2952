"""BoTorch: a model, acquisition functions, candidates."""

import torch
from botorch.acquisition import (
    ExpectedImprovement,
    LogExpectedImprovement,
    UpperConfidenceBound,
    qExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.test_functions import Branin, Hartmann
from botorch.utils.multi_objective.hypervolume import Hypervolume
from botorch.utils.multi_objective.pareto import is_non_dominated
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.mlls import ExactMarginalLogLikelihood
from showing import show

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
branin = Branin(negate=True)
x = torch.rand(10, 2) * torch.tensor([15.0, 15.0]) + torch.tensor([-5.0, 0.0])
y = branin(x).unsqueeze(-1)
show("data", y, Hartmann()(torch.rand(2, 6)))
model = SingleTaskGP(x, y, input_transform=Normalize(2), outcome_transform=Standardize(1))
fit_gpytorch_mll(
    ExactMarginalLogLikelihood(model.likelihood, model),
    optimizer_kwargs={"options": {"maxiter": 15}},
)
posterior = model.posterior(x[:3])
show(
    "posterior",
    posterior.mean.round(decimals=2),
    model.covar_module.lengthscale.shape if hasattr(model.covar_module, "lengthscale") else 0,
)
best = y.max()
points = torch.rand(4, 1, 2) * 10
fixed = SingleTaskGP(x, y, input_transform=Normalize(2), outcome_transform=Standardize(1)).eval()
for name, f in {
    "EI": ExpectedImprovement(fixed, best),
    "LogEI": LogExpectedImprovement(fixed, best),
    "UCB": UpperConfidenceBound(fixed, 0.2),
}.items():
    show(name, f(points))
show("sobol", draw_sobol_samples(torch.tensor([[-5.0, 0], [10, 15]]), 4, 1, seed=1))
sampler = SobolQMCNormalSampler(torch.Size([16]), seed=1)
show(
    "qEI",
    qExpectedImprovement(fixed, best, sampler)(points.view(2, 2, 2)),
    qUpperConfidenceBound(fixed, 0.2, sampler)(points.view(2, 2, 2)),
)
torch.manual_seed(1)
candidate, value = optimize_acqf(
    UpperConfidenceBound(fixed, 0.2),
    torch.tensor([[-5.0, 0], [10, 15]]),
    q=1,
    num_restarts=2,
    raw_samples=8,
    options={"maxiter": 20, "seed": 3},
)
show("candidate", candidate.round(decimals=2), value)
front = torch.tensor([[1.0, 3], [2, 2], [3, 1], [1, 1]])
show("pareto", is_non_dominated(front).tolist(), Hypervolume(torch.zeros(2)).compute(front[:3]))
