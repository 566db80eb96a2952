"""Schedulers: sequences of rates against closed formulas and PyTorch, saving, order, errors."""

import copy
import gc
import itertools
import math
import pickle
import warnings
import weakref

import pytest

import flambeau as fl

L = fl.optim.lr_scheduler


class Halving:
    """A callable with a field, which schedulers save."""

    def __init__(self, rate=0.5):
        self.rate = rate

    def __call__(self, epoch):
        return self.rate**epoch


def optimizer_of(lib, name="SGD", lr=0.5, tensor_lr=False, groups=2):
    params = [lib.zeros(1).requires_grad_() for _ in range(groups)]
    options = {"momentum": 0.9} if name == "SGD" else {}
    rate = (lambda x: lib.tensor(x, dtype=lib.float64)) if tensor_lr else float
    parts = [{"params": [p], "lr": rate(lr / (k + 1))} for k, p in enumerate(params)]
    return getattr(lib.optim, name)(parts, lr=rate(lr), **options)


def walk(lib, make, steps=25, **options):
    """(rates, momenta) of every epoch."""
    optimizer = optimizer_of(lib, **options)
    scheduler = make(lib.optim.lr_scheduler, optimizer)
    found = []
    for _ in range(steps):
        optimizer.step()
        momenta = [g.get("momentum", g.get("betas")) for g in optimizer.param_groups]
        found.append(([float(g["lr"]) for g in optimizer.param_groups], momenta))
        assert [float(r) for r in scheduler.get_last_lr()] == found[-1][0]
        scheduler.step()
    return found


def half(epoch):
    return 0.5**epoch


