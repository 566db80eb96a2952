"""Optimizers that step by an update rule: against textbook formulas in float64, and PyTorch."""

import copy
import gc
import pickle

import numpy as np
import pytest

import flambeau as fl
from flambeau.eager.updating import total_norm, update

SHAPES = [(3, 5), (100,), (33, 7), (1,), (0,), (2, 9000)]

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("Adam", {"maximize": True, "lr": 0.01}),
    ("AdamW", {}),
    ("AdamW", {"amsgrad": True, "weight_decay": 0.1, "lr": 0.1}),
    ("RMSprop", {}),
    ("RMSprop", {"centered": True, "momentum": 0.9, "weight_decay": 0.1}),
    ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adadelta", {}),
    ("Adadelta", {"weight_decay": 0.1, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"weight_decay": 0.1, "betas": (0.8, 0.9)}),
    ("ASGD", {}),
    ("ASGD", {"t0": 2, "weight_decay": 0.1}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.4, 1.3)}),
]
IDS = [f"{name}-{'-'.join(map(str, options))}" for name, options in CASES]


# -- textbook formulas ----------------------------------------------------------------------------


def _moments(o, state, g, t):
    b1, b2 = o.get("betas", (0.9, 0.999))
    m = state["m"] = b1 * state.get("m", 0) + (1 - b1) * g
    v = state["v"] = b2 * state.get("v", 0) + (1 - b2) * g * g
    return m, v, 1 - b1**t, 1 - b2**t


def _sgd(p, g, t, o, state):
    if o.get("momentum"):
        if t == 1:
            state["b"] = g
        else:
            state["b"] = o["momentum"] * state["b"] + (1 - o.get("dampening", 0)) * g
        g = g + o["momentum"] * state["b"] if o.get("nesterov") else state["b"]
    return p - o["lr"] * g


def _adam(p, g, t, o, state):
    m, v, c1, c2 = _moments(o, state, g, t)
    if o.get("amsgrad"):
        v = state["max"] = np.maximum(state.get("max", 0), v)
    return p - o.get("lr", 1e-3) * (m / c1) / (np.sqrt(v / c2) + 1e-8)


def _rmsprop(p, g, t, o, state):
    v = state["v"] = 0.99 * state.get("v", 0) + 0.01 * g * g
    if o.get("centered"):
        mean = state["m"] = 0.99 * state.get("m", 0) + 0.01 * g
        v = v - mean**2
    step = g / (np.sqrt(v) + 1e-8)
    if o.get("momentum"):
        step = state["b"] = o["momentum"] * state.get("b", 0) + step
    return p - 0.01 * step


def _adagrad(p, g, t, o, state):
    total = state["s"] = state.get("s", o.get("initial_accumulator_value", 0)) + g * g
    return p - 0.01 / (1 + (t - 1) * o.get("lr_decay", 0)) * g / (np.sqrt(total) + 1e-10)


def _adadelta(p, g, t, o, state):
    v = state["v"] = 0.9 * state.get("v", 0) + 0.1 * g * g
    delta = np.sqrt(state.get("d", 0) + 1e-6) / np.sqrt(v + 1e-6) * g
    state["d"] = 0.9 * state.get("d", 0) + 0.1 * delta * delta
    return p - delta


def _adamax(p, g, t, o, state):
    m = state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    u = state["u"] = np.maximum(0.999 * state.get("u", 0), np.abs(g) + 1e-8)
    return p - 2e-3 / (1 - 0.9**t) * m / u


def _nadam(p, g, t, o, state):
    m, v, _, c2 = _moments(o, state, g, t)
    mu, following = (0.9 * (1 - 0.5 * 0.96 ** (k * 4e-3)) for k in (t, t + 1))
    product = state["mu"] = state.get("mu", 1.0) * mu
    mean = following * m / (1 - product * following) + (1 - mu) * g / (1 - product)
    return p - 2e-3 * mean / (np.sqrt(v / c2) + 1e-8)


def _radam(p, g, t, o, state):
    b2 = o.get("betas", (0.9, 0.999))[1]
    m, v, c1, c2 = _moments(o, state, g, t)
    limit = 2 / (1 - b2) - 1
    length = limit - 2 * t * b2**t / c2
    if length <= 5:
        return p - 1e-3 * m / c1
    r = np.sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))
    return p - 1e-3 * m / c1 * r * np.sqrt(c2) / (np.sqrt(v) + 1e-8)


