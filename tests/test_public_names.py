"""PyTorch's public names are here, or left out for a reason (`left_out_names.py`)."""

import importlib
import json
import re
import warnings
from pathlib import Path

import pytest

import flambeau
from tests.left_out_names import LEFT_OUT, reasons

RECORDED = json.loads((Path(__file__).parent / "golden/public_names.json").read_text())["modules"]


def ours(path):
    """The module (or class) of a path of PyTorch's; None if there is none."""
    if path == "torch.Tensor":
        return flambeau.Tensor
    try:
        return importlib.import_module("flambeau" + path.removeprefix("torch"))
    except ModuleNotFoundError:
        return None


def missing(path):
    there = ours(path)
    return [name for name in RECORDED[path] if there is None or not hasattr(there, name)]


@pytest.mark.parametrize("path", RECORDED)
def test_names_are_here_or_left_out_for_a_reason(path):
    patterns = [pattern for pattern, _ in reasons(path)]
    gone = [n for n in missing(path) if not any(re.fullmatch(p, n) for p in patterns)]
    assert not gone, f"{path} lacks {', '.join(gone)}"


@pytest.mark.slow
def test_reasons_are_about_names_that_are_missing():
    for key in LEFT_OUT:
        path, _, pattern = key.partition(": ")
        found = [n for n in missing(path) if re.fullmatch(pattern or ".*", n)]
        assert found or not RECORDED[path], f"{key} is not missing any more"


@pytest.mark.oracle
@pytest.mark.slow
def test_the_record_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    from tests.golden.record_public_names import recorded

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {path: list(names) for path, names in recorded().items()}
    assert torch.__version__.startswith("2.13")
    assert found == {path: list(names) for path, names in RECORDED.items()}


def test_a_star_imports_what_is_public():
    names: dict = {}
    exec("from flambeau import *\nfrom flambeau.fft import *", names)
    assert {"matmul", "tensor", "float32", "rand", "Tensor", "fftfreq", "rfft"} <= names.keys()
    assert "codegen" not in names and "fft_rfft" not in names
    exec("from flambeau.special import *", names)
    assert {"zeta", "expit"} <= names.keys()
