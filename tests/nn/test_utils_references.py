"""torch.nn.utils against textbook formulas in NumPy, and derivatives against differences."""

import pickle

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.nn.utils import parametrizations, parametrize, prune
from flambeau.nn.utils.weight_norm import scaled_to


def weight_of(module):
    return module.weight.detach().double().numpy()


@pytest.mark.parametrize("dim", [0, 1, -1, None])
def test_weight_norm_is_length_times_direction(dim, rng):
    module = parametrizations.weight_norm(nn.Linear(5, 4).double(), dim=dim)
    v, g = (module.parametrizations.weight.original1, module.parametrizations.weight.original0)
    with flambeau.no_grad():
        v.copy_(flambeau.from_numpy(rng.normal(size=(4, 5))))
        g.copy_(flambeau.from_numpy(rng.normal(size=tuple(g.shape))))
    V = v.detach().numpy()
    axes = None if dim in (None, -1) else 1 - dim
    expected = g.detach().numpy() * V / np.sqrt((V * V).sum(axes, keepdims=True))
    np.testing.assert_allclose(weight_of(module), expected, rtol=1e-12)


def test_weight_norm_has_two_derivatives():
    v = flambeau.randn(3, 4, dtype=flambeau.float64, requires_grad=True)
    for dim, shape in ((0, (3, 1)), (1, (1, 4)), (-1, ())):
        g = flambeau.randn(shape, dtype=flambeau.float64, requires_grad=True)
        assert gradcheck(lambda v, g, d=dim: scaled_to(v, g, d), (v, g))
        assert gradgradcheck(lambda v, g, d=dim: scaled_to(v, g, d), (v, g))


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (5, 2, 3), (3, 2, 2, 2)])
@pytest.mark.parametrize("new", [True, False])
def test_spectral_norm_finds_the_largest_singular_value(shape, new):
    kinds = {2: nn.Linear, 3: nn.Conv1d, 4: nn.Conv2d}
    module = kinds[len(shape)](shape[1], shape[0], *shape[2:][:1])
    before = weight_of(module)
    apply = parametrizations.spectral_norm if new else nn.utils.spectral_norm
    apply(module, n_power_iterations=300)
    x = flambeau.randn(1, shape[1], *[5] * (len(shape) - 2))
    module(x)
    sigma = np.linalg.svd(before.reshape(shape[0], -1), compute_uv=False)[0]
    np.testing.assert_allclose(weight_of(module), before / sigma, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_orthogonal_stays_orthogonal_while_training(kind, shape):
    module = parametrizations.orthogonal(nn.Linear(*shape[::-1]).double(), orthogonal_map=kind)
    optimizer = flambeau.optim.SGD(module.parameters(), lr=0.1)
    start = weight_of(module)
    for _ in range(3):
        optimizer.zero_grad()
        module(flambeau.randn(6, shape[1], dtype=flambeau.float64)).square().sum().backward()
        optimizer.step()
        Q = weight_of(module)
        Q = Q if shape[0] >= shape[1] else Q.T
        np.testing.assert_allclose(Q.T @ Q, np.eye(min(shape)), atol=1e-10)
    if shape[0] != shape[1]:  # the loss is constant on square ones
        assert np.abs(weight_of(module) - start).max() > 1e-4


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_maps_have_derivatives(kind):
    map_ = getattr(parametrizations._OrthMaps, kind)
    X = flambeau.randn(4, 3, dtype=flambeau.float64, requires_grad=True)
    made = parametrizations._Orthogonal(X, map_, use_trivialization=False)
    signs = flambeau.eye(4, 3, dtype=flambeau.float64)  # which are not learned
    assert gradcheck(lambda X: made(X.tril(-1) + signs), (X,))


def test_pruning_keeps_the_largest(rng):
    module = nn.Conv2d(3, 5, 3)
    with flambeau.no_grad():
        module.weight.copy_(flambeau.from_numpy(rng.normal(size=(5, 3, 3, 3))))
    W = weight_of(module)
    prune.l1_unstructured(module, "weight", 0.4)
    order = np.argsort(np.abs(W).ravel())
    mask = np.ones(W.size)
    mask[order[: round(0.4 * W.size)]] = 0
    assert (module.weight_mask.numpy().ravel() == mask).all()
    np.testing.assert_allclose(weight_of(module), W * mask.reshape(W.shape))
    prune.ln_structured(module, "weight", 2, n=2, dim=0)
    norms = np.sqrt(((W * mask.reshape(W.shape)) ** 2).sum((1, 2, 3)))
    gone = (module.weight_mask.numpy() == 0).all(axis=(1, 2, 3))
    assert set(np.flatnonzero(gone)) == set(np.argsort(norms)[:2])


def test_pruned_weights_stay_zero_while_training():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    places = [(model[0], "weight"), (model[2], "weight")]
    prune.global_unstructured(places, prune.L1Unstructured, amount=0.5)
    masks = [m.weight_mask.clone() for m, _ in places]
    assert sum(int((m == 0).sum()) for m in masks) == 24
    optimizer = flambeau.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(flambeau.randn(5, 4)).square().sum().backward()
        optimizer.step()
    for (module, name), mask in zip(places, masks, strict=True):
        prune.remove(module, name)
        assert ((module.weight == 0) == (mask == 0)).all()
        assert list(dict(module.named_parameters())) == ["bias", "weight"]


def test_shares_of_random_pruning():
    for amount, expected in ((0.0, 0), (0.25, 25), (1.0, 100), (7, 7)):
        module = nn.Linear(10, 10)
        prune.random_unstructured(module, "weight", amount)
        assert int((module.weight_mask == 0).sum()) == expected


def test_modules_after_removal_are_saved_as_before():
    module = nn.Linear(3, 3)
    parametrizations.orthogonal(module)
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(module)
    parametrize.remove_parametrizations(module, "weight")
    again = pickle.loads(pickle.dumps(module))
    assert type(again) is nn.Linear and again.weight.equal(module.weight)
