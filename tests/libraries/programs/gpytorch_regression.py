"""GPyTorch: exact and variational processes, kernels, prediction."""

import gpytorch
import linear_operator
import torch
from showing import gradients, show

torch.manual_seed(0)
x = torch.linspace(0, 1, 24)
y = torch.sin(6 * x) + 0.1 * torch.randn(24)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, kernel, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module, self.covar_module = (
            gpytorch.means.ConstantMean(),
            gpytorch.kernels.ScaleKernel(kernel),
        )

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


k = gpytorch.kernels
for kernel in (
    k.RBFKernel(),
    k.MaternKernel(2.5),
    k.MaternKernel(0.5),
    k.PeriodicKernel(),
    k.RQKernel(),
    k.LinearKernel(),
    k.PolynomialKernel(2),
    k.CosineKernel(),
    k.RBFKernel() + k.LinearKernel(),
    k.SpectralMixtureKernel(3),
):
    torch.manual_seed(1)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(kernel, likelihood)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    model.train()
    for _ in range(4):
        optimizer.zero_grad()
        loss = -mll(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval(), likelihood.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        out = likelihood(model(torch.linspace(0.1, 1.2, 5)))
    show(
        type(kernel).__name__,
        loss,
        gradients(model),
        out.mean,
        out.variance,
        out.confidence_region()[0],
    )


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, inducing):
        q = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
        super().__init__(
            gpytorch.variational.VariationalStrategy(
                self, inducing, q, learn_inducing_locations=True
            )
        )
        self.mean_module, self.covar_module = (
            gpytorch.means.ZeroMean(),
            k.ScaleKernel(k.RBFKernel()),
        )

    forward = Exact.forward


torch.manual_seed(2)
model, likelihood = Variational(x[::6].clone()), gpytorch.likelihoods.BernoulliLikelihood()
mll = gpytorch.mlls.VariationalELBO(likelihood, model, len(x))
optimizer = torch.optim.Adam(model.parameters(), 0.1)
for _ in range(4):
    optimizer.zero_grad()
    loss = -mll(model(x), (y > 0).float())
    loss.backward()
    optimizer.step()
    show("variational", loss)
model.eval(), likelihood.eval()
show("probability", likelihood(model(x[:4])).mean)
show("sample", model(x[:4]).rsample(torch.Size([2])))

A = linear_operator.operators.DiagLinearOperator(
    torch.rand(4) + 1
) + linear_operator.to_linear_operator(torch.eye(4))
show("operators", A.solve(torch.ones(4)), A.logdet(), (A @ torch.ones(4, 2)))
