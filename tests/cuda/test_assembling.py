"""Kernels of GPUs are PTX that LLVM writes and, where it is installed, ptxas assembles."""

import importlib
import os
import shutil
import subprocess
import sys

import pytest

from flambeau.codegen import llvm_gpu, target
from flambeau.codegen import scalar as m
from flambeau.codegen.descriptions_places import PaddedPiece, Piece
from flambeau.codegen.templates.rows import Part

NORM = "f32", "f32", "f32", True
ELEMENT = m.argument(0, "f32"), m.argument(1, "f32")
SUM = Part("x", (ELEMENT[0] + ELEMENT[1],), ("more0", "more1"), (), (), True)
HALF = Part("y", (ELEMENT[0] * m.cast(m.argument(1, "f64"), "f32"),), (), (0,), ("more2",), False)
HALF_AND_SUM = Part("dx", (ELEMENT[0] + ELEMENT[1],) * 2, ("more1",), (), ("more2", "more3"), False)
GRADIENT = Part("g", (ELEMENT[0],), ("more0",), (), (), False)
MORE = ("more0", "f32"), ("more1", "bf16"), ("more2", "bf16")

KERNELS = [
    ("chained", "scan", "cumsum", "f32", ("f32",)),
    ("chained", "scan", "cummax", "bf16", ("bf16", "i64")),
    ("chained", "scan", "logcumsumexp", "f64", ("f64",)),
    ("compaction", "nonzero", "bool"),
    ("compaction", "nonzero", "f32"),
    ("compaction", "select", 4),
    ("compaction", "numbers", True),
    ("embedding", "lookup", 2, "i32"),
    ("exact", "tops", "add", "f32", 1, "c", "c", False),
    ("indexing", "shared_walk", "add", "f32", 1, "c", "c", False),
    ("indexing", "shared_walk", "add", "f64", 2, "n", "n", True),
    ("joining", "join", Piece),
    ("joining", "join", PaddedPiece),
    ("padding", "pad", 32, "constant"),
    ("padding", "pad", 64, "circular"),
    ("small_products", "small", "bf16", False, 1, ""),
    ("small_products", "small", "f16", True, 1, "gelu_tanh"),
    ("radix", "pass", "i64", 16, None),
    ("rows_cross_entropy", "cross_entropy", "bf16", "i64", False, "none", "f32"),
    ("rows_cross_entropy", "cross_entropy_backward", "f16", "i64", False, "mean", "f32"),
    ("rows", "joined", "rows", "layer_norm", (*NORM, True), MORE, "f", SUM, HALF),
    (
        "rows", "joined", "rows", "layer_norm_backward", (*NORM, ("dx", "dw", "db")),
        (("more0", "bf16"), ("more1", "f32"), ("more2", "f32"), ("more3", "bf16")), "",
        GRADIENT, HALF_AND_SUM,
    ),
]  # fmt: skip


def assemble(ptx, architecture, folder):
    assert ".entry kernel" in ptx and ".extern" not in ptx
    if shutil.which("ptxas"):
        path = os.path.join(folder, "kernel.ptx")
        with open(path, "w") as file:
            file.write(ptx)
        command = ["ptxas", f"-arch={architecture}", path, "-o", os.devnull]
        found = subprocess.run(command, capture_output=True, text=True)
        assert not found.returncode, found.stderr


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k[0]}-{k[1]}-{k[2]}")
def test_kernels_assemble(kernel, tmp_path):
    file, name, *key = kernel
    module = importlib.import_module(f"flambeau.codegen.gpu.{file}")
    with target.building_for(llvm_gpu.ptx_target):
        text = getattr(module, f"build_{name}")(*key)
    assemble(llvm_gpu.ptx(text.partition(llvm_gpu.SPLIT)[0], "sm_90"), "sm_90", tmp_path)


def test_older_compilers_are_refused_by_name(monkeypatch):
    monkeypatch.setattr(llvm_gpu, "_machines", {})
    monkeypatch.setattr(llvm_gpu.llvm, "llvm_version_info", (20, 1, 8))
    with pytest.raises(ImportError, match=r"GPUs want llvmlite 0\.48 or newer"):
        llvm_gpu.ptx("", "sm_90")


ALL = """
import sys
from flambeau.codegen import dump
dump.seen = []
import flambeau as torch
import flambeau.nn.functional as F
from tests.cuda.test_assembling import assemble
from tests.runtime import test_third_device as sample
for expression in (*sample.expressions(sample.CASES), *sample.expressions(sample.MODULES)):
    try:
        eval(expression, sample.names_on("cuda"))
    except Exception:
        pass  # others ask for results
done = set()
for kernel in dump.seen:
    if "ptx" in (kernel.gpu or {}):
        text = kernel.gpu["ptx"]()
        if text not in done and ".entry" in text:
            done.add(text)
            assemble(text, "sm_90", sys.argv[1])
assert len(done) > 150, len(done)
print(len(done), "kernels")
"""


@pytest.mark.slow
def test_kernels_of_a_sample_assemble(tmp_path):
    environment = {**os.environ, "FLAMBEAU_CUDA": "emulated", "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", ALL, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert not found.returncode, found.stderr[-3000:]
