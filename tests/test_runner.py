"""Programs of others: torch in this process and in those it starts, tracebacks, reports."""

import os
import pathlib
import subprocess
import sys

import pytest

from flambeau.torch_version import TorchVersion

ROOT = pathlib.Path(__file__).parents[1]


def run(folder, source, *options, arguments=(), **environment):
    script = folder / "program.py"
    script.write_text(source)
    return subprocess.run(
        [sys.executable, "-m", "flambeau", *options, str(script), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True, text=True, timeout=120, cwd=folder,
    )  # fmt: skip


def test_children_get_flambeau_too(tmp_path):
    done = run(
        tmp_path,
        "import subprocess, sys, torch\n"
        "code = 'import torch.nn, torchvision, torchviz\\n'\n"
        "code += 'for module in torch, torch.nn, torchvision, torchviz:'\n"
        "code += '    print(module.__spec__.name)'\n"
        "for _ in range(2):\n"
        "    print(subprocess.check_output([sys.executable, '-c', code], text=True).strip())\n",
    )
    lines = "flambeau\nflambeau.nn\nflambeau.vision\nflambeau.viz\n"
    assert done.stdout == 2 * lines, done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_every_kind_get_flambeau(tmp_path, method):
    done = run(
        tmp_path,
        "import multiprocessing, torch\n"
        "def work(queue):\n"
        "    import torch.nn\n"
        "    queue.put(torch.nn.__name__)\n"
        "if __name__ == '__main__':\n"
        f"    context = multiprocessing.get_context('{method}')\n"
        "    queue = context.Queue()\n"
        "    process = context.Process(target=work, args=(queue,))\n"
        "    process.start()\n"
        "    print(queue.get(timeout=60))\n"
        "    process.join()\n",
    )
    assert done.stdout == "flambeau.nn\n", done.stderr


def test_the_folder_of_the_script_comes_first(tmp_path):
    (tmp_path / "neighbour.py").write_text("value = 5\n")
    done = run(tmp_path, "import neighbour, sys; print(neighbour.value, sys.path[0])")
    assert done.stdout == f"5 {tmp_path}\n", done.stderr


def test_tracebacks_begin_in_the_program(tmp_path):
    done = run(tmp_path, "def fail():\n    raise ValueError('no')\nfail()\n")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):" and lines[-1] == "ValueError: no"
    assert "program.py" in lines[1] and "runner" not in done.stderr


def test_classes_of_the_program_can_be_pickled(tmp_path):
    done = run(
        tmp_path,
        "import pickle, torch\n"
        "class Net(torch.nn.Module):\n"
        "    pass\n"
        "print(type(pickle.loads(pickle.dumps(Net()))) is Net)\n",
    )
    assert done.stdout == "True\n", done.stderr


def test_classes_name_torch_as_their_home(tmp_path):
    done = run(
        tmp_path,
        "import inspect, io, pickle, typing, torch\n"
        "from torch.utils.data import DataLoader\n"
        "kinds = torch.nn.Linear, torch.optim.Adam, DataLoader, torch.dtype, torch.Size\n"
        "print(*(kind.__module__ for kind in kinds))\n"
        "net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.MultiheadAttention(2, 1))\n"
        "assert type(pickle.loads(pickle.dumps(net))[1]) is torch.nn.MultiheadAttention\n"
        "torch.save(net, file := io.BytesIO())\n"
        "print(b'torch.nn.modules.activation' in file.getvalue())\n"
        "print('in_features' in inspect.getsource(torch.nn.Linear))\n"
        "print(torch.jit.script(net[0])(torch.zeros(1, 2)).shape)\n",
    )
    homes = "torch.nn.modules.linear torch.optim.adam torch.utils.data.dataloader torch torch"
    assert done.stdout == f"{homes}\nTrue\nTrue\ntorch.Size([1, 2])\n", done.stderr


def test_a_missing_script_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", "nowhere.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2 and "can't open file 'nowhere.py'" in done.stderr


def test_standard_input_is_a_program(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", "-"], input="import torch; print(torch.pi)",
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.startswith("3.14"), done.stderr


def test_versions_are_those_of_pytorch(tmp_path):
    done = run(
        tmp_path,
        "import importlib.metadata, torch, torch.version\n"
        "print(torch.__version__ >= '2.0', torch.__version__.split('.')[:2])\n"
        "print(importlib.metadata.version('torch') == torch.__version__, torch.version.cuda)\n",
    )
    assert done.stdout == "True ['2', '13']\nTrue None\n", done.stderr


def test_a_report_names_what_is_missing(tmp_path):
    done = run(
        tmp_path,
        "import torch\n"
        "import torch.nn.functional as F\n"
        "hasattr(torch, 'no_such_function')\n"
        "for _ in range(3):\n"
        "    getattr(torch.ones(1), 'no_such_method', None)\n"
        "def never_called():\n"
        "    return F.no_such_loss(torch.nn.Linear, torch.relu)\n",
        "--report",
    )
    lines = [line.split() for line in done.stderr.splitlines()]
    assert ["torch.no_such_function", "program.py:3"] in lines, done.stderr
    assert ["Tensor.no_such_method", "3", "x,", "program.py:5"] in lines
    assert ["torch.nn.functional.no_such_loss", "program.py:7"] in lines
    assert not any(line[:1] in (["torch.relu"], ["torch.nn.Linear"]) for line in lines)


def test_a_report_of_a_program_that_stops_at_an_import(tmp_path):
    done = run(tmp_path, "import torch.no_such_module\n", "--report")
    assert done.returncode == 1
    assert ["torch.no_such_module", "import"] in [line.split() for line in done.stderr.splitlines()]


def test_a_report_may_be_empty(tmp_path):
    done = run(tmp_path, "import torch\nprint(torch.ones(2).sum())\n", "--report")
    assert done.stdout == "tensor(2.)\n" and done.stderr.rstrip().endswith("none"), done.stderr


@pytest.mark.oracle
def test_an_installed_torch_stays_itself(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "plain.py").write_text("import torch, flambeau; print(torch.__spec__.name)\n")
    done = subprocess.run(
        [sys.executable, "plain.py"], env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "torch\n", done.stderr


ORDER = ["1.0", "1.9.1", "1.10", "1.13.0a2", "1.13", "2.0.0.dev3", "2.0", "2.0.1+cu118", "2.13.0"]


def test_versions_compare_by_numbers():
    for place, text in enumerate(ORDER):
        for other_place, other in enumerate(ORDER):
            assert (TorchVersion(text) < other) == (place < other_place)
            assert (TorchVersion(text) >= other) == (place >= other_place)
    assert TorchVersion("2.13.0+flambeau") > (2, 12) and TorchVersion("2.0") == "2.0.0"
    assert TorchVersion("parrot") != "1.0" and hash(TorchVersion("1.0")) == hash("1.0")
