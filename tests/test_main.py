"""`python -m flambeau`: scripts that say torch, explanations, facts."""

import os
import pathlib
import subprocess
import sys

import pytest

from flambeau import __main__ as main

ROOT = pathlib.Path(__file__).parents[1]

SCRIPT = """
import sys
import torch
import torch.autograd as autograd
from torch.utils.dlpack import from_dlpack
import flambeau

assert torch is flambeau and autograd is flambeau.autograd
assert sys.modules["torch.autograd"] is flambeau.autograd
assert autograd.__name__ == autograd.__spec__.name == "flambeau.autograd"
try:
    import torch.no_such_module
except ModuleNotFoundError as error:
    assert "torch.no_such_module" in str(error)
print(__name__, sys.argv[1:], torch.ones(2).sum().item())
"""


def python(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "flambeau", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120,
        **options,
    )  # fmt: skip


def test_a_script_gets_flambeau_for_torch(tmp_path):
    (tmp_path / "neighbour.py").write_text("x = 3\n")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "import neighbour\n")
    done = python(str(script), "a", "--b")
    assert done.stdout == "__main__ ['a', '--b'] 2.0\n", done.stderr


def test_a_module_and_a_piece_of_code_do_too(tmp_path):
    (tmp_path / "program.py").write_text(SCRIPT)
    done = python("-m", "program", "c", cwd=tmp_path)
    assert done.stdout == "__main__ ['c'] 2.0\n", done.stderr
    done = python("-c", "import torch, sys; print(torch.__name__, torch.__spec__.name)", "d")
    assert done.stdout == "torch flambeau\n", done.stderr


def test_the_exit_status_is_the_scripts(tmp_path):
    (tmp_path / "fails.py").write_text("import sys; sys.exit(7)\n")
    assert python(str(tmp_path / "fails.py")).returncode == 7


def test_without_arguments_help_is_printed(capsys):
    main.main([])
    out = capsys.readouterr().out
    assert out.startswith("flambeau ") and "explain" in out and "info" in out


def test_info_says_where_kernels_are_kept(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "kernel").write_bytes(bytes(100_000))
    main.main(["info"])
    out = capsys.readouterr().out
    assert str(tmp_path) in out and "1 kernels, 0.1 MB" in out
    assert all(word in out for word in ("llvmlite", "numpy", "vectors", "threads", "features"))


def test_an_expression_is_explained():
    # a process of its own: kernels that are loaded already are not loaded again
    out = python("explain", "(arange(5.) * 3).expm1()", "--stage", "row", "--stage", "nest").stdout
    assert "=== expm1" in out and "def expm1(input)" in out and "--- nest" in out
    assert "=== mul" not in out and "--- llvm" not in out


def test_kernels_of_gpus_are_explained(monkeypatch):
    monkeypatch.setenv("FLAMBEAU_CUDA", "emulated")
    out = python("explain", "ones(99, device='cuda').sinh()").stdout
    for word in (
        "--- scalar",
        ".visible .entry kernel",
        "way: a kernel of its own",
        "GB/s",
        "us, ",
    ):
        assert word in out, word
    stage = "--stage", "device"
    out = python("explain", "kthvalue(ones(9, 3, device='cuda'), 1, 0)", *stage, "--all").stdout
    assert "way: " in out


def test_every_stage_is_explained():
    done = python("explain", "cosh(arange(5.))")
    for stage in ("row", "scalar", "nest", "llvm", "passes", "assembly"):
        assert f"\n--- {stage}\n" in done.stdout, done.stderr


def test_kernels_are_listed():
    done = python("explain", "--list", "[arange(3.).sinh() for _ in range(2)]")
    assert done.stdout.split()[-1] == "sinh", done.stderr


def test_an_expression_may_need_no_kernel(capsys):
    main.main(["explain", "empty(3).shape"])
    assert capsys.readouterr().out == "no kernel was needed\n"


def test_a_wrong_stage_is_refused(capsys):
    with pytest.raises(SystemExit):
        main.main(["explain", "ones(2)", "--stage", "nothing"])
    assert "invalid choice" in capsys.readouterr().err
