"""Stubs are up to date, `inspect` tells PyTorch's signatures, and type checkers understand both."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau

ROOT = Path(__file__).parents[1]
RECORDED = json.loads((ROOT / "tests/golden/public_names.json").read_text())["modules"]
SPACES = ["torch", "torch.linalg", "torch.fft", "torch.special", "torch.nn.functional"]


def test_stubs_are_up_to_date():
    command = [sys.executable, str(ROOT / "tools/stubs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (ROOT / "flambeau/py.typed").exists()


# PyTorch's max_pool says (*args, **kwargs); the others are the functions of torch itself.
# PyTorch's say `*args`, or come from builtins; ours are what the documentation tells.
OTHERWISE = set(
    "max_pool1d max_pool2d max_pool3d layer_norm sigmoid tanh adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d gelu "
    "one_hot".split()
)


def told(text):
    """[(name, kind)] of the parameters in a signature of the record."""
    space: dict = {}
    exec(f"def f{text}: ...", {name: name for name in ("inf", "nan", "torch", "strided")}, space)
    return [(p.name, p.kind) for p in inspect.signature(space["f"]).parameters.values()]


def spaces():
    for path in SPACES:
        module = eval("flambeau" + path.removeprefix("torch"), {"flambeau": flambeau})
        for name, texts in RECORDED[path].items():
            value = getattr(module, name, None)
            if texts and inspect.isfunction(value) and hasattr(value, "__signature__"):
                yield path, name, value, texts


def test_inspect_tells_a_signature_of_pytorch():
    wrong, seen = [], 0
    for path, name, value, texts in spaces():
        ours = [(p.name, p.kind) for p in inspect.signature(value).parameters.values()]
        try:
            known = [told(text) for text in texts]
        except (SyntaxError, NameError):
            continue
        seen += 1
        if ours not in known and not (path == "torch.nn.functional" and name in OTHERWISE):
            wrong.append(f"{path}.{name}{inspect.signature(value)}")
    assert seen > 400
    assert not wrong, "\n".join(wrong)


def test_signatures_of_functions_and_methods():
    wanted = "(input, dim, keepdim=False, *, dtype=None, out=None)"
    assert str(inspect.signature(flambeau.sum)) == wanted
    assert "size" in inspect.signature(flambeau.randn).parameters
    assert str(inspect.signature(flambeau.ones(2).softmax)).startswith("(dim, dtype=None")
    assert list(inspect.signature(flambeau.linalg.vector_norm).parameters)[1] == "ord"


PROGRAM = """
import flambeau as torch
import flambeau.nn.functional as F
from flambeau import Tensor, nn


class Net(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.one = nn.Linear(2, width)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.one(x))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x: Tensor = torch.randn(16, 2)
z: Tensor = torch.randn(size=(3, 4)).sum(dim=1, keepdim=True).to(torch.float64)
n: int = z.size(0)
values, indices = torch.randn(3, 4).max(dim=1)
flag: bool = torch.allclose(z, z)
w: Tensor = torch.cat([x, x], dim=0)[:, 0] + 1.5
kind: str = w.device.type
with torch.no_grad():
    v: Tensor = torch.where(x > 0, x, torch.zeros_like(x)).clamp(min=0.0).view(-1, 2)
F.mse_loss(model(x).sum(-1), w[:16]).backward()
"""
WRONG = """
import flambeau as torch
x: int = torch.randn(3).sum()
torch.cat(1)
torch.ones(2).transpose("a", 1)
"""


@pytest.mark.slow
def test_type_checkers_understand_programs(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "good.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "good.py", "wrong.py"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={"MYPYPATH": str(ROOT)}
    )
    lines = [line for line in done.stdout.splitlines() if "error" in line and ".py:" in line]
    assert not [line for line in lines if line.startswith("good")], done.stdout
    assert len({line.split(":")[1] for line in lines}) == 3, done.stdout
