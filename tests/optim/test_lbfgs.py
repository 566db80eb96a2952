"""LBFGS, Adafactor, Muon, SparseAdam: minima, formulas, saving, refusals, and PyTorch."""

import copy
import math
import pickle

import numpy as np
import pytest

import flambeau as fl


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def quartic(x):
    return ((x - 3) ** 4).sum() + (x[0] * x[1]) ** 2


def descend(lib, loss, start, steps, **options):
    x = lib.tensor(start, dtype=lib.float64, requires_grad=True)
    optimizer = lib.optim.LBFGS([x], **options)
    values = []

    def closure():
        optimizer.zero_grad()
        found = loss(x)
        found.backward()
        return found

    for _ in range(steps):
        values.append(optimizer.step(closure).item())
    return x.detach().numpy(), values, optimizer


OPTIONS = [
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "history_size": 3, "lr": 0.5},
    {"line_search_fn": "strong_wolfe", "max_iter": 4, "max_eval": 7},
    {"lr": 0.05},
    {"lr": 0.1, "history_size": 2, "tolerance_change": 1e-3},
    {"lr": 0.02, "tolerance_grad": 1.0},
]


def test_lbfgs_finds_the_minimum():
    x, values, _ = descend(fl, rosenbrock, [1.5, 1.0, 0.5, 2.0], 10, line_search_fn="strong_wolfe")
    np.testing.assert_allclose(x, 1, atol=1e-4)
    assert values[-1] < 1e-8 < values[0]


def test_lbfgs_solves_linear_systems_in_as_many_steps_as_unknowns(rng):
    """With exact curvature the method spans the Krylov space: a quadratic is soon done."""
    a = rng.standard_normal((6, 6))
    a = fl.tensor(a @ a.T + np.eye(6))
    b = fl.tensor(rng.standard_normal(6))
    x, _, optimizer = descend(
        fl, lambda x: 0.5 * x.dot(a @ x) - b.dot(x), [0.0] * 6, 2, line_search_fn="strong_wolfe"
    )
    np.testing.assert_allclose(x, np.linalg.solve(a.numpy(), b.numpy()), atol=1e-5)
    (state,) = optimizer.state_dict()["state"].values()
    assert state["func_evals"] <= 60


def test_lbfgs_goes_on_from_its_state():
    start, options = [-1.2, 1.0, 0.5], {"line_search_fn": "strong_wolfe", "max_iter": 5}
    expected, _, _ = descend(fl, rosenbrock, start, 4, **options)
    half, _, optimizer = descend(fl, rosenbrock, start, 2, **options)
    saved = pickle.loads(pickle.dumps(optimizer.state_dict()))
    x = fl.tensor(half, requires_grad=True)
    second = fl.optim.LBFGS([x], **options)
    second.load_state_dict(copy.deepcopy(saved))

    def closure():
        second.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        return loss

    second.step(closure)
    second.step(closure)
    np.testing.assert_array_equal(x.detach().numpy(), expected)