def _asgd(p, g, t, o, state):
    eta, mu = state.get("eta", 1e-2), state.get("mu", 1.0)
    p = p * (1 - 1e-4 * eta) - eta * g
    state["ax"] = p if mu == 1 else state["ax"] + mu * (p - state["ax"])
    state["eta"] = 1e-2 / (1 + 1e-4 * 1e-2 * t) ** 0.75
    state["mu"] = 1 / max(1, t - o.get("t0", 1e6))
    return p


def _rprop(p, g, t, o, state):
    minus, plus = o.get("etas", (0.5, 1.2))
    agreement = g * state.get("g", 0)
    size = state.get("size", o.get("lr", 1e-2) * np.ones_like(p))
    size = np.clip(
        size * np.where(agreement > 0, plus, np.where(agreement < 0, minus, 1)), 1e-6, 50
    )
    g = np.where(agreement < 0, 0, g)
    state["g"], state["size"] = g, size
    return p - np.sign(g) * size


FORMULAS = {
    "SGD": _sgd, "Adam": _adam, "AdamW": _adam, "RMSprop": _rmsprop, "Adagrad": _adagrad,
    "Adadelta": _adadelta, "Adamax": _adamax, "NAdam": _nadam, "RAdam": _radam, "ASGD": _asgd,
    "Rprop": _rprop,
}  # fmt: skip


def _reference(name, options, p, grads):
    state: dict = {}
    decay = options.get("weight_decay", 0.01 if name == "AdamW" else 0)
    lr = options.get("lr", {"NAdam": 2e-3}.get(name, 1e-3))
    for t, g in enumerate(grads, 1):
        g = -g if options.get("maximize") else g
        if name == "AdamW" or options.get("decoupled_weight_decay"):
            p = p * (1 - lr * decay)
        else:
            g = g + decay * p
        p = FORMULAS[name](p, g, t, options, state)
    return p


def _numbers(steps=6):
    random = np.random.default_rng(5)
    params = [random.standard_normal(s) for s in SHAPES]
    return params, [[random.standard_normal(s) for s in SHAPES] for _ in range(steps)]


def _run(name, options, params, steps, dtype=fl.float64):
    """The parameters after the steps; one of them is laid out column by column."""
    tensors = [fl.tensor(p, dtype=dtype).requires_grad_() for p in params]
    tensors[2] = fl.tensor(params[2].T.copy(), dtype=dtype).t().detach().requires_grad_()
    optimizer = getattr(fl.optim, name)(tensors, **options)
    for grads in steps:
        for t, g in zip(tensors, grads):
            t.grad = fl.tensor(g, dtype=dtype)
        optimizer.step()
    return tensors, optimizer


@pytest.mark.parametrize("name, options", CASES, ids=IDS)
def test_steps_follow_the_formula(name, options):
    params, steps = _numbers()
    found, _ = _run(name, options, params, steps)
    for k, (start, result) in enumerate(zip(params, found)):
        expected = _reference(name, options, start, [grads[k] for grads in steps])
        # eta and mu_product are kept in float32
        tolerance = 1e-6 if name in ("ASGD", "NAdam") else 1e-10
        np.testing.assert_allclose(result.detach().numpy(), expected, tolerance, tolerance)


@pytest.mark.parametrize("name, options", CASES, ids=IDS)
def test_differentiable_steps_are_the_same(name, options):
    params, steps = _numbers(3)
    expected, _ = _run(name, options, params, steps)
    leaves = [fl.tensor(p).requires_grad_() for p in params]
    tensors = [leaf.clone() for leaf in leaves]
    optimizer = getattr(fl.optim, name)(tensors, differentiable=True, **options)
    for grads in steps:
        for t, g in zip(tensors, grads):
            t.grad = fl.tensor(g)
        optimizer.step()
    for a, b in zip(tensors, expected):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-10, 1e-12)
    sum(t.sum() for t in tensors).backward()
    assert all(leaf.grad is not None for leaf in leaves)


