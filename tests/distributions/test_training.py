"""Small programs that learn through distributions: the same losses as PyTorch for the same seed.

Each takes the library, trains for a few steps and returns its losses. Without PyTorch they must
still get better.
"""

import pytest

import flambeau


def autoencoder(t):
    """A variational autoencoder with a normal latent and Bernoulli pixels."""
    D, nn = t.distributions, t.nn
    encoder, decoder = nn.Linear(12, 6), nn.Linear(3, 12)
    optimizer = t.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.05)
    data = (t.rand(32, 12) < t.rand(12)).float()
    prior = D.Independent(D.Normal(t.zeros(3), t.ones(3)), 1)
    for _ in range(15):
        loc, scale = encoder(data).chunk(2, dim=-1)
        posterior = D.Independent(D.Normal(loc, scale.exp()), 1)
        z = posterior.rsample()
        pixels = D.Independent(D.Bernoulli(logits=decoder(z)), 1)
        loss = (D.kl_divergence(posterior, prior) - pixels.log_prob(data)).mean()
        yield step(optimizer, loss)


def soft_actor(t):
    """A squashed normal policy with an entropy bonus, as in soft actor-critic."""
    D = t.distributions
    net = t.nn.Linear(4, 4)
    optimizer = t.optim.Adam(net.parameters(), lr=0.05)
    states = t.randn(64, 4)
    for _ in range(15):
        loc, log_scale = net(states).chunk(2, -1)
        base = D.Normal(loc, log_scale.clamp(-5, 2).exp())
        policy = D.Independent(D.TransformedDistribution(base, [D.TanhTransform(cache_size=1)]), 1)
        action = policy.rsample()
        reward = -(action - states[:, :2].tanh()).square().sum(-1)
        yield step(optimizer, (0.05 * policy.log_prob(action) - reward).mean())


def policy_gradient(t):
    """REINFORCE with classes."""
    D = t.distributions
    logits = t.zeros(5, requires_grad=True)
    optimizer = t.optim.SGD([logits], lr=1.0)
    for _ in range(15):
        policy = D.Categorical(logits=logits)
        action = policy.sample((64,))
        reward = (action == 3).float()
        surrogate = -(policy.log_prob(action) * reward).mean()
        step(optimizer, surrogate - 0.01 * policy.entropy())
        yield -reward.mean().item()


def topics(t):
    """Variational inference with Gamma and Dirichlet guides."""
    D = t.distributions
    data = D.Poisson(t.tensor([2.0, 9.0])).sample((40,))
    unconstrained = t.zeros(2, 2, requires_grad=True)
    weights = t.zeros(3, requires_grad=True)
    optimizer = t.optim.Adam([unconstrained, weights], lr=0.1)
    to_positive = D.transform_to(D.constraints.positive)
    for _ in range(25):
        guide = D.Gamma(*to_positive(unconstrained).unbind(0))
        rate = guide.rsample()
        fit = D.Poisson(rate).log_prob(data).sum() - D.kl_divergence(guide, D.Gamma(1.0, 0.1)).sum()
        shares = D.Dirichlet(to_positive(weights)).rsample()
        yield step(optimizer, -fit / 40 - (shares * t.tensor([0.0, 1.0, 2.0])).sum())


def mixture(t):
    """A mixture of normals, fitted by its likelihood."""
    D = t.distributions
    data = t.cat([t.randn(50) - 3, t.randn(50) * 0.5 + 2])
    logits, loc = t.zeros(2, requires_grad=True), t.tensor([-1.0, 1.0], requires_grad=True)
    log_scale = t.zeros(2, requires_grad=True)
    optimizer = t.optim.Adam([logits, loc, log_scale], lr=0.1)
    for _ in range(25):
        model = D.MixtureSameFamily(D.Categorical(logits=logits), D.Normal(loc, log_scale.exp()))
        yield step(optimizer, -model.log_prob(data).mean())


def relaxed_choice(t):
    """Gradients through a relaxed one-hot choice."""
    D = t.distributions
    logits = t.zeros(4, requires_grad=True)
    optimizer = t.optim.Adam([logits], lr=0.1)
    cost = t.tensor([3.0, 1.0, 2.0, 0.5])
    for _ in range(25):
        choice = D.RelaxedOneHotCategorical(t.tensor(0.5), logits=logits)
        yield step(optimizer, (choice.rsample((16,)) * cost).sum(-1).mean())


def covariance(t):
    """A covariance through its root, by likelihood with a prior on correlations."""
    D = t.distributions
    data = t.randn(60, 3) @ t.tensor([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 0.5]])
    numbers = t.zeros(3, requires_grad=True)
    optimizer = t.optim.Adam([numbers], lr=0.1)
    to_root = D.biject_to(D.constraints.corr_cholesky)
    prior = D.LKJCholesky(3, 2.0)
    for _ in range(15):
        root = to_root(numbers)
        model = D.MultivariateNormal(t.zeros(3), scale_tril=root)
        yield step(optimizer, -model.log_prob(data).mean() - prior.log_prob(root) / 60)


def step(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


PROGRAMS = [autoencoder, soft_actor, policy_gradient, topics, mixture, relaxed_choice, covariance]


def losses(program, library):
    library.manual_seed(0)
    return list(program(library))


@pytest.mark.oracle
@pytest.mark.parametrize("program", PROGRAMS)
def test_losses_are_pytorchs(program):
    torch = pytest.importorskip("torch")
    # PyTorch's slopes of gamma samples are approximate
    near = 2e-3 if program is topics else 1e-4
    assert losses(program, flambeau) == pytest.approx(losses(program, torch), rel=near, abs=near)


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_learn(program):
    found = losses(program, flambeau)
    assert sum(found[-3:]) < sum(found[:3])