# name: (scheduler, rate at epoch t from the initial rate)
CASES = {
    "lambda": (lambda s, o: s.LambdaLR(o, half), lambda b, t: b * 0.5**t),
    "lambdas": (
        lambda s, o: s.LambdaLR(o, [half, Halving()]),
        lambda b, t: b * 0.5**t,
    ),
    "multiplicative": (
        lambda s, o: s.MultiplicativeLR(o, lambda t: 0.9 + 0.01 * t),
        lambda b, t: b * math.prod(0.9 + 0.01 * k for k in range(1, t + 1)),
    ),
    "step": (lambda s, o: s.StepLR(o, 4), lambda b, t: b * 0.1 ** (t // 4)),
    "step 1": (lambda s, o: s.StepLR(o, 1, gamma=0.7), lambda b, t: b * 0.7**t),
    "multi step": (
        lambda s, o: s.MultiStepLR(o, [9, 3, 3, 20], gamma=0.5),
        lambda b, t: b * 0.5 ** sum(t >= k for k in (9, 3, 3, 20)),
    ),
    "constant": (lambda s, o: s.ConstantLR(o), lambda b, t: b / 3 if t < 5 else b),
    "constant 0.9": (
        lambda s, o: s.ConstantLR(o, factor=0.9, total_iters=11),
        lambda b, t: b * 0.9 if t < 11 else b,
    ),
    "linear": (
        lambda s, o: s.LinearLR(o),
        lambda b, t: b * (1 / 3 + 2 / 3 * min(t, 5) / 5),
    ),
    "linear down": (
        lambda s, o: s.LinearLR(o, 1.0, 0.25, total_iters=13),
        lambda b, t: b * (1 - 0.75 * min(t, 13) / 13),
    ),
    "exponential": (lambda s, o: s.ExponentialLR(o, 0.8), lambda b, t: b * 0.8**t),
    "polynomial": (lambda s, o: s.PolynomialLR(o), lambda b, t: b * (1 - min(t, 5) / 5)),
    "polynomial 2": (
        lambda s, o: s.PolynomialLR(o, 17, power=2.5),
        lambda b, t: b * (1 - min(t, 17) / 17) ** 2.5,
    ),
    "cosine": (
        lambda s, o: s.CosineAnnealingLR(o, 7, eta_min=0.01),
        lambda b, t: 0.01 + (b - 0.01) * (1 + math.cos(math.pi * t / 7)) / 2,
    ),
    "restarts": (
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 6, eta_min=0.1),
        lambda b, t: 0.1 + (b - 0.1) * (1 + math.cos(math.pi * (t % 6) / 6)) / 2,
    ),
    "restarts 2": (
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2),
        lambda b, t: b * (1 + math.cos(math.pi * longer_periods(t))) / 2,
    ),
    "cyclic": (
        lambda s, o: s.CyclicLR(o, 0.1, 0.7, 4),
        lambda b, t: 0.1 + 0.6 * triangle(t, 4, 4),
    ),
    "cyclic 2": (
        lambda s, o: s.CyclicLR(o, 0.1, 0.7, 4, 6, mode="triangular2"),
        lambda b, t: 0.1 + 0.6 * triangle(t, 4, 6) / 2 ** (t // 10),
    ),
    "cyclic exp": (
        lambda s, o: s.CyclicLR(o, 0.1, 0.7, 4, mode="exp_range", gamma=0.9, base_momentum=0.3),
        lambda b, t: 0.1 + 0.6 * triangle(t, 4, 4) * 0.9**t,
    ),
    "cyclic own": (
        lambda s, o: s.CyclicLR(
            o, 0.1, 0.7, 3, scale_fn=lambda x: 1 / x, cycle_momentum=False
        ),
        lambda b, t: 0.1 + 0.6 * triangle(t, 3, 3) / (t // 6 + 1),
    ),
    "one cycle": (
        lambda s, o: s.OneCycleLR(o, 0.8, total_steps=30),
        lambda b, t: one_cycle(t, [(0, 0.032), (8, 0.8), (29, 3.2e-6)], True),
    ),
    "one cycle linear": (
        lambda s, o: s.OneCycleLR(
            o, 0.8, epochs=5, steps_per_epoch=5, anneal_strategy="linear", div_factor=10.0,
            three_phase=True, pct_start=0.4, final_div_factor=100.0, base_momentum=[0.1, 0.2],
        ),
        lambda b, t: one_cycle(t, [(0, 0.08), (9, 0.8), (18, 0.08), (24, 8e-4)], False),
    ),
    "sequential": (
        lambda s, o: s.SequentialLR(
            o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [5, 12]
        ),
        lambda b, t: b * (0.1 if t < 3 else 1.0)
        if t < 5
        else b * 0.9 ** (t - 5)
        if t < 12
        else b * 0.1 ** ((t - 12) // 2),
    ),
    "chained": (
        lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.9)]),
        lambda b, t: b * (0.1 if t < 4 else 1.0) * 0.9**t,
    ),
    "linear then cosine": (
        lambda s, o: s.SequentialLR(
            o, [s.LinearLR(o, 0.1, total_iters=5), s.CosineAnnealingLR(o, 20)], [5]
        ),
        lambda b, t: b * (0.1 + 0.9 * t / 5)
        if t < 5
        else b * (1 + math.cos(math.pi * (t - 5) / 20)) / 2,
    ),
}  # fmt: skip


def triangle(t, up, down):
    x = t % (up + down)
    return x / up if x <= up else (up + down - x) / down


def longer_periods(t, length=3):
    while t >= length:
        t, length = t - length, 2 * length
    return t / length


def one_cycle(t, corners, cosine):
    for (a, low), (b, high) in itertools.pairwise(corners):
        if t <= b:
            x = (t - a) / (b - a)
            return low + (high - low) * ((1 - math.cos(math.pi * x)) / 2 if cosine else x)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("tensor_lr", [False, True], ids=["number", "tensor"])
def test_rates_follow_the_formula(name, tensor_lr):
    make, formula = CASES[name]
    for t, (rates, _) in enumerate(walk(fl, make, tensor_lr=tensor_lr)):
        expected = [formula(0.5, t), formula(0.25, t)]
        assert rates == pytest.approx(expected, rel=1e-9, abs=1e-12), t


