"""Products of half types: pairs of bfloat16 where the host multiplies them, widened elsewhere.

Small integers make sums exact in float32, so the product must be the exact one, rounded once.
"""

import itertools
import subprocess
import sys

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen.templates import squares, tiles
from flambeau.eager import gemm
from flambeau.eager.gemm import multiply_into
from flambeau.eager.plans import Plans, forget_cuts
from flambeau.runtime.processor import matrices_allowed

ORDERS = ("rows", "columns", "gaps")
# odd and even k, around a vector of pairs and around a block; few rows, few columns, cut tiles
SIZES = [(1, 1, 1), (3, 2, 40), (14, 31, 33), (15, 33, 5), (29, 64, 65), (40, 101, 96)]
MODES = [("direct", 3), ("columns", 2), ("panels", 2), ("blocked", 2), ("panels", 3)]


def integers(rng, rows, columns, order, dtype):
    """Small integers in a matrix whose rows, columns or neither lie side by side."""
    values = torch.from_numpy(rng.integers(-8, 9, (rows, columns)).astype("float32")).to(dtype)
    if order == "rows":
        return values
    if order == "columns":
        return values.t().contiguous().t()
    wide = torch.full((2 * rows, 3 * columns), float("nan"), dtype=dtype)
    wide[::2, ::3] = values
    return wide[::2, ::3]


def exact(a, b):
    """The product, rounded once."""
    return torch.from_numpy(a.double().numpy() @ b.double().numpy()).to(a.dtype)


def forget_plans(monkeypatch):
    for name in ("PLANS", "SCHEDULES", "REGISTERS"):
        monkeypatch.setattr(gemm, name, Plans(getattr(gemm, name).make, by_default=False))


def check_all_strides(rng, m, k, n, dtype=torch.bfloat16, only=ORDERS):
    for left, right in itertools.product(only, ORDERS):
        a, b = integers(rng, m, k, left, dtype), integers(rng, k, n, right, dtype)
        out = torch.empty(m, n, dtype=dtype)
        multiply_into(out, a, b)
        assert torch.equal(out, exact(a, b)), (left, right)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_exact(rng, monkeypatch, mode):
    forget_plans(monkeypatch)
    number, vectors = gemm.MODES.index(mode[0]), mode[1]
    monkeypatch.setattr(gemm.schedules, "chosen", lambda *_: (number, vectors))
    monkeypatch.setattr(gemm, "BLOCK", {2: 32, 4: 32, 8: 32})  # several blocks of k
    only = ("rows",) if mode[0] == "columns" else ORDERS  # a strided A has its k side by side
    for m, k, n in SIZES:
        if mode[0] == "direct":
            a, b = (integers(rng, *s, "rows", torch.bfloat16) for s in ((m, k), (k, n)))
            out = torch.empty(m, n, dtype=torch.bfloat16)
            assert torch.equal(multiply_into(out, a, b), exact(a, b))
        else:
            check_all_strides(rng, m, k, n, only=only)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("m, k, n", [*SIZES, (5, 0, 4), (2, 1001, 3), (150, 130, 170)])
def test_what_is_chosen_is_exact(rng, m, k, n, dtype):
    check_all_strides(rng, m, k, n, dtype)


def test_dot_products_of_all_lengths(rng):
    for k in (31, 32, 33, 63, 64, 65, 200, 513):
        a, b = (integers(rng, rows, k, "rows", torch.bfloat16) for rows in (7, 6))
        assert torch.equal(a @ b.t(), exact(a, b.t()))


def test_hosts_without_pairs_widen(rng, monkeypatch):
    forget_plans(monkeypatch)
    monkeypatch.setattr(tiles, "pairs", lambda code: False)
    for m, k, n in SIZES[2:]:
        check_all_strides(rng, m, k, n)
    monkeypatch.setattr(gemm, "SMALL", 0)
    forget_plans(monkeypatch)
    check_all_strides(rng, 40, 101, 96)


