"""States through files: what PyTorch saves loads here, and what is saved here loads there.

Every module of the lists of cases, and every optimizer after two steps; results are compared after
loading. Without PyTorch the same files go from flambeau to flambeau.
"""

import io

import numpy as np
import pytest

import flambeau
import flambeau.nn
from tests.nn import layer_cases, loss_cases, rnn_cases, transformer_cases
from tests.nn.layer_cases import call, make, numbers

LISTS = (layer_cases, loss_cases, rnn_cases, transformer_cases)
CASES = [case for cases in LISTS for case in cases.CASES]


def has_state(case):
    return bool(make(flambeau, case).state_dict())


# PyTorch's own lazy instance norms do not learn num_features from a state
WITH_STATE = [case for case in CASES if "LazyInstance" not in case and has_state(case)]

OPTIMIZERS = """
SGD(p, lr=0.1)
SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
Adam(p, lr=0.01)
Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1)
AdamW(p, lr=0.01)
RMSprop(p, lr=0.01, momentum=0.5, centered=True)
Adagrad(p, lr=0.01)
Adadelta(p)
Adamax(p)
NAdam(p)
RAdam(p)
ASGD(p, lr=0.1)
Rprop(p)
LBFGS(p, lr=0.1, max_iter=3)
Adafactor(p)
Muon(p)
""".strip().splitlines()


def through_a_file(state, writer, reader, weights_only=True):
    file = io.BytesIO()
    writer.save(state, file)
    return reader.load(io.BytesIO(file.getvalue()), weights_only=weights_only)


def results(lib, module, case):
    return [numbers(t) for t in call(lib, module, case)[0]]


def check_module(case, writer, reader):
    source, target = make(writer, case, seed=1).eval(), make(reader, case, seed=2).eval()
    if "Lazy" in case:
        call(writer, source, case)  # it learns its sizes
    state = through_a_file(source.state_dict(), writer, reader)
    assert list(state) == list(source.state_dict())
    versions = {key: dict(entry) for key, entry in source.state_dict()._metadata.items()}
    assert {key: dict(entry) for key, entry in state._metadata.items()} == versions
    assert str(target.load_state_dict(state)) == "<All keys matched successfully>"
    for a, b in zip(results(reader, target, case), results(writer, source, case), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=3e-6)


@pytest.mark.parametrize("case", WITH_STATE)
def test_states_of_modules_through_files(case):
    check_module(case, flambeau, flambeau)


@pytest.mark.oracle
@pytest.mark.parametrize("case", WITH_STATE)
def test_states_of_modules_to_and_from_pytorch(case):
    torch = pytest.importorskip("torch")
    check_module(case, torch, flambeau)
    check_module(case, flambeau, torch)


def problem(lib, text):
    """(parameters, optimizer) of a line."""
    values = np.cos(np.arange(12.0)).astype("float32")
    shapes = [(3, 4)] if "Muon" in text else [(3, 4), (4,)]
    p = [lib.nn.Parameter(lib.tensor(values[: np.prod(s)].tolist()).reshape(s)) for s in shapes]
    return p, eval(text, {**vars(lib.optim), "p": p})


def steps(parameters, optimizer, count):
    def loss():
        optimizer.zero_grad()
        total = sum(((p - 0.3) ** 2).sum() for p in parameters)
        total.backward()
        return total

    for _ in range(count):
        optimizer.step(loss)


def check_optimizer(text, writer, reader):
    """Two steps there, the rest here, give what all steps in one place give."""
    parameters, optimizer = problem(writer, text)
    steps(parameters, optimizer, 2)
    saved = {"p": [p.detach() for p in parameters], "optimizer": optimizer.state_dict()}
    loaded = through_a_file(saved, writer, reader)
    others, other = problem(reader, text)
    with reader.no_grad():
        for p, value in zip(others, loaded["p"], strict=True):
            p.copy_(value)
    other.load_state_dict(loaded["optimizer"])
    steps(parameters, optimizer, 3)
    steps(others, other, 3)
    for a, b in zip(others, parameters, strict=True):
        np.testing.assert_allclose(numbers(a), numbers(b), rtol=3e-5, atol=1e-6)


@pytest.mark.parametrize("text", OPTIMIZERS)
def test_states_of_optimizers_through_files(text):
    check_optimizer(text, flambeau, flambeau)


@pytest.mark.oracle
@pytest.mark.parametrize("text", OPTIMIZERS)
def test_states_of_optimizers_to_and_from_pytorch(text):
    torch = pytest.importorskip("torch")
    check_optimizer(text, torch, flambeau)
    check_optimizer(text, flambeau, torch)


SCHEDULERS = """
StepLR(o, 2)
MultiStepLR(o, [1, 3])
CosineAnnealingLR(o, 5)
OneCycleLR(o, 0.1, 20)
ReduceLROnPlateau(o)
ExponentialLR(o, 0.9)
LinearLR(o)
CosineAnnealingWarmRestarts(o, 3)
""".strip().splitlines()


@pytest.mark.oracle
@pytest.mark.parametrize("text", SCHEDULERS)
def test_states_of_schedulers_to_and_from_pytorch(text):
    torch = pytest.importorskip("torch")
    for writer, reader in ((torch, flambeau), (flambeau, torch)):
        made = []
        for lib in (writer, reader):
            parameters, optimizer = problem(lib, "SGD(p, lr=0.1)")
            names = {**vars(lib.optim.lr_scheduler), "o": optimizer}
            made.append((optimizer, eval(text, names), parameters))
        (source, scheduler, parameters), (target, other, _) = made
        for step in range(3):
            steps(parameters, source, 1)
            scheduler.step(*[1.0 + step] if "Plateau" in text else [])
        state = {"o": source.state_dict(), "s": scheduler.state_dict()}
        loaded = through_a_file(state, writer, reader)
        target.load_state_dict(loaded["o"])
        other.load_state_dict(loaded["s"])
        for optimizer, schedule in ((source, scheduler), (target, other)):
            optimizer.step()
            schedule.step(*[9.0] if "Plateau" in text else [])
        assert source.param_groups[0]["lr"] == pytest.approx(target.param_groups[0]["lr"])
