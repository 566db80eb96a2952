"""Exported programs: their text is PyTorch's, and they compute what the module computes."""

import copy
import json
import re
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.export import export
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.utils import _pytree as pytree
from tests.export.programs import PROGRAMS, build

pytestmark = pytest.mark.filterwarnings("ignore:reduction")
GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "export.json").read_text())


def lines(text):
    """A text without comments and ends of values."""
    found = [re.sub(r";  .*", "", line.strip()) for line in text.splitlines()]
    return [line for line in found if line and not re.match(r"# (File|No stack)", line)]


def recorded(kind, name):
    torch.manual_seed(0)
    module, args = build(torch, name)
    if kind == "make_fx":
        return make_fx(module)(*args).code
    program = export(module, args)
    return str(program.run_decompositions() if kind == "decomp" else program)


@pytest.mark.parametrize("kind,name", [(kind, name) for kind in GOLDEN for name in GOLDEN[kind]])
def test_texts_are_those_of_pytorch(kind, name):
    assert lines(recorded(kind, name)) == GOLDEN[kind][name]


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "random"])
@pytest.mark.parametrize("kind", ["export", "decomp"])
def test_programs_compute_what_modules_do(kind, name):
    torch.manual_seed(0)
    module, args = build(torch, name)
    program = export(copy.deepcopy(module), args)
    runs = (program.run_decompositions() if kind == "decomp" else program).module()
    expected, found = [], []
    for model, results in ((module, expected), (runs, found)):
        torch.manual_seed(1)
        results += pytree.tree_leaves(model(*copy.deepcopy(args)))
    assert len(found) == len(expected)
    for value, wanted in zip(found, expected):
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(value, wanted, equal_nan=True, rtol=1e-5, atol=1e-5)
        else:
            assert value == wanted
    for key, buffer in module.named_buffers():
        torch.testing.assert_close(runs.get_buffer(key), buffer)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_goldens_are_true(name):
    real = pytest.importorskip("torch")
    module, args = build(real, name)
    assert lines(str(real.export.export(module, args))) == GOLDEN["export"][name]