def test_lbfgs_takes_many_parameters_of_all_shapes():
    params = [fl.zeros(2, 3).requires_grad_(), fl.tensor(5.0, requires_grad=True)]
    unused = fl.ones(2).requires_grad_()
    optimizer = fl.optim.LBFGS([*params, unused], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = ((params[0] - 2) ** 2).sum() + (params[1] + 1) ** 2
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(params[0].detach().numpy(), 2, atol=1e-4)
    assert params[1].item() == pytest.approx(-1, abs=1e-4)
    assert unused.tolist() == [1, 1]


# -- Adafactor and Muon ---------------------------------------------------------------------------


def test_adafactor_follows_the_formula(rng):
    for shape in ((4, 6), (5,), (2, 3, 4), ()):
        p, grads = rng.standard_normal(shape), rng.standard_normal((4, *shape))
        t = fl.tensor(p).requires_grad_()
        optimizer = fl.optim.Adafactor([t], lr=0.1, weight_decay=0.2)
        rows = columns = squares = 0.0
        for step, g in enumerate(grads, 1):
            t.grad = fl.tensor(g)
            optimizer.step()
            weight = step**-0.8
            scale = max(1e-3, np.sqrt((p**2).mean())) * min(0.1, 1 / math.sqrt(step))
            p = p * (1 - 0.1 * 0.2)
            if g.ndim > 1:
                rows = rows + weight * ((g**2).mean(-1, keepdims=True) - rows)
                columns = columns + weight * ((g**2).mean(-2, keepdims=True) - columns)
                squares = rows * columns / rows.mean(-2, keepdims=True)
            else:
                squares = squares + weight * (g**2 - squares)
            update = g / np.sqrt(squares)
            p = p - scale * update / max(1, np.sqrt((update**2).mean()))
        np.testing.assert_allclose(t.detach().numpy(), p, 1e-9, 1e-12)


def test_muon_steps_are_nearly_orthogonal(rng):
    for shape in ((6, 4), (4, 6), (5, 5)):
        start, grad = rng.standard_normal((2, *shape))
        p = fl.tensor(start, dtype=fl.float32).requires_grad_()
        optimizer = fl.optim.Muon([p], lr=1.0, weight_decay=0.0)
        p.grad = fl.tensor(grad, dtype=fl.float32)
        optimizer.step()
        step = (start - p.detach().numpy()) / math.sqrt(max(1, shape[0] / shape[1]))
        values = np.linalg.svd(step, compute_uv=False)
        assert values.min() > 0.4 and values.max() < 1.4
        u, _, v = np.linalg.svd(grad, full_matrices=False)
        assert np.abs(np.diag(u.T @ step @ v.T)).min() > 0.4


# -- refusals -------------------------------------------------------------------------------------

ERRORS = {
    "O.LBFGS([p], lr=-1)": "Invalid learning rate: -1",
    "O.LBFGS([{'params': [p]}, {'params': [q]}])": "LBFGS doesn't support per-parameter options",
    "O.LBFGS([p], line_search_fn='a').step(loss)": "only 'strong_wolfe' is supported",
    "O.Adafactor([p], lr=-1)": "Learning rate should be >= 0 but is: -1",
    "O.Adafactor([p], beta2_decay=1)": "beta2_decay should be <= 0 but is: 1",
    "O.Adafactor([p], eps=(-1, 1))": "epsilon1 should be >= 0 but is: -1",
    "O.Adafactor([p], eps=(None, -1))": "epsilon2 should be >= 0 but is: -1",
    "O.Adafactor([p], d=0.5)": "Clipping threshold d should be >= 1 but is: 0.5",
    "O.Adafactor([p], weight_decay=-1)": "weight_decay should be >= 0 but is: -1",
    "O.Adafactor([z]).step()": "Adafactor does not support complex parameters",
    "O.Muon([m], lr=-1)": "Learning rate should be >= 0 but is: -1",
    "O.Muon([m], momentum=-1)": "momentum should be >= 0 but is: -1",
    "O.Muon([m], weight_decay=-1)": "weight decay should be >= 0 but is: -1",
    "O.Muon([m], adjust_lr_fn='a')": "Adjust learning rate function a is not supported",
    "O.Muon([p])": "Muon only supports 2D parameters whereas we found a parameter with size: ",
    "O.Muon([m], ns_steps=100).step()": "Number of steps must be less than 100",
    "O.Muon([m], ns_coefficients=(1, 2)).step()": "Coefficients must be a tuple of exactly 3",
    "O.SparseAdam([p], lr=0)": "Invalid learning rate: 0",
    "O.SparseAdam([p], eps=0)": "Invalid epsilon value: 0",
    "O.SparseAdam([p], betas=(1, 0))": "Invalid beta parameter at index 0: 1",
    "O.SparseAdam([p, z])": "Complex params at indices [[0, 1]]: SparseAdam does not",
    "O.SparseAdam([p]).step()": "SparseAdam does not support dense gradients, please consider",
}


def _refusal(lib, code):
    p, q = lib.ones(2).requires_grad_(), lib.ones(2).requires_grad_()
    m, z = lib.ones(2, 2).requires_grad_(), lib.ones(2, dtype=lib.complex64).requires_grad_()
    for t in (p, m, z):
        t.grad = lib.ones_like(t)
    with pytest.raises(Exception) as caught:
        eval(code, {"O": lib.optim, "p": p, "q": q, "m": m, "z": z, "loss": lambda: p.sum()})
    return caught.type, str(caught.value)


@pytest.mark.parametrize("code", ERRORS)
def test_refuses(code):
    kind, text = _refusal(fl, code)
    assert issubclass(kind, (ValueError, RuntimeError)) and text.startswith(ERRORS[code])


@pytest.mark.oracle
@pytest.mark.parametrize("code", ERRORS)
def test_refusals_are_pytorchs(code):
    torch = pytest.importorskip("torch")
    assert _refusal(fl, code) == _refusal(torch, code)


# -- PyTorch --------------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("loss", [rosenbrock, quartic], ids=["rosenbrock", "quartic"])
def test_lbfgs_is_pytorchs(loss, options):
    torch = pytest.importorskip("torch")
    start = [-1.2, 1.0, 0.5, 2.0]
    x, values, a = descend(fl, loss, start, 3, **options)
    expected, losses, b = descend(torch, loss, start, 3, **options)
    assert values == pytest.approx(losses, rel=1e-6, nan_ok=True)
    np.testing.assert_allclose(x, expected, 1e-6, 1e-9)
    assert repr(a) == repr(b)
    mine, theirs = a.state_dict(), b.state_dict()
    assert mine["param_groups"] == theirs["param_groups"]
    mine, theirs = mine["state"][0], theirs["state"][0]
    assert list(mine) == list(theirs)
    for name in ("func_evals", "n_iter"):
        assert mine[name] == theirs[name]
    for name in ("old_dirs", "old_stps", "ro", "al"):
        if name in theirs:
            assert [type(v).__name__ for v in mine[name]] == [
                type(v).__name__ for v in theirs[name]
            ]


@pytest.mark.oracle
@pytest.mark.parametrize(
    "name, options",
    [
        ("Adafactor", {}),
        ("Adafactor", {"lr": 0.5, "weight_decay": 0.1, "maximize": True, "d": 1.5}),
        ("Adafactor", {"eps": (1e-3, 0.1), "beta2_decay": -0.5}),
        ("Muon", {}),
        ("Muon", {"nesterov": False, "momentum": 0.8, "adjust_lr_fn": "match_rms_adamw"}),
        ("Muon", {"lr": 0.1, "ns_steps": 3, "weight_decay": 0.0, "adjust_lr_fn": "original"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_steps_are_pytorchs(name, options, dtype):
    torch = pytest.importorskip("torch")
    if name == "Muon" and dtype == "bfloat16" and not options.get("nesterov", True):
        pytest.skip("PyTorch scales the buffer of the momentum itself here")
    shapes = [(8, 5), (5, 8)] if name == "Muon" else [(8, 5), (7,), (2, 3, 4), ()]
    starts = [torch.randn(s, dtype=getattr(torch, dtype)) for s in shapes]
    theirs = [torch.nn.Parameter(s.clone()) for s in starts]
    as_ours = lambda t: fl.tensor(t.float().numpy() if dtype == "bfloat16" else t.numpy()).to(
        getattr(fl, dtype)
    )
    ours = [as_ours(s).requires_grad_() for s in starts]
    a, b = getattr(torch.optim, name)(theirs, **options), getattr(fl.optim, name)(ours, **options)
    assert repr(a) == repr(b)
    for _ in range(4):
        for p, q in zip(theirs, ours):
            p.grad = torch.randn_like(p)
            q.grad = as_ours(p.grad)
        a.step()
        b.step()
    low = dtype == "bfloat16" or name == "Muon"  # Muon computes in bfloat16 always
    tolerance = 2e-2 if low else 1e-5 if dtype == "float32" else 1e-12
    for p, q in zip(theirs, ours):
        expected = p.detach().double().numpy()
        np.testing.assert_allclose(q.detach().double().numpy(), expected, tolerance, tolerance)
    saved, mine = a.state_dict(), b.state_dict()
    assert saved["param_groups"] == mine["param_groups"]
    for key, state in saved["state"].items():
        assert list(state) == list(mine["state"][key])
        for field, value in state.items():
            found = mine["state"][key][field]
            assert str(found.dtype) == str(value.dtype) and found.shape == value.shape
            np.testing.assert_allclose(
                found.double().numpy(), value.double().numpy(), tolerance, tolerance
            )


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_rate_in_brackets(shape):
    x, wanted = fl.ones(3, requires_grad=True), fl.ones(3, requires_grad=True)
    for param, rate in ((x, fl.full(shape, 0.1)), (wanted, 0.1)):
        optimizer = fl.optim.LBFGS([param], lr=rate)

        def closure(param=param, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (param**2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
    assert fl.allclose(x, wanted) and (x < 0.9).all()
