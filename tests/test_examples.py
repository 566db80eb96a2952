"""The example programs run and reach what they promise."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau

ROOT = Path(__file__).parent.parent
DIGITS = str(ROOT / "examples/digits.py")


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


def test_the_embedded_digits_are_whole():
    with np.load(ROOT / "flambeau/vision/datasets/digits.npz") as file:
        images, labels = file["images"], file["labels"]
    assert images.shape == (1797, 8, 8) and images.dtype == np.uint8 and images.max() == 16
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