def test_gradient_with_respect_to_the_learning_rate():
    lr = fl.tensor(0.1, dtype=fl.float64, requires_grad=True)
    p = fl.tensor([1.0, 2.0], dtype=fl.float64).requires_grad_().clone()
    optimizer = fl.optim.SGD([p], lr=lr, differentiable=True)
    p.grad = fl.tensor([3.0, 5.0], dtype=fl.float64)
    optimizer.step()
    p.sum().backward()
    assert lr.grad.item() == -8.0


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_gradients_with_respect_to_the_betas(name):
    def moved(beta1, beta2, decay):
        p = fl.tensor([1.0, 2.0], dtype=fl.float64).requires_grad_().clone()
        given = {"lr": 0.5, "betas": (beta1, beta2), "weight_decay": decay}
        optimizer = getattr(fl.optim, name)([p], differentiable=True, **given)
        for grad in ([3.0, 5.0], [-1.0, 2.0]):
            p.grad = fl.tensor(grad, dtype=fl.float64)
            optimizer.step()
        return p

    options = [fl.tensor(x, dtype=fl.float64, requires_grad=True) for x in (0.8, 0.9, 0.1)]
    assert fl.autograd.gradcheck(moved, options)


def test_nadam_passes_gradients_through_its_product():
    def moved(product):
        p = fl.tensor([1.0, 2.0], dtype=fl.float64).requires_grad_().clone()
        p.grad = fl.tensor([3.0, 5.0], dtype=fl.float64)
        optimizer = fl.optim.NAdam([p], differentiable=True)
        mean, square = fl.tensor([0.5, 1.0]).double(), fl.tensor([2.0, 1.0]).double()
        state = {"step": fl.tensor(3.0), "mu_product": product.clone()}
        optimizer.state[p] = {**state, "exp_avg": mean, "exp_avg_sq": square}
        optimizer.step()
        return p, optimizer.state[p]["mu_product"]

    product = fl.tensor(0.7, dtype=fl.float64, requires_grad=True)
    assert fl.autograd.gradcheck(moved, (product,))


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_bits_do_not_depend_on_threads(name):
    params, steps = _numbers(3)
    params.append(np.linspace(-1, 1, 300_000))
    steps = [[*grads, np.cos(params[-1])] for grads in steps]
    threads = fl.get_num_threads()
    results = []
    for count in (1, 2):
        fl.set_num_threads(count)
        found, _ = _run(name, {"lr": 0.1}, params, steps, fl.float32)
        results.append([t.detach().numpy().tobytes() for t in found])
    fl.set_num_threads(threads)
    assert results[0] == results[1]


def test_steps_are_counted_per_parameter():
    """A parameter without a gradient keeps its count, and the next step treats them apart."""
    a, b = fl.ones(3).requires_grad_(), fl.ones(3).requires_grad_()
    optimizer = fl.optim.Adam([a, b], lr=0.1)
    a.grad = fl.ones(3)
    optimizer.step()
    assert b not in optimizer.state
    b.grad = fl.ones(3)
    optimizer.step()
    assert [optimizer.state[p]["step"].item() for p in (a, b)] == [2.0, 1.0]
    # bias correction makes the first step of a constant gradient one learning rate long
    np.testing.assert_allclose(b.detach().numpy(), 0.9, 1e-6)


def test_views_with_gaps_are_updated_in_place():
    base = fl.arange(12.0)
    p = base[::2].detach().requires_grad_()
    optimizer = fl.optim.SGD([p], lr=1.0, momentum=0.5)
    p.grad = fl.ones(6)
    optimizer.step()
    assert base.tolist() == [-1, 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11]


def test_versions_tell_of_steps():
    p = fl.ones(3).requires_grad_()
    out = (p * p).sum()
    optimizer = fl.optim.SGD([p], lr=0.1)
    p.grad = fl.ones(3)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_half_parameters_keep_their_dtype():
    for dtype in (fl.bfloat16, fl.float16):
        p = fl.ones(5, dtype=dtype).requires_grad_()
        optimizer = fl.optim.Adam([p], lr=0.25)
        p.grad = fl.ones(5, dtype=dtype)
        optimizer.step()
        assert p.dtype is dtype and p.tolist() == [0.75] * 5
        assert optimizer.state[p]["exp_avg"].dtype is dtype


def test_state_moves_between_optimizers():
    params, steps = _numbers(4)
    for name, options in CASES:
        expected, whole = _run(name, options, params, steps)
        half, first = _run(name, options, params, steps[:2])
        saved = pickle.loads(pickle.dumps(first.state_dict()))
        second = getattr(fl.optim, name)(half, **options)
        second.load_state_dict(copy.deepcopy(saved))
        for grads in steps[2:]:
            for t, g in zip(half, grads):
                t.grad = fl.tensor(g)
            second.step()
        for a, b in zip(half, expected):
            if name == "ASGD":  # its eta takes on the parameter's dtype when it is loaded
                np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-7, 1e-7)
            else:
                assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes(), name
        assert repr(second) == repr(whole)