CLOSED = ["step", "multi step", "constant", "linear", "exponential", "polynomial 2", "cosine",
          "restarts", "restarts 2"]  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_any_epoch_at_once(name):
    make, formula = CASES[name]
    optimizer = optimizer_of(fl)
    scheduler = make(L, optimizer)
    for t in (7, 2, 19, 0, 12):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scheduler.step(t)
        assert scheduler.last_epoch == t
        expected = [formula(0.5, t), formula(0.25, t)]
        assert scheduler.get_last_lr() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_state_moves_between_schedulers(name):
    make, _ = CASES[name]
    expected = walk(fl, make)
    optimizer = optimizer_of(fl)
    scheduler = make(L, optimizer)
    for _ in range(8):
        optimizer.step()
        scheduler.step()
    saved = pickle.loads(pickle.dumps((optimizer.state_dict(), scheduler.state_dict())))
    other = optimizer_of(fl, lr=3.0)
    second = make(L, other)
    other.load_state_dict(saved[0])
    second.load_state_dict(saved[1])
    for rates, momenta in expected[8:]:
        other.step()
        assert [g["lr"] for g in other.param_groups] == rates
        assert [g["momentum"] for g in other.param_groups] == momenta
        second.step()


def test_objects_save_their_fields():
    first, second = (L.LambdaLR(optimizer_of(fl), Halving(rate)) for rate in (0.25, 0.5))
    state = first.state_dict()
    assert state["lr_lambdas"] == [{"rate": 0.25}] * 2 and "optimizer" not in state
    second.load_state_dict(state)
    assert second.lr_lambdas[0].rate == 0.25
    own = L.CyclicLR(optimizer_of(fl), 0.1, 0.2, scale_fn=Halving(0.3))
    assert own.state_dict()["_scale_fn_custom"] == {"rate": 0.3}


def test_resumes_after_an_epoch():
    for name in ("step", "exponential", "cosine", "lambda", "multi step"):
        make, _ = CASES[name]
        optimizer = optimizer_of(fl)
        scheduler = make(L, optimizer)
        for _ in range(12):
            optimizer.step()
            scheduler.step()
        resumed = make_resumed(scheduler, optimizer)
        assert resumed[0] != resumed[9]
    fresh = optimizer_of(fl)
    with pytest.raises(KeyError, match=r"param 'initial_lr' is not specified in param_groups\[0\]"):
        L.StepLR(fresh, 3, last_epoch=2)


# -- waiting for progress -------------------------------------------------------------------------


def test_plateau_waits_and_cools_down():
    optimizer = optimizer_of(fl, groups=1)
    scheduler = L.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=2, cooldown=1, min_lr=0.1, threshold=0.1
    )
    losses = [1.0, 0.95, 0.94, 0.93, 0.93, 0.93, 0.93, 0.93, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8]
    rates = []
    for loss in losses:
        scheduler.step(fl.tensor(loss))
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [0.5] * 3 + [0.25] * 4 + [0.125] * 4 + [0.1] * 4
    assert scheduler.get_last_lr() == [0.1] and scheduler.last_epoch == 15
    copied = L.ReduceLROnPlateau(optimizer_of(fl, groups=1), "max")
    copied.load_state_dict(copy.deepcopy(scheduler.state_dict()))
    assert copied.state_dict() == scheduler.state_dict() and not copied.in_cooldown


def test_plateau_grows_with_the_groups():
    optimizer = optimizer_of(fl, groups=1)
    one, many = (L.ReduceLROnPlateau(optimizer, patience=0, min_lr=m) for m in (0, [0.0]))
    optimizer.add_param_group({"params": [fl.ones(1).requires_grad_()]})
    one.step(1.0)
    one.step(1.0)
    assert [g["lr"] for g in optimizer.param_groups] == [0.05, 0.05]
    many.step(1.0)
    with pytest.raises(RuntimeError, match=r"The number of param groups in the `optimizer` \(2\)"):
        many.step(1.0)


# -- order, warnings, life ------------------------------------------------------------------------


