"""swa_utils and swapped state: means of models, running statistics, SWALR, and PyTorch."""

import copy
import warnings

import numpy as np
import pytest

import flambeau as fl


def model_of(lib):
    lib.manual_seed(3)
    return lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 2))


def wander(lib, steps=4, inner=None, **options):
    """A model that changes at random, followed by an average: (values of every step, average)."""
    model = model_of(lib)
    swa = lib.optim.swa_utils
    averaged = swa.AveragedModel(model, **{k: f(swa) for k, f in options.items()})
    random = np.random.default_rng(0)
    values = []
    for _ in range(steps):
        with lib.no_grad():
            for p in model.parameters():
                p.add_(lib.tensor(random.standard_normal(p.shape), dtype=lib.float32))
        model(lib.tensor(random.standard_normal((5, 3)), dtype=lib.float32))
        averaged.update_parameters(model)
        values.append([p.detach().numpy().copy() for p in model.parameters()])
    return values, averaged


KINDS = {
    "mean": {},
    "mean of lists": {"multi_avg_fn": lambda s: s.get_swa_multi_avg_fn()},
    "mean one by one": {"avg_fn": lambda s: s.get_swa_avg_fn()},
    "moving": {"multi_avg_fn": lambda s: s.get_ema_multi_avg_fn(0.8)},
    "moving fast": {"multi_avg_fn": lambda s: s.get_ema_multi_avg_fn(0.3)},
    "moving one by one": {"avg_fn": lambda s: s.get_ema_avg_fn(0.8)},
    "buffers too": {"use_buffers": lambda s: True},
    "moving buffers": {
        "use_buffers": lambda s: True,
        "multi_avg_fn": lambda s: s.get_ema_multi_avg_fn(0.8),
    },
    "own": {"avg_fn": lambda s: lambda mean, value, count: mean + count * value},
}


@pytest.mark.parametrize("kind", KINDS)
def test_averages_follow_the_formula(kind):
    values, averaged = wander(fl, **KINDS[kind])
    expected = values[0]
    for count, new in enumerate(values[1:], 1):
        if kind == "own":
            weights = 1, count
        elif "moving" in kind:
            decay = 0.3 if "fast" in kind else 0.8
            weights = decay, 1 - decay
        else:
            weights = count / (count + 1), 1 / (count + 1)
        expected = [weights[0] * a + weights[1] * b for a, b in zip(expected, new)]
    for p, e in zip(averaged.parameters(), expected, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), e, 1e-5, 1e-6)
    assert averaged.n_averaged.item() == 4 and averaged.n_averaged.dtype is fl.int64


def test_averages_save_and_call():
    _, averaged = wander(fl)
    other = fl.optim.swa_utils.AveragedModel(model_of(fl))
    other.load_state_dict(copy.deepcopy(averaged.state_dict()))
    x = fl.randn(5, 3)
    averaged.eval(), other.eval()
    assert (averaged(x) == averaged.module(x)).all() and (other(x) == averaged(x)).all()
    assert list(averaged.state_dict())[:2] == ["n_averaged", "module.0.weight"]


def test_other_dtypes_and_layouts():
    for dtype in (fl.float64, fl.bfloat16, fl.complex64):
        a, b = fl.ones(3, 2, dtype=dtype), fl.full((2, 3), 5.0, dtype=dtype).t()
        version = a._version
        fl.optim.swa_utils.get_swa_multi_avg_fn()([a], [b], fl.tensor(3))
        assert a.tolist() == [[2, 2]] * 3 and a._version > version
        fl.optim.swa_utils.get_ema_multi_avg_fn(0.75)([a], [b], None)
        assert a.tolist() == [[2.75, 2.75]] * 3 and b.tolist() == [[5, 5]] * 3


def test_running_statistics_are_computed_anew():
    model = fl.nn.Sequential(fl.nn.BatchNorm1d(3)).eval()
    model[0].momentum = 0.3
    batches = [fl.randn(6, 3) + k for k in range(4)]
    fl.optim.swa_utils.update_bn([(b, None) for b in batches], model)
    means = np.mean([b.numpy().mean(0) for b in batches], 0)
    np.testing.assert_allclose(model[0].running_mean.numpy(), means, 1e-5, 1e-6)
    assert model[0].momentum == 0.3 and not model.training
    assert model[0].num_batches_tracked.item() == 4


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 6])
def test_swalr_goes_to_its_rate(strategy, epochs):
    optimizer = fl.optim.SGD([fl.zeros(1).requires_grad_()], lr=0.8)
    scheduler = fl.optim.swa_utils.SWALR(optimizer, 0.2, epochs, strategy)
    for t in range(10):
        x = min(1, max(t, epochs == 0) / max(epochs, 1))
        part = (1 - np.cos(np.pi * x)) / 2 if strategy == "cos" else x
        assert scheduler.get_last_lr()[0] == pytest.approx(0.8 + (0.2 - 0.8) * part)
        optimizer.step()
        scheduler.step()
    other = fl.optim.swa_utils.SWALR(optimizer, 0.2)
    other.load_state_dict(scheduler.state_dict())
    assert other.state_dict() == scheduler.state_dict()
    assert other.anneal_func is scheduler.anneal_func


