"""Models as object files, called by C programs."""

import shutil
import subprocess

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="there is no C compiler here")

MAIN = """
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
static {kind} x[NET_IN0_NUMBERS];
static float y[NET_OUT0_NUMBERS];
int main(void) {{
    FILE *f = fopen("x.bin", "rb");
    if (fread(x, sizeof x, 1, f) != 1) return 2;
    {weights}
    if (net(x, y) || net(x, y)) return 1;
    return fwrite(y, sizeof y, 1, fopen("y.bin", "wb")) != 1;
}}
"""
LOAD = """void *w = aligned_alloc(64, 1 << 24);
    if (!fread(w, 1, 1 << 24, fopen("net.o.weights", "rb"))) return 3;
    net_weights(w);"""
KINDS = {torch.float32: "float", torch.int64: "int64_t"}


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(50, 32), nn.Linear(32, 50)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")

    def forward(self, i):
        return self.head(self.layer(self.tokens(i)))


def convnet():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(8 * 13 * 13, 10),
    )  # fmt: skip


def perceptron():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10), nn.Softmax(-1))


def run_in_c(folder, model, x, weights="inside"):
    """(status of a C program, what it wrote)"""
    torch.compile_to_object(model.eval(), x, folder / "net.o", weights=weights)
    (folder / "x.bin").write_bytes(x.numpy().tobytes())
    load = LOAD if weights == "beside" else ""
    (folder / "main.c").write_text(MAIN.format(kind=KINDS[x.dtype], weights=load))
    subprocess.run([CC, "main.c", "net.o", "-o", "main"], cwd=folder, check=True)
    status = subprocess.run(["./main"], cwd=folder).returncode
    found = folder / "y.bin"
    return status, torch.from_numpy(np.fromfile(found, "f4")) if found.exists() else None


@needs_cc
@pytest.mark.parametrize("weights", ["inside", "beside"])
@pytest.mark.parametrize(
    ("make", "example"),
    [
        (perceptron, lambda: torch.randn(4, 16)),
        (convnet, lambda: torch.randn(2, 1, 28, 28)),
        (Encoder, lambda: torch.randint(50, (2, 9))),
    ],
)
def test_a_c_program_computes_the_same_bits(tmp_path, make, example, weights):
    torch.manual_seed(0)
    model, x = make(), example()
    status, found = run_in_c(tmp_path, model, x, weights)
    with torch.no_grad():
        expected = model(x)
    assert status == 0
    assert torch.equal(found.reshape(expected.shape), expected)


@needs_cc
def test_a_wrong_index_is_told_by_the_status(tmp_path):
    model, x = nn.Sequential(nn.Embedding(5, 3), nn.ReLU()), torch.tensor([1, 4])
    assert run_in_c(tmp_path, model, x)[0] == 0
    (tmp_path / "x.bin").write_bytes(np.array([1, 7]).tobytes())
    assert subprocess.run(["./main"], cwd=tmp_path).returncode == 1


@needs_cc
def test_a_shared_library(tmp_path):
    import ctypes

    model, x = perceptron().eval(), torch.randn(4, 16)
    header = torch.compile_to_object(model, x, tmp_path / "lib.so", name="net")
    assert "int net(const float *in0, float *out0);" in header.read_text()
    out = torch.empty(4, 10)
    library = ctypes.CDLL(str(tmp_path / "lib.so"))
    library.net(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()))
    assert torch.equal(out, model(x))


def test_the_header_says_how_to_call(tmp_path):
    header = torch.compile_to_object(perceptron().eval(), torch.randn(4, 16), tmp_path / "m.o")
    text = header.read_text()
    assert "/* in0: 4 x 16, torch.float32 */" in text
    assert "#define M_OUT0_NUMBERS 40" in text


@pytest.mark.parametrize(
    ("model", "options", "kind", "text"),
    [
        (nn.Dropout(), {}, RuntimeError, "draws random numbers"),
        (nn.Identity(), {"name": "1x"}, ValueError, "no name for a C function"),
        (nn.Identity(), {"weights": "under"}, ValueError, "'inside' or 'beside'"),
        (nn.Flatten(), {}, RuntimeError, "view of something else"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, model, options, kind, text):
    with pytest.raises(kind, match=text):
        torch.compile_to_object(model, torch.ones(2, 3, 4), tmp_path / "m.o", **options)
    assert not (tmp_path / "m.o").exists()