def test_warns_when_called_before_the_optimizer():
    optimizer = optimizer_of(fl)
    scheduler = L.StepLR(optimizer, 3)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before"):
        scheduler.step()
    optimizer = optimizer_of(fl)
    scheduler = L.StepLR(optimizer, 3)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match=r"Seems like `optimizer.step\(\)` has been overridden"):
        scheduler.step()


def test_right_order_is_silent_and_steps_still_count():
    optimizer = optimizer_of(fl)
    seen = []
    optimizer.register_step_post_hook(lambda *a: seen.append(1))
    scheduler = L.StepLR(optimizer, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        scheduler.step()
        assert optimizer.step(lambda: 7) == 7
    assert seen == [1, 1]


def test_other_warnings():
    optimizer = optimizer_of(fl)
    scheduler = L.ExponentialLR(optimizer, 0.5)
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        scheduler.get_lr()
    optimizer.step()
    with pytest.warns(UserWarning, match=r"The epoch parameter in `scheduler.step\(\)`"):
        scheduler.step(3)


def test_optimizers_are_freed():
    optimizer = optimizer_of(fl)
    scheduler = L.StepLR(optimizer, 3)
    gone = weakref.ref(optimizer)
    gc.collect()
    gc.disable()
    try:
        del optimizer, scheduler
        assert gone() is None
    finally:
        gc.enable()


def test_a_tensor_rate_stays_the_same_tensor():
    optimizer = optimizer_of(fl, tensor_lr=True)
    rate = optimizer.param_groups[0]["lr"]
    scheduler = L.StepLR(optimizer, 1, gamma=0.5)
    last = scheduler.get_last_lr()[0]
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.25
    assert last.item() == 0.5 and scheduler.base_lrs[0].item() == 0.5


def test_users_write_their_own():
    class Cubic(L.LRScheduler):
        def get_lr(self):
            return [base / (1 + self.last_epoch) ** 3 for base in self.base_lrs]

    optimizer = optimizer_of(fl)
    scheduler = Cubic(optimizer)
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.0625, 0.03125]
    with pytest.raises(NotImplementedError):
        L.LRScheduler(optimizer_of(fl))


