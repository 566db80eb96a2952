"""Runs that are saved, forgotten and resumed are the same runs, to the bit; see training_run.py."""

import collections
import os
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.utils.training_state import (
    load_training_state,
    save_training_state,
    training_state,
)
from tests.files.training_run import Run

STEPS = 8  # per epoch


@pytest.fixture(scope="module")
def whole():
    return Run().go()


def test_the_run_is_long_enough_to_tell(whole):
    assert len(whole) == 3 * STEPS + 2
    assert len({line.split()[3] for line in whole[:-2]}) > STEPS  # rates change
    assert whole != Run(seed=1).go()


@pytest.mark.parametrize("stop", [1, 3, STEPS - 1, STEPS, STEPS + 1, 2 * STEPS + 5])
def test_resuming_gives_the_same_run(whole, stop, tmp_path):
    first = Run().go(tmp_path / "run.pt", stop)
    assert first == whole[:stop]
    again = Run(seed=99)  # other weights, other streams, all of which the file replaces
    assert again.state.resume(tmp_path / "run.pt")
    assert again.state.step == stop
    assert again.go() == whole[stop:]


def test_resuming_twice(whole, tmp_path):
    lines = Run().go(tmp_path / "run.pt", 5)
    for stop in (11, 20, None):
        again = Run(seed=stop or 1)
        again.state.load(tmp_path / "run.pt")
        lines += again.go(tmp_path / "run.pt", stop)
    assert lines == whole


def test_resuming_in_another_process(whole, tmp_path):
    from tests.files import training_run

    def lines(*arguments):
        command = [sys.executable, training_run.__file__, str(tmp_path / "run.pt"), *arguments]
        root = os.path.dirname(os.path.dirname(flambeau.__file__))
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    assert lines("11") + lines("0", "5") == whole


@pytest.mark.slow  # four runs with two worker processes each
def test_resuming_with_workers(tmp_path):
    wanted = Run(workers=2).go()
    first = Run(workers=2).go(tmp_path / "run.pt", 11)
    again = Run(seed=3, workers=2)
    again.state.load(tmp_path / "run.pt")
    assert first + again.go() == wanted


def test_files_hold_data_only(tmp_path):
    Run().go(tmp_path / "run.pt", 3)
    found = flambeau.load(tmp_path / "run.pt", weights_only=True)
    assert found["format"] == "flambeau.utils.training_state"
    assert flambeau.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "run.pt") == []


@pytest.mark.oracle
def test_pytorch_reads_the_file(tmp_path):
    torch = pytest.importorskip("torch")
    run = Run()
    run.go(tmp_path / "run.pt", 3)
    found = torch.load(tmp_path / "run.pt", weights_only=True)
    assert found["values"]["step"] == 3
    want = run.model.state_dict()["0.weight"].tolist()
    assert found["parts"]["model"]["0.weight"].tolist() == want


# the pieces


def small(**more):
    model = nn.Linear(2, 1)
    optimizer = flambeau.optim.Adam(model.parameters(), lr=0.1)
    return training_state(model=model, optimizer=optimizer, **more)


def test_values_are_attributes():
    state = small(epoch=0, best=None)
    state.epoch += 2
    state.note = "said"
    assert (state.epoch, state.best, state.note) == (2, None, "said")
    assert isinstance(state.model, nn.Linear)
    assert repr(state) == (
        "training_state(model=Linear, optimizer=Adam, epoch=2, best=None, note='said')"
    )
    assert {"model", "epoch", "save"} <= set(dir(state))
    with pytest.raises(AttributeError, match="has no part or value 'other'"):
        state.other  # noqa: B018
    with pytest.raises(AttributeError, match="'model' is a part"):
        state.model = nn.Linear(1, 1)
    with pytest.raises(ValueError, match="'save' cannot be the name of a part"):
        training_state(save=1)


def test_values_of_many_kinds_come_back(tmp_path):
    values = {
        "history": [1.5, {"loss": 2.0}, (1, 2)],
        "best": flambeau.arange(3),
        "names": {"a", "b"},
        "count": collections.Counter("aab"),
        "number": np.float64(0.1),
        "whole": np.int64(7),
        "array": np.arange(4.0),
        "shape": flambeau.Size([2, 3]),
        "dtype": flambeau.bfloat16,
        "groups": collections.defaultdict(list, x=[1]),
    }
    small(**values).save(tmp_path / "s.pt")
    back = small().load(tmp_path / "s.pt")
    assert back.history == [1.5, {"loss": 2.0}, (1, 2)] and back.best.tolist() == [0, 1, 2]
    assert back.names == {"a", "b"} and back.count == collections.Counter("aab")
    assert back.number == 0.1 and back.whole == 7 and back.array.tolist() == [0, 1, 2, 3]
    assert back.shape == (2, 3) and back.dtype is flambeau.bfloat16 and back.groups == {"x": [1]}


class Thing:
    pass


def test_what_is_no_data_is_refused_when_saving(tmp_path):
    for value, said in ((Thing(), "Thing"), (print, "builtin"), ([{"a": Thing()}], "Thing")):
        with pytest.raises(TypeError, match=f"note.*{said}.*which a file of data cannot hold"):
            small(note=value).save(tmp_path / "s.pt")
    assert os.listdir(tmp_path) == []
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested deeper than 100"):
        small(loop=loop).state_dict()