@pytest.fixture
def in_squares(monkeypatch):
    """As on a host with matrix registers, which plain code stands in for where there are none."""
    if tiles.lanes("bf16") != squares.SIDE:
        pytest.skip("matrix registers come with vectors of 64 bytes")
    if squares.available() and not matrices_allowed():
        pytest.skip("the processor has matrix registers, but the system does not give them")
    forget_plans(monkeypatch)
    found = gemm.REGISTERS[torch.bfloat16]
    with_squares = found._replace(host=(found.host[0], 2, *found.host[2:]))
    forget_cuts()  # plans of operations, too
    registers = Plans(gemm.REGISTERS.make, by_default=False, cuts=False)
    registers[torch.bfloat16] = with_squares
    monkeypatch.setattr(gemm, "REGISTERS", registers)
    yield
    forget_cuts()


@pytest.mark.parametrize("mode", ["panels", "blocked"])
def test_matrix_registers(rng, monkeypatch, in_squares, mode):
    number = gemm.MODES.index(mode)
    monkeypatch.setattr(gemm.schedules, "chosen", lambda *_: (number, 2))
    for block in (1024, 32):  # and several blocks of k
        monkeypatch.setattr(gemm, "BLOCK", {2: block})
        for m, k, n in (*SIZES, (70, 150, 40)):
            check_all_strides(rng, m, k, n)


@pytest.mark.parametrize("block", [1024, 64])
def test_matrix_registers_load_rows_as_they_lie(rng, monkeypatch, in_squares, block):
    monkeypatch.setattr(gemm, "BLOCK", {2: block})
    for m, k, n in ((32, 64, 40), (96, 160, 70), (320, 96, 256)):
        wide = integers(rng, m, k + 64, "rows", torch.bfloat16)
        b = integers(rng, k, n, "rows", torch.bfloat16)
        for a in (wide[:, :k], wide[:, :k].contiguous()):
            found = gemm.multiply_into(torch.empty(m, n, dtype=torch.bfloat16), a, b)
            assert torch.equal(found, (a.double() @ b.double()).bfloat16())
    assert any(schedule.key[0] == "straight" for schedule in gemm.SCHEDULES.values())


def test_matrix_registers_where_they_pay(rng, in_squares):
    for m, k, n in ((8, 32, 16), (64, 64, 64), (33, 100, 70)):
        check_all_strides(rng, m, k, n)
    assert any("square" in schedule.key for schedule in gemm.SCHEDULES.values())
    test_padding_meets_no_infinity(rng)
    test_sums_are_of_float32(rng)
    test_what_is_added_on_the_way(rng)
    test_one_and_two_threads_give_the_same_bits(rng)
    a = torch.from_numpy(rng.integers(-8, 9, (5, 40, 64)).astype("float32")).bfloat16()
    wanted = a.double() @ a.double().transpose(1, 2)
    assert torch.equal(a @ a.transpose(1, 2), wanted.bfloat16())


def test_padding_meets_no_infinity(rng):
    for m, k, n in ((6, 7, 40), (40, 33, 64), (64, 65, 70)):
        for left, right in itertools.product(ORDERS, repeat=2):
            a = integers(rng, m, k, left, torch.bfloat16)
            b = integers(rng, k, n, right, torch.bfloat16)
            a[0, k - 1], b[k - 1, 1] = float("inf"), float("nan")
            b[k - 1, 0] = 2
            found = a @ b
            assert found[0, 0] == float("inf") and found[:, 1].isnan().all()
            assert found[1:, 2:].isfinite().all()


def test_sums_are_of_float32(rng):
    a = torch.ones(40, 4096, dtype=torch.bfloat16)
    assert torch.equal(a @ a.t(), torch.full((40, 40), 4096, dtype=torch.bfloat16))
    small = torch.full((40, 1000), 2.0**-9, dtype=torch.bfloat16)
    small[:, 0] = 1
    wanted = 1 + 999 * 2.0**-9
    assert torch.equal(small @ a[:, :1000].t(), torch.full((40, 40), wanted).bfloat16())


