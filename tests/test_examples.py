"""The example programs run, in short mode, and reach what they promise."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
DIGITS = str(ROOT / "examples/digits.py")


def run(name, *arguments):
    """What `main` of an example returns."""
    return runpy.run_path(str(ROOT / f"examples/{name}.py"))["main"](list(arguments))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_one_page_that_says_what_it_is(path):
    source = path.read_text()
    assert len(source.splitlines()) < 200
    assert source.startswith('"""') and 'if __name__ == "__main__":' in source


def test_digits_learns_to_read(capsys):
    runpy.run_path(DIGITS, run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("epoch") for line in lines) == 20
    assert float(lines[-1].split()[2]) > 0.95


@pytest.mark.oracle
def test_digits_prints_the_losses_of_pytorch(capsys, monkeypatch):
    torch = pytest.importorskip("torch")
    printed = []
    for package in (flambeau, torch):
        monkeypatch.setitem(sys.modules, "flambeau", package)
        runpy.run_path(DIGITS, run_name="__main__")
        printed.append(capsys.readouterr().out.splitlines()[:-1])
    assert printed[0] == printed[1]


def test_digits_starts_with_the_loss_of_guessing():
    names = runpy.run_path(DIGITS)
    scores = names["torch"].zeros(4, 10)
    labels = names["torch"].arange(4)
    assert abs(names["cross_entropy"](scores, labels).item() - np.log(10)) < 1e-6


def test_convnet_writes_all_that_it_names(tmp_path, capsys):
    pytest.importorskip("tqdm")
    pytest.importorskip("tensorboard")
    accuracy = run("convnet", "--quick", "--silent", "--output", str(tmp_path))
    assert accuracy > 0.3
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"checkpoint.pt", "graph.svg", "losses.svg", "log"}
    assert list((tmp_path / "log").rglob("events.out.tfevents.*"))
    out = capsys.readouterr().out
    assert all(str(tmp_path / name) in out for name in written)


@pytest.mark.slow  # the whole demo: half a minute
def test_convnet_reads_nearly_all_digits(tmp_path):
    assert run("convnet", "--silent", "--output", str(tmp_path)) > 0.98


def test_char_gpt_learns_letters(capsys):
    assert run("char_gpt", "--quick") < 3.4
    assert "When " in capsys.readouterr().out


def test_word_lstm_learns_words():
    assert run("word_lstm", "--quick") < 60


def test_vae_draws_a_sheet(tmp_path):
    assert run("vae", "--quick", "--output", str(tmp_path / "sheet.png")) < 32
    assert (tmp_path / "sheet.png").stat().st_size > 1000


def test_dcgan_draws_after_an_epoch(tmp_path):
    judged, fooled = run("dcgan", "--quick", "--output", str(tmp_path))
    assert 0 < judged < 3 and 0 < fooled < 5
    assert (tmp_path / "epoch_001.png").exists()


def test_resnet_resumes_to_the_bit(tmp_path):
    whole = run("resnet_cifar", "--quick", "--output", str(tmp_path / "whole.pt"))
    assert len(whole) == 2 and all(0 < loss < 5 for loss in whole)
    names = runpy.run_path(str(ROOT / "examples/resnet_cifar.py"))
    cut = str(tmp_path / "cut.pt")
    state_of = names["training_state"]

    class Stop(BaseException):
        pass

    class Once:
        """A state that stops the program after its first file."""

        def __init__(self, **parts):
            self.__dict__["state"] = state_of(**parts)

        def __getattr__(self, name):
            return getattr(self.state, name)

        def __setattr__(self, name, value):
            setattr(self.state, name, value)

        def save(self, path):
            self.state.save(path)
            raise Stop

    names["main"].__globals__["training_state"] = Once
    with pytest.raises(Stop):
        names["main"](["--quick", "--output", cut])
    assert run("resnet_cifar", "--quick", "--resume", "--output", cut) == whole[1:]


def test_reinforce_plays():
    assert run("reinforce", "--quick") > 15


def test_transfer_learning_keeps_features(tmp_path):
    scratch, frozen, tuned = run("transfer_learning", "--quick", "--output", str(tmp_path / "f.pt"))
    assert min(scratch, frozen, tuned) > 0.5
    assert max(frozen, tuned) > scratch - 0.1


def test_big_batches_change_nothing():
    difference, share = run("big_batches", "--quick")
    assert difference < 1e-5 and share < 0.7


def test_custom_function_learns_spirals():
    assert run("custom_function", "--quick") > 0.9