# -- the base class -------------------------------------------------------------------------------


def test_refuses_what_cannot_be_optimized():
    p, adam = fl.ones(2).requires_grad_(), fl.optim.Adam
    for error, text, make in (
        (TypeError, "params argument given to the optimizer should be", lambda: fl.optim.SGD(p)),
        (ValueError, "optimizer got an empty parameter list", lambda: fl.optim.SGD([])),
        (TypeError, "optimizer can only optimize Tensors", lambda: fl.optim.SGD([1])),
        (ValueError, "can't optimize a non-leaf Tensor", lambda: fl.optim.SGD([p * 2])),
        (ValueError, "Invalid learning rate: -1", lambda: fl.optim.SGD([p], lr=-1)),
        (ValueError, "Nesterov momentum requires", lambda: fl.optim.SGD([p], nesterov=True)),
        (ValueError, "Invalid beta parameter at index 0", lambda: adam([p], betas=(2.0, 0.9))),
        (
            ValueError,
            "some parameters appear in more than one parameter group",
            lambda: fl.optim.SGD([{"params": [p]}, {"params": [p]}]),
        ),
        (TypeError, "organized in ordered collections", lambda: fl.optim.SGD([{"params": {p}}])),
        (
            RuntimeError,
            "`fused` and `foreach` cannot be `True` together.",
            lambda: fl.optim.Adam([p], fused=True, foreach=True),
        ),
        *[
            (
                RuntimeError,
                "`fused=True` requires all the params to be floating point Tensors of supported "
                r"devices: \[.*\] but torch.float32 and meta",
                lambda kind=kind: kind([without_memory()], lr=0.1, fused=True).step(),
            )
            for kind in (fl.optim.Adam, fl.optim.SGD, fl.optim.Adagrad)
        ],
    ):  # fmt: skip
        with pytest.raises(error, match=text.replace("(", "\\(")):
            make()
    with pytest.warns(UserWarning, match="duplicate parameters"):
        fl.optim.SGD([p, p])


def without_memory():
    """A parameter that fused kernels cannot reach, and its gradient."""
    param = fl.nn.Parameter(fl.ones(2, device="meta"))
    param.grad = fl.ones_like(param)
    return param


def test_groups_names_and_zero_grad():
    a, b = fl.ones(2).requires_grad_(), fl.ones(2).requires_grad_()
    optimizer = fl.optim.SGD([{"params": [("a", a)]}, {"params": [("b", b)], "lr": 1.0}], lr=0.5)
    a.grad = b.grad = fl.ones(2)
    optimizer.step()
    assert a.tolist() == [0.5, 0.5] and b.tolist() == [0.0, 0.0]
    assert optimizer.state_dict()["param_groups"][1]["param_names"] == ["b"]
    optimizer.zero_grad(set_to_none=False)
    assert a.grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert a.grad is None
    with pytest.raises(ValueError, match="cannot add param group without names"):
        optimizer.add_param_group({"params": [fl.ones(1).requires_grad_()]})


def test_hooks_and_closures():
    p = fl.ones(2).requires_grad_()
    optimizer = fl.optim.SGD([p], lr=0.5)
    seen = []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))
    every = fl.optim.optimizer.register_optimizer_step_pre_hook(lambda *a: seen.append("every"))

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0
    handle.remove()
    every.remove()
    optimizer.step()
    assert seen == ["every", "before", "after", "before"]


