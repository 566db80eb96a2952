"""The public names of optim and their signatures are those recorded from PyTorch."""

import json
import pathlib
import subprocess
import sys

import pytest

import flambeau as fl
from tests.golden.record_optim import MODULES, names_of

RECORDED = json.loads(
    (pathlib.Path(__file__).parents[1] / "golden" / "optim.json").read_text(encoding="utf-8")
)
OURS = names_of(fl)


@pytest.mark.parametrize("path", MODULES)
def test_names_are_all_there(path):
    assert sorted(OURS[path]) == sorted(RECORDED[path])


@pytest.mark.parametrize("path, name", [(p, n) for p in MODULES for n in RECORDED[p]])
def test_signatures_are_recorded_ones(path, name):
    for member, expected in RECORDED[path][name].items():
        assert OURS[path][name].get(member) == expected, member


def test_optim_loads_on_first_touch():
    code = (
        "import sys, flambeau as fl; assert 'flambeau.optim' not in sys.modules;"
        "fl.optim.lr_scheduler; assert 'flambeau.optim.swa_utils' not in sys.modules;"
        "fl.optim.swa_utils.SWALR; import flambeau.optim.lr_scheduler, flambeau.optim.swa_utils"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