def test_what_is_added_on_the_way(rng):
    a = integers(rng, 40, 65, "rows", torch.bfloat16)
    b = integers(rng, 65, 50, "columns", torch.bfloat16)
    bias = integers(rng, 1, 50, "rows", torch.bfloat16)
    wanted = 0.5 * (a.double() @ b.double()) + 2 * bias.double()
    for activation in ("", "relu", "tanh"):
        out = torch.empty(40, 50, dtype=torch.bfloat16)
        multiply_into(out, a, b, alpha=0.5, addends=[(bias, 2)], activation=activation)
        expected = getattr(wanted, activation)() if activation else wanted
        assert torch.allclose(out.double(), expected.bfloat16().double(), 1e-2, 1e-2)


def test_one_and_two_threads_give_the_same_bits(rng):
    before = torch.get_num_threads()
    for m, k, n in ((130, 141, 150), (500, 801, 300), (16, 1500, 900), (300, 2100, 200)):
        for left, right in itertools.product(("rows", "columns"), repeat=2):
            a, b = (
                torch.from_numpy(rng.standard_normal(s if o == "rows" else s[::-1])).bfloat16()
                for s, o in (((m, k), left), ((k, n), right))
            )
            a, b = a if left == "rows" else a.t(), b if right == "rows" else b.t()
            found = []
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                found.append(a @ b)
            torch.set_num_threads(before)
            assert all(torch.equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_batches_and_gradients(rng, dtype):
    for count, m, k, n in ((5, 20, 33, 48), (40, 17, 16, 18), (3, 100, 91, 80)):
        a = integers(rng, count * m, k, "rows", dtype).view(count, m, k)
        b = integers(rng, count * k, n, "rows", dtype).view(count, k, n)
        a, b = a.requires_grad_(), b.requires_grad_()
        found = a @ b
        g = integers(rng, count * m, n, "rows", dtype).view(count, m, n)
        found.backward(g)
        x, y = a.detach(), b.detach()
        for mine, left, right in ((found, x, y), (a.grad, g, y.mT), (b.grad, x.mT, g)):
            assert torch.equal(mine.detach(), exact(left, right))


@pytest.mark.oracle
def test_values_are_those_of_pytorch(rng):
    oracle = pytest.importorskip("torch")
    for m, k, n in ((64, 64, 64), (100, 301, 77), (16, 1024, 200), (1, 500, 300), (300, 300, 1)):
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        theirs = (oracle.tensor(a).bfloat16() @ oracle.tensor(b).bfloat16()).double().numpy()
        found = (torch.tensor(a).bfloat16() @ torch.tensor(b).bfloat16()).double().numpy()
        scale = np.abs(theirs).max()
        assert np.abs(found - theirs).max() <= scale * 2.0**-8  # one last place
        assert (found == theirs).mean() > 0.98


_NARROW = """
import dataclasses
import numpy as np
from flambeau.codegen import llvm_cpu
host = llvm_cpu.host()
host.target = dataclasses.replace(host.target, vector_bytes={size})
import flambeau as torch
from flambeau.eager import gemm
from flambeau.eager.products import PRODUCTS
rng = np.random.default_rng(0)
for small in (gemm.SMALL, 0):
    gemm.SMALL = gemm.FEW_PANELS = gemm.FEW = small
    gemm.PLANS.clear()
    PRODUCTS.clear()
    for m, k, n in ((1, 71, 33), (40, 51, 60), (33, 71, 5)):
        a, b = (rng.integers(-8, 9, s).astype("float32") for s in ((m, k), (k, n)))
        x, y = torch.from_numpy(a).bfloat16(), torch.from_numpy(b).bfloat16()
        wanted = torch.from_numpy(a @ b).bfloat16()
        for left, right in ((x, y), (x, y.t().contiguous().t()), (x.t().contiguous().t(), y)):
            assert torch.equal(left @ right, wanted), (m, k, n)
"""


@pytest.mark.parametrize("size", [32, 16])
def test_narrower_vectors(size):
    from flambeau.codegen.llvm_cpu import host

    if host().target.vector_bytes <= size:
        pytest.skip("the host is no wider")
    text = _NARROW.format(size=size)
    subprocess.run([sys.executable, "-c", text], check=True)
