"""FLAMBEAU_CHECK finds launches that leave the memory of their operands."""

import os
import pathlib
import subprocess
import sys

import pytest

from flambeau import config
from flambeau.codegen.descriptions import Walk
from flambeau.eager import checking
from flambeau.runtime.allocator import Allocator
from flambeau.runtime.cpu import packed, read_bytes, write_bytes
from flambeau.runtime.guards import GUARD, PATTERN, Guards

ROOT = pathlib.Path(__file__).parents[2]
START = """
import flambeau as torch
from flambeau._layout import make_layout
from flambeau._tensor import make_tensor
from flambeau.eager import kernels
from flambeau.eager.checking import LaunchError
x, y = torch.ones(4), torch.ones(4, 6)

def wide(t, sizes, strides, offset=0):
    return make_tensor(make_layout(sizes, strides, t.dtype, t.device), t._storage, offset)

def refused(act):
    try:
        act()
    except LaunchError as error:
        print(error)
"""


def run(script, level=1):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FLAMBEAU_CHECK": str(level)}
    return subprocess.run(
        [sys.executable, "-c", START + script],
        env=environment, text=True, capture_output=True, timeout=180,
    )  # fmt: skip


BAD = {
    # tensors that reach out of their storage
    "wide(x, (9,), (1,)) + 1": "reaches from byte 0 to 36 of a storage of 16 bytes",
    "wide(x, (4,), (1,), 4).sum()": "reaches from byte 4 to 20",
    "wide(x, (4,), (1,), -8).exp()": "reaches from byte -8",
    "wide(x, (2, 2), (9, 1)) @ y[:2, :2]": "of a storage of 16 bytes",
    # words of a launch that do not fit their operands
    "add(packed(words(9, 4)), *places, 1)": "operand 0 reaches from byte 0 to 36 of a block of 16",
    "add(packed(words(4, 12)), *places, 1)": "operand 0 reaches from byte 0 to 40",
    "add(packed(words(4, -4)), *places, 1)": "reaches from byte -12",
    "add(packed([0, 99, 4, 4, 4]), *places, 1, 5)": "operand 0 reaches from byte 0 to 20",
    # kernels that write around their blocks
    "write_bytes(x.data_ptr() + 16, b'a'); add(good, *places, 1)": "written 0 bytes behind a block",
    "write_bytes(x.data_ptr() - 3, b'a'); add(good, *places, 1)": "written 3 bytes before a block",
    "z = torch.ones(5); write_bytes(z.data_ptr() + 27, b'a'); del z; x + 1": "written 7 bytes",
}
LAUNCH = """
from flambeau.runtime.cpu import packed, write_bytes
x + x
found = [v for v in kernels.device("cpu").runtime.kernels.values() if type(v) is tuple]
add = [k for k, _ in found if k.__name__ == "add"][-1]
places = [x.data_ptr()] * 3
words = lambda n, step: [1, 1, n, 1, 1, n, step, step, step]
good = packed(words(4, 4))
def act():
    {}
refused(act)
"""


@pytest.mark.parametrize("statement", BAD)
def test_bad_launches_are_refused(statement):
    done = run(LAUNCH.format(statement))
    assert done.returncode == 0, done.stderr
    assert BAD[statement] in done.stdout


GOOD = """
print(((x * 3 + 1) / 2).sum().item(), (y.t() @ y)[1:, ::2].softmax(0).shape, y.sort()[0].shape)
layer = torch.nn.Conv2d(3, 4, 3)
layer(torch.randn(2, 3, 8, 8)).relu().sum().backward()
print(torch.nn.LSTM(4, 5)(torch.randn(3, 2, 4))[0].shape, layer.weight.grad.shape)
print(torch.empty(0).sum(), y[:0].mean(1).shape, torch.from_numpy(y.numpy()).sum())
"""


@pytest.mark.parametrize("level", [1, 2])
def test_good_launches_are_not(level):
    done = run(GOOD, level)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 3 and not done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="how a process is stopped")
def test_fences_stop_reading_too_far():
    for place in ("x.data_ptr() + 16", "x.data_ptr() - 4096"):
        done = run(f"from flambeau.runtime.cpu import read_bytes\nread_bytes({place}, 1)", 2)
        assert done.returncode < 0


def test_the_switch_is_off_by_default(monkeypatch):
    monkeypatch.delenv("FLAMBEAU_CHECK", raising=False)
    assert config.check_level() == 0
    for value, level in (("1", 1), ("2", 2), ("", 0), ("yes", 0)):
        monkeypatch.setenv("FLAMBEAU_CHECK", value)
        assert config.check_level() == level


def test_guards_around_blocks():
    guards = Guards(Allocator())
    pool = guards.pool_for(100)
    address = pool.pop()
    assert read_bytes(address - GUARD, 100 + 2 * GUARD) == bytes([PATTERN]) * (100 + 2 * GUARD)
    assert guards.block_of(address + 100) == (address, 100) == guards.block_of(address)
    assert guards.block_of(address + 101) is None and guards.block_of(address - 1) is None
    write_bytes(address, bytes(100))
    assert not guards.hurt(address)
    write_bytes(address + 100, b"x")
    assert guards.hurt(address) == "written 0 bytes behind a block of 100 bytes"
    pool.give(address)
    assert guards.damage and not guards.live and guards.block_of(address) is None


FILES = """
ops/test_claims.py ops/test_reductions.py ops/test_recurrence.py ops/test_indexing.py
ops/test_sorting.py ops/test_scans.py ops/test_pooling.py ops/test_padding.py ops/test_folding.py
ops/test_convolution.py ops/test_products.py ops/test_attention.py ops/test_normalization.py
ops/test_softmax.py ops/test_ctc.py ops/test_fourier.py ops/test_cross_entropy.py
ops/test_counting.py ops/test_embedding.py linalg/test_values.py
"""


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES.split())
def test_tests_pass_under_the_switch(file):
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FLAMBEAU_CHECK": "1"}
    done = subprocess.run(
        [*command, "-p", "no:xdist", str(ROOT / "tests" / file)],
        env=environment, text=True, capture_output=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


class Nest:
    outputs, inputs, rank = (("f32", "c"),), (("f64", "n"), ("i8", "s")), 1


def test_what_a_nest_reaches():
    words = packed([*Walk(1, 1, 5, 1, 3, 5), 3, 4, 20, -8, 100, 0, 0])
    assert checking.reaches(Nest, words, ()) == [(0, 60), (-32, 208), (0, 1)]
    run = packed([0, 64, 4, 8, 0])
    assert checking.reaches(Nest, run, (1, 2, 3, 7)) == [(0, 28), (0, 56), (0, 1)]
    assert checking.reaches(Nest, packed([0]), (1, 2, 3)) == [(0, 0)] * 3