ERRORS = {
    "L.StepLR(1, 2)": (TypeError, "int is not an Optimizer"),
    "L.CyclicLR(1, 2, 3)": (TypeError, "int is not an Optimizer"),
    "L.OneCycleLR(1, 2, 3)": (TypeError, "int is not an Optimizer"),
    "L.ReduceLROnPlateau(1)": (TypeError, "int is not an Optimizer"),
    "L.LambdaLR(o, [abs])": (ValueError, "Expected 2 lr_lambdas, but got 1"),
    "L.MultiplicativeLR(o, 3)": (TypeError, "lr_lambda should be a function, but got int"),
    "L.MultiplicativeLR(o, [abs, 'a'])": (TypeError, "lr_lambda should be a function"),
    "L.ConstantLR(o, 2.0)": (ValueError, "Constant multiplicative factor expected to be"),
    "L.LinearLR(o, 0)": (ValueError, "Starting multiplicative factor expected to be greater"),
    "L.LinearLR(o, 1, 2)": (ValueError, "Ending multiplicative factor expected to be between"),
    "L.SequentialLR(o, [], [])": (ValueError, "SequentialLR expects at least one scheduler"),
    "L.SequentialLR(o, [L.StepLR(o, 3)], [1])": (ValueError, "Sequential Schedulers expects"),
    "L.SequentialLR(o, [3], [])": (TypeError, "SequentialLR at index 0 should have `optimizer`"),
    "L.SequentialLR(o, [L.ReduceLROnPlateau(o)], [])": (ValueError, "SequentialLR does not"),
    "L.SequentialLR(o, [L.StepLR(p, 3)], [])": (ValueError, "SequentialLR expects all schedulers"),
    "L.ChainedScheduler([])": (ValueError, "ChainedScheduler expects at least one scheduler"),
    "L.ChainedScheduler([L.StepLR(o, 3), L.StepLR(p, 3)])": (ValueError, "ChainedScheduler"),
    "L.ReduceLROnPlateau(o, factor=1.0)": (ValueError, "Factor should be < 1.0."),
    "L.ReduceLROnPlateau(o, min_lr=[1])": (ValueError, "expected 2 min_lrs, got 1"),
    "L.ReduceLROnPlateau(o, mode='up')": (ValueError, "mode up is unknown!"),
    "L.ReduceLROnPlateau(o, threshold_mode='up')": (ValueError, "threshold mode up is unknown!"),
    "L.CyclicLR(o, 0.1, 0.2, mode='up')": (ValueError, "mode is invalid and scale_fn is None"),
    "L.CyclicLR(o, [0.1], 0.2)": (ValueError, "base_lr must have the same length as optimizer."),
    "L.CyclicLR(q, 0.1, 0.2)": (ValueError, "optimizer must support momentum or beta1 with"),
    "L.OneCycleLR(q, 0.1, 10)": (ValueError, "optimizer must support momentum or beta1 with"),
    "L.CosineAnnealingWarmRestarts(o, 0)": (ValueError, "Expected positive integer T_0, but got 0"),
    "L.CosineAnnealingWarmRestarts(o, 1, 0)": (ValueError, "Expected integer T_mult >= 1, but got"),
    "L.CosineAnnealingWarmRestarts(o, 1, 1, '1')": (ValueError, "Expected float or int eta_min"),
    "L.CosineAnnealingWarmRestarts(o, 1).step(-3)": (ValueError, "Expected non-negative"),
    "L.OneCycleLR(o, 0.1)": (ValueError, "You must define either total_steps OR (epochs AND"),
    "L.OneCycleLR(o, 0.1, 0)": (ValueError, "Expected positive integer total_steps, but got 0"),
    "L.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=1)": (ValueError, "Expected positive integer"),
    "L.OneCycleLR(o, 0.1, epochs=1, steps_per_epoch=.5)": (ValueError, "Expected positive integer"),
    "L.OneCycleLR(o, 0.1, 9, pct_start=2)": (ValueError, "Expected float between 0 and 1"),
    "L.OneCycleLR(o, 0.1, 9, anneal_strategy='a')": (ValueError, "anneal_strategy must be one of"),
    "[S.step() for S in [L.OneCycleLR(o, 0.1, 9)] for _ in range(11)]": (
        ValueError, "Tried to step 10 times. The specified number of total steps is 9"),
}  # fmt: skip


def _refusal(lib, code):
    names = {
        "L": lib.optim.lr_scheduler, "o": optimizer_of(lib), "p": optimizer_of(lib),
        "q": optimizer_of(lib, "Adagrad"),
    }  # fmt: skip
    with warnings.catch_warnings(), pytest.raises(Exception) as caught:
        warnings.simplefilter("ignore")
        eval(code, names)
    return caught.type, str(caught.value)


@pytest.mark.parametrize("code", ERRORS)
def test_refuses(code):
    error, start = ERRORS[code]
    kind, text = _refusal(fl, code)
    assert kind is error and text.startswith(start)


# -- PyTorch --------------------------------------------------------------------------------------

NESTED = {
    "chain in sequence": lambda s, o: s.SequentialLR(
        o,
        [s.ChainedScheduler([s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.9)]), s.StepLR(o, 2)],
        [7],
    ),
    "sequence in sequence": lambda s, o: s.SequentialLR(
        o,
        [
            s.SequentialLR(o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)], [4]),
            s.StepLR(o, 2),
        ],
        [9],
    ),
    "sequence in chain": lambda s, o: s.ChainedScheduler(
        [s.SequentialLR(o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)], [4])]
    ),
    "two of a kind": lambda s, o: s.ChainedScheduler([s.StepLR(o, 2), s.CosineAnnealingLR(o, 5)]),
}


@pytest.mark.oracle
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("tensor_lr", [False, True], ids=["number", "tensor"])
@pytest.mark.parametrize("name", [*CASES, *NESTED])
def test_rates_are_pytorchs(name, optimizer, tensor_lr):
    torch = pytest.importorskip("torch")
    make = CASES[name][0] if name in CASES else NESTED[name]
    options = dict(name=optimizer, tensor_lr=tensor_lr)
    if name in NESTED:  # the first step of what is nested comes before the optimizer's
        warnings.simplefilter("ignore")
    assert walk(fl, make, **options) == walk(torch, make, **options)