def test_users_write_their_own():
    class Sign(fl.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            with fl.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p.sub_(group["lr"] * p.grad.sign())

    p = fl.ones(3).requires_grad_()
    p.grad = fl.tensor([1.0, -2.0, 0.0])
    optimizer = Sign([p], 0.5)
    seen = []
    optimizer.register_step_post_hook(lambda *a: seen.append(1))
    optimizer.step()
    assert p.tolist() == [0.5, 1.5, 1.0] and seen == [1]


def test_load_state_dict_refuses_other_groups():
    p, q = fl.ones(2).requires_grad_(), fl.ones(2).requires_grad_()
    saved = fl.optim.SGD([p, q]).state_dict()
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        fl.optim.SGD([p]).load_state_dict(saved)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        fl.optim.SGD([{"params": [p]}, {"params": [q]}]).load_state_dict(saved)


def test_steps_leave_no_garbage():
    p = fl.ones(1000).requires_grad_()
    optimizer = fl.optim.Adam([p])
    p.grad = fl.ones(1000)
    optimizer.step()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(10):
            optimizer.step()
        assert len(gc.get_objects()) <= before + 5
    finally:
        gc.enable()


# -- norms and clipping ---------------------------------------------------------------------------


@pytest.mark.parametrize("norm_type", [2, 1, 3, 0.5, float("inf"), float("-inf")])
def test_total_norm(norm_type):
    params, _ = _numbers(0)
    tensors = [fl.tensor(p) for p in params]
    flat = np.concatenate([p.ravel() for p in params])
    expected = np.linalg.norm(flat, norm_type)
    assert total_norm(tensors, norm_type) == pytest.approx(expected, rel=1e-12)
    single = fl.nn.utils.get_total_norm([t.float() for t in tensors], norm_type)
    assert single.dtype is fl.float32 and single.item() == pytest.approx(expected, rel=1e-5)


def test_nan_is_the_norm_of_nan():
    for norm_type in (2, 1, float("inf"), float("-inf")):
        t = fl.tensor([1.0, float("nan"), 3.0])
        assert np.isnan(total_norm([fl.ones(40), t], norm_type))


def test_clip_grad_norm():
    params, (grads,) = _numbers(1)
    tensors = [fl.tensor(p).requires_grad_() for p in params]
    for t, g in zip(tensors, grads):
        t.grad = fl.tensor(g)
    norm = np.linalg.norm(np.concatenate([g.ravel() for g in grads]))
    assert fl.nn.utils.clip_grad_norm_(tensors, 2.0).item() == pytest.approx(norm)
    for t, g in zip(tensors, grads):
        np.testing.assert_allclose(t.grad.numpy(), g * 2 / (norm + 1e-6), 1e-12)
    kept = [t.grad.numpy().copy() for t in tensors]
    fl.nn.utils.clip_grad_norm_(tensors, 100.0)
    assert all((t.grad.numpy() == k).all() for t, k in zip(tensors, kept))
    fl.nn.utils.clip_grad_value_(tensors, 1e-3)
    for t, k in zip(tensors, kept):
        np.testing.assert_array_equal(t.grad.numpy(), np.clip(k, -1e-3, 1e-3))
    tensors[0].grad[0, 0] = float("nan")
    with pytest.raises(RuntimeError, match=r"The total norm of order 2\.0 for gradients from"):
        fl.nn.utils.clip_grad_norm_(tensors, 1.0, error_if_nonfinite=True)


def test_complex_parameters_count_as_pairs():
    z = fl.tensor([3 + 4j, 0j])
    assert total_norm([z], 2) == 5.0
    update("scaled", [[z]], [0.5])
    assert z.tolist() == [1.5 + 2j, 0j]


# -- PyTorch --------------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("name, options", CASES, ids=IDS)
def test_steps_are_pytorchs(name, options, dtype):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    starts = [torch.randn(s, dtype=getattr(torch, dtype)) for s in SHAPES]
    theirs = [torch.nn.Parameter(s.clone()) for s in starts]
    ours = [fl.tensor(s.numpy()).requires_grad_() for s in starts]
    a, b = getattr(torch.optim, name)(theirs, **options), getattr(fl.optim, name)(ours, **options)
    assert repr(a) == repr(b)
    for _ in range(7):
        for p, q in zip(theirs, ours):
            p.grad = torch.randn_like(p)
            q.grad = fl.tensor(p.grad.numpy())
        a.step()
        b.step()
    tolerance = 1e-13 if dtype == "float64" else 1e-5
    for p, q in zip(theirs, ours):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), tolerance, tolerance)
    saved, mine = a.state_dict(), b.state_dict()
    assert saved["param_groups"] == mine["param_groups"]
    assert list(saved["state"]) == list(mine["state"])
    for key, state in saved["state"].items():
        assert list(state) == list(mine["state"][key])
        for field, value in state.items():
            found = mine["state"][key][field]
            assert str(found.dtype) == str(value.dtype) and found.shape == value.shape
            np.testing.assert_allclose(found.numpy(), value.numpy(), tolerance, tolerance)