ERRORS = {
    "S.get_ema_avg_fn(2)": (ValueError, "Invalid decay value 2 provided."),
    "S.get_ema_multi_avg_fn(-1)": (ValueError, "Invalid decay value -1 provided."),
    "S.AveragedModel(m, avg_fn=abs, multi_avg_fn=abs)": (AssertionError, "Only one of avg_fn"),
    "S.SWALR(o, 0.1, anneal_strategy='a')": (ValueError, "anneal_strategy must be one of 'cos'"),
    "S.SWALR(o, 0.1, -1)": (ValueError, "anneal_epochs must be equal or greater than 0, got -1"),
    "S.SWALR(o, [0.1, 0.2])": (ValueError, "swa_lr must have the same length as optimizer."),
}


def _refusal(lib, code):
    optimizer = lib.optim.SGD([lib.zeros(1).requires_grad_()])
    with pytest.raises(Exception) as caught:
        eval(code, {"S": lib.optim.swa_utils, "m": lib.nn.Linear(1, 1), "o": optimizer})
    return caught.type, str(caught.value)


@pytest.mark.parametrize("code", ERRORS)
def test_refuses(code):
    kind, text = _refusal(fl, code)
    assert kind is ERRORS[code][0] and text.startswith(ERRORS[code][1])


# -- swapped state --------------------------------------------------------------------------------


def _trained(lib):
    p = lib.ones(3).requires_grad_()
    optimizer = lib.optim.Adam([p], lr=0.1)
    p.grad = lib.ones(3)
    optimizer.step()
    return p, optimizer


def test_other_parameters_for_a_while():
    p, optimizer = _trained(fl)
    before = p.tolist()
    state = copy.deepcopy(optimizer.state_dict())
    q = fl.zeros(3).requires_grad_()
    q.grad = fl.ones(3)
    with fl.optim.swap_in_optimizer_params_and_state(optimizer, {"q": q}, state):
        optimizer.step()
        assert optimizer.param_groups[0]["params"][0] is q
    np.testing.assert_allclose(q.detach().numpy(), -0.1, 1e-5)
    assert p.tolist() == before and optimizer.param_groups[0]["params"][0] is p
    assert optimizer.state[p]["step"].item() == 1 and state["state"][0]["step"].item() == 2


SWAPS = {
    "3": "requires a DCP-style optimizer state_dict.",
    "{}": "requires swapin_optim_state['state'] to be a dict",
    "{'state': {}}": "to be a list of param-group dicts, got NoneType",
    "{**s, 'state': 3}": "requires swapin_optim_state['state'] to be a dict",
    "{**s, 'state': {'a': {}}}": "got extra keys ['a']",
    "{**s, 'state': {0: 3}}": "requires per-parameter optimizer state entries",
    "{**s, 'state': {7: {}}}": "to be keyed only by packed parameter ids",
    "{**s, 'param_groups': 3}": "to be a list of param-group dicts, got int",
    "{**s, 'param_groups': []}": "has a different number of parameter groups",
    "{**s, 'param_groups': [3]}": "requires each optimizer param group to be a dictionary",
    "{**s, 'param_groups': [{**s['param_groups'][0], 'params': [0, 1]}]}": "different number of",
    "{**s, 'param_groups': [{**s['param_groups'][0], 'a': 1}]}": "Keys only in swap-in: ['a']",
}


def _swap_refusal(lib, code):
    p, optimizer = _trained(lib)
    state = eval(code, {"s": optimizer.state_dict()})
    swap = lib.optim.swap_in_optimizer_params_and_state
    with pytest.raises(RuntimeError) as caught, swap(optimizer, {"p": p}, state):
        pass
    return str(caught.value)


@pytest.mark.parametrize("code", SWAPS)
def test_refuses_states_of_another_form(code):
    assert SWAPS[code] in _swap_refusal(fl, code)


# -- PyTorch --------------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("kind", KINDS)
def test_averages_are_pytorchs(kind):
    torch = pytest.importorskip("torch")
    mine, theirs = (wander(lib, **KINDS[kind])[1].state_dict() for lib in (fl, torch))
    assert list(mine) == list(theirs)
    for name, value in theirs.items():
        assert str(mine[name].dtype) == str(value.dtype)
        np.testing.assert_allclose(mine[name].numpy(), value.numpy(), 1e-5, 1e-6, err_msg=name)


@pytest.mark.oracle
@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 6])
def test_swalr_is_pytorchs(strategy, epochs):
    torch = pytest.importorskip("torch")
    states = []
    for lib in (fl, torch):
        optimizer = lib.optim.SGD([lib.zeros(1).requires_grad_()], lr=0.8)
        first = lib.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        scheduler = lib.optim.swa_utils.SWALR(optimizer, 0.05, epochs, strategy)
        states.append([])
        for t in range(12):
            optimizer.step()
            (first if t < 3 else scheduler).step()
            states[-1].append(scheduler.state_dict())
    assert states[0] == states[1]


@pytest.mark.oracle
@pytest.mark.parametrize("code", [*ERRORS, *SWAPS])
def test_refusals_are_pytorchs(code):
    torch = pytest.importorskip("torch")
    warnings.simplefilter("ignore")
    refusal = _refusal if code in ERRORS else _swap_refusal
    assert refusal(fl, code) == refusal(torch, code)