def test_random_streams_come_back(tmp_path):
    def draw(own):
        return random.random(), np.random.rand(), flambeau.rand(1).item(), own.normal()

    for kind in (np.random.PCG64, np.random.MT19937, np.random.Philox):
        own = np.random.Generator(kind(3))
        random.gauss(0, 1), np.random.randn(), flambeau.randn(1)  # a waiting second number
        state = training_state(own=own, python=random.Random(4))
        state.save(tmp_path / "s.pt")
        wanted = draw(own), state.python.random(), random.gauss(0, 1), np.random.randn()
        state.load(tmp_path / "s.pt")
        assert wanted == (draw(own), state.python.random(), random.gauss(0, 1), np.random.randn())


def test_streams_can_be_left_out(tmp_path):
    small(rng=False).save(tmp_path / "s.pt")
    assert "rng" not in flambeau.load(tmp_path / "s.pt")
    flambeau.manual_seed(7)
    small(rng=False, epoch=1).load(tmp_path / "s.pt")
    small().load(tmp_path / "s.pt")


def test_gradients_between_backward_and_step(tmp_path):
    state = small(gradients=True)
    state.model(flambeau.ones(1, 2)).sum().backward()
    state.model.bias.grad = None
    state.save(tmp_path / "s.pt")
    other = small(gradients=True)
    other.model(flambeau.ones(1, 2)).sum().backward()
    other.load(tmp_path / "s.pt")
    assert other.model.weight.grad.tolist() == [[1.0, 1.0]] and other.model.bias.grad is None


def test_functions_of_one_call(tmp_path):
    model = nn.Linear(2, 1)
    save_training_state(tmp_path / "s.pt", model=model, epoch=4)
    other = nn.Linear(2, 1)
    found = load_training_state(tmp_path / "s.pt", model=other, epoch=0)
    assert found.epoch == 4 and flambeau.equal(model.weight, other.weight)


def test_several_models_by_list_and_by_name(tmp_path):
    def pair():
        return [nn.Linear(1, 1), nn.Linear(2, 2)], {"g": nn.Linear(3, 3), "d": nn.Linear(1, 1)}

    models, named = pair()
    training_state(models=models, named=named).save(tmp_path / "s.pt")
    others, other_named = pair()
    training_state(models=others, named=other_named).load(tmp_path / "s.pt")
    assert flambeau.equal(others[1].weight, models[1].weight)
    assert flambeau.equal(other_named["g"].weight, named["g"].weight)
    with pytest.raises(RuntimeError, match="1 parts here, but 2 in the file"):
        training_state(models=others[:1], named=named).load(tmp_path / "s.pt")


def test_other_parts_than_those_of_the_file(tmp_path):
    small().save(tmp_path / "s.pt")
    model = nn.Linear(2, 1)
    with pytest.raises(RuntimeError, match="optimizer only in the file; other not in the file"):
        training_state(model=model, other=nn.Linear(1, 1)).load(tmp_path / "s.pt")
    training_state(model=model).load(tmp_path / "s.pt", strict=False)
    with pytest.raises(RuntimeError, match="size mismatch") as caught:
        training_state(model=nn.Linear(3, 1)).load(tmp_path / "s.pt", strict=False)
    assert caught.value.__notes__ == ["while the part 'model' of a training state was restored"]


def test_files_that_are_none(tmp_path):
    flambeau.save({"a": 1}, tmp_path / "x.pt")
    with pytest.raises(RuntimeError, match="is no training state"):
        small().load(tmp_path / "x.pt")
    flambeau.save({"format": "flambeau.utils.training_state", "version": 9}, tmp_path / "x.pt")
    with pytest.raises(RuntimeError, match="has version 9 of the format"):
        small().load(tmp_path / "x.pt")
    with pytest.raises(FileNotFoundError):
        small().load(tmp_path / "no.pt")
    assert not small().resume(tmp_path / "no.pt")
    (tmp_path / "x.pt").write_bytes(b"PK\3\4" + bytes(100))
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed"):
        small().resume(tmp_path / "x.pt")
    flambeau.save(Thing(), tmp_path / "x.pt")
    with pytest.raises(pickle.UnpicklingError):
        small().load(tmp_path / "x.pt")


def test_the_last_files_are_kept(tmp_path):
    state, path = small(epoch=0, step=0), tmp_path / "run-{epoch}-{step:04}.pt"
    (tmp_path / "run-notes.txt").touch()
    (tmp_path / "run-1-x.ckpt").touch()
    for step in range(5):
        state.step = step
        assert state.save(path, keep=2) == str(tmp_path / f"run-0-{step:04}.pt")
    names = {"run-0-0003.pt", "run-0-0004.pt", "run-notes.txt", "run-1-x.ckpt"}
    assert set(os.listdir(tmp_path)) == names
    assert small(epoch=9).load(path).step == 4
    with pytest.raises(ValueError, match="keep=2 needs a path with a field"):
        state.save(tmp_path / "run.pt", keep=2)
    with pytest.raises(ValueError, match="keep must be at least 1"):
        state.save(path, keep=0)
    with pytest.raises(ValueError, match="speaks of 'loss', but the values of this training"):
        state.save(tmp_path / "{loss}.pt")
    assert not state.resume(tmp_path / "other-{epoch}.pt")
    assert not state.resume(tmp_path / "no" / "other-{epoch}.pt")
    state.save(tmp_path / "}odd{.pt")
    assert state.resume(tmp_path / "}odd{.pt")


def test_a_failing_save_removes_nothing(tmp_path):
    state, path = small(step=0), tmp_path / "{step}.pt"
    state.save(path, keep=1)
    state.step, state.note = 1, Thing()
    with pytest.raises(TypeError):
        state.save(path, keep=1)
    assert os.listdir(tmp_path) == ["0.pt"]