@pytest.mark.oracle
@pytest.mark.parametrize("name", [*CASES, *NESTED])
def test_states_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    make = CASES[name][0] if name in CASES else NESTED[name]
    if name in NESTED:
        warnings.simplefilter("ignore")
    pairs = [(lib, optimizer_of(lib)) for lib in (fl, torch)]
    schedulers = [make(lib.optim.lr_scheduler, o) for lib, o in pairs]
    for t in range(12):
        mine, theirs = (s.state_dict() for s in schedulers)
        assert list(mine) == list(theirs) and mine == theirs, t
        first, second = (
            [{k: v for k, v in g.items() if k != "params"} for g in o.param_groups]
            for _, o in pairs
        )
        assert first == second
        for (_, o), scheduler in zip(pairs, schedulers):
            o.step()
            scheduler.step()
    if "sequen" in name or name in ("chained", "linear then cosine"):
        return
    for (_, o), scheduler in zip(pairs, schedulers):
        o.load_state_dict(o.state_dict())
        resumed = make_resumed(scheduler, o)
        if resumed is not None:
            scheduler.resumed = resumed
    if hasattr(schedulers[0], "resumed"):
        assert schedulers[0].resumed == schedulers[1].resumed


def make_resumed(scheduler, optimizer):
    """Rates of a second scheduler that goes on after epoch 5."""
    kind = type(scheduler)
    arguments = {
        "StepLR": (4,), "MultiStepLR": ([7, 9],), "ConstantLR": (), "LinearLR": (),
        "ExponentialLR": (0.9,), "PolynomialLR": (), "CosineAnnealingLR": (7,),
        "CosineAnnealingWarmRestarts": (4,), "LambdaLR": (half,), "MultiplicativeLR": (half,),
        "CyclicLR": (0.1, 0.7, 4), "OneCycleLR": (0.8, 30),
    }.get(kind.__name__)  # fmt: skip
    if arguments is None:
        return None
    resumed = kind(optimizer, *arguments, last_epoch=5)
    found = []
    for _ in range(10):
        found.append(resumed.get_last_lr())
        optimizer.step()
        resumed.step()
    return found


@pytest.mark.oracle
@pytest.mark.parametrize("name", [n for n in CASES if n not in ("sequential", "chained",
                                                               "linear then cosine")])  # fmt: skip
def test_any_epoch_is_pytorchs(name):
    torch = pytest.importorskip("torch")
    make, found = CASES[name][0], []
    for lib in (fl, torch):
        scheduler = make(lib.optim.lr_scheduler, optimizer_of(lib))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rates = []
            for t in (7, 2, None, None, 19, 0, None, 12, None):
                scheduler.step(t)
                rates.append(scheduler.get_last_lr())
        found.append(rates)
    assert found[0] == found[1]


@pytest.mark.oracle
@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
def test_plateaus_are_pytorchs(mode, threshold_mode, rng):
    torch = pytest.importorskip("torch")
    values = rng.standard_normal(80).cumsum() * 0.1
    states = []
    for lib in (fl, torch):
        optimizer = optimizer_of(lib)
        scheduler = lib.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, mode, 0.7, 3, 0.05, threshold_mode, 2, [1e-3, 0.1]
        )
        states.append([])
        for value in values:
            scheduler.step(value)
            states[-1].append(scheduler.state_dict())
    assert states[0] == states[1] and list(states[0][0]) == list(states[1][0])


@pytest.mark.oracle
@pytest.mark.parametrize("code", ERRORS)
def test_refusals_are_pytorchs(code):
    torch = pytest.importorskip("torch")
    mine, theirs = _refusal(fl, code), _refusal(torch, code)
    assert mine[0] is theirs[0] and mine[1].split(". ")[0] == theirs[1].split(". ")[0]
