"""The schedules of products: every mode, strides, epilogues, threads, and narrower vectors."""

import itertools
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen.descriptions import Product
from flambeau.eager import gemm
from flambeau.eager.gemm import multiply_into
from flambeau.eager.plans import Plans

# one shape per schedule and per kind of edge: direct, dots, columns, blocked; one row, one column
SHAPES = [
    (1, 100, 65),
    (2, 70, 130),
    (5, 33, 7),
    (16, 129, 40),
    (29, 60, 33),
    (33, 40, 1),
    (7, 0, 5),
]
LARGE = [(300, 800, 290), (257, 1000, 700)]


def forget_plans(monkeypatch):
    for name in ("PLANS", "SCHEDULES", "REGISTERS"):
        monkeypatch.setattr(gemm, name, Plans(getattr(gemm, name).make, by_default=False))


def laid_out(rng, rows, columns, order, dtype="float32"):
    """A matrix whose rows, columns or neither lie side by side."""
    if order == "rows":
        x = torch.from_numpy(rng.standard_normal((rows, columns)))
    elif order == "columns":
        x = torch.from_numpy(rng.standard_normal((columns, rows))).t()
    else:
        x = torch.from_numpy(rng.standard_normal((2 * rows, 3 * columns)))[::2, ::3]
    # a cast keeps the order of memory but not gaps: cut those anew
    y = x.to(getattr(torch, dtype))
    if order == "gaps":
        wide = torch.zeros(2 * rows, 3 * columns, dtype=y.dtype)
        wide[::2, ::3] = y
        y = wide[::2, ::3]
    return y


@pytest.mark.parametrize("mode", ["blocked", "rows"])
def test_a_result_that_is_added_to_itself_block_by_block(rng, monkeypatch, mode):
    forget_plans(monkeypatch)
    monkeypatch.setattr(gemm, "BLOCK", {4: 64, 8: 64})
    monkeypatch.setattr(gemm.schedules, "chosen", lambda *_: (gemm.MODES.index(mode), 1))
    for m, k, n in ((12, 300, 40), (16, 150, 70)):
        a, b, out = (torch.from_numpy(rng.standard_normal(s)) for s in ((m, k), (k, n), (m, n)))
        wanted = a.numpy() @ b.numpy() + 2 * out.numpy()
        multiply_into(out, a, b, addends=((out, 2),))
        assert np.allclose(out.numpy(), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64", "int32"])
def test_few_rows_and_columns_from_far(rng, monkeypatch, dtype):
    """As on processors whose last cache answers late: rows are packed, columns read once."""
    forget_plans(monkeypatch)
    monkeypatch.setattr(gemm, "near", lambda: 1 << 12)
    for m, k, n in ((5, 90, 70), (14, 64, 100), (16, 129, 40)):
        for order in ("rows", "columns"):
            a = laid_out(rng, m, k, order, "float32").mul(4).round().to(getattr(torch, dtype))
            b = laid_out(rng, k, n, "rows", "float32").mul(4).round().to(getattr(torch, dtype))
            wide = torch.complex128 if dtype == "complex64" else torch.float64
            exact = a.to(wide).numpy() @ b.to(wide).numpy()
            assert np.array_equal((a @ b).to(wide).numpy(), exact)
    assert any(schedule.key[0] == "rows" for schedule in gemm.SCHEDULES.values())


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
@pytest.mark.parametrize("m, k, n", SHAPES)
def test_any_strides(rng, m, k, n, dtype):
    wide, tolerance = ("complex128", 1e-5) if dtype == "complex64" else ("float64", 1e-5)
    tolerance = 1e-2 if dtype == "bfloat16" else tolerance
    for order in itertools.product(("rows", "columns", "gaps"), repeat=2):
        a, b = laid_out(rng, m, k, order[0], dtype), laid_out(rng, k, n, order[1], dtype)
        exact = a.to(getattr(torch, wide)).numpy() @ b.to(getattr(torch, wide)).numpy()
        found = (a @ b).to(getattr(torch, wide)).numpy()
        assert np.allclose(found, exact, tolerance, tolerance * 30), order


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("m, k, n", LARGE)
def test_packed_blocks(rng, monkeypatch, m, k, n, dtype):
    monkeypatch.setattr(gemm, "SMALL", 0)
    forget_plans(monkeypatch)
    for order in itertools.product(("rows", "columns", "gaps"), repeat=2):
        a, b = laid_out(rng, m, k, order[0], dtype), laid_out(rng, k, n, order[1], dtype)
        out = torch.empty(m, n, dtype=a.dtype)
        multiply_into(out, a, b)
        exact = a.double().numpy() @ b.double().numpy()
        tolerance = 1e-4 if dtype == "float32" else 3e-2
        assert np.allclose(out.double().numpy(), exact, tolerance, tolerance)


@pytest.mark.parametrize("small", [0, gemm.SMALL])
def test_what_is_added_and_applied_on_the_way(rng, monkeypatch, small):
    monkeypatch.setattr(gemm, "SMALL", small)
    forget_plans(monkeypatch)
    m, k, n = 45, 800, 70
    a, b = laid_out(rng, m, k, "rows"), laid_out(rng, k, n, "columns")
    bias, column = torch.randn(n), torch.randn(m, 1)
    residual, gaps = torch.randn(m, n), torch.randn(m, 2 * n)[:, ::2]
    product = a.double() @ b.double()
    for addends in ([], [(bias, 1)], [(column, 2)], [(residual, 0.5)], [(gaps, -1), (bias, 1)]):
        for alpha, name in ((1, ""), (0.25, ""), (0.1, "relu"), (0.1, "gelu"), (0.1, "gelu_tanh")):
            wanted = alpha * product
            for t, factor in addends:
                wanted = wanted + factor * t.double()
            if name == "relu":
                wanted = wanted.relu()
            elif name:
                tanh = {"gelu": "none", "gelu_tanh": "tanh"}[name]
                wanted = torch.nn.functional.gelu(wanted, approximate=tanh)
            out = torch.empty(m, n)
            multiply_into(out, a, b, alpha=alpha, addends=addends, activation=name)
            assert torch.allclose(out.double(), wanted, 1e-4, 1e-4), (name, alpha)


def test_results_of_any_strides(rng):
    a, b = laid_out(rng, 20, 30, "rows"), laid_out(rng, 30, 40, "rows")
    for out in (
        torch.empty(40, 20).t(),
        torch.empty(40, 80)[::2, ::2],
        torch.empty(20, 90)[:, 5:45],
    ):
        multiply_into(out, a, b)
        assert torch.allclose(out, a @ b, 1e-5, 1e-5)


def test_large_batches_and_very_wide_operands_go_piece_by_piece(rng, monkeypatch):
    monkeypatch.setattr(gemm, "SMALL", 0)
    monkeypatch.setattr(gemm, "HELD", 1 << 14)
    forget_plans(monkeypatch)
    a = torch.from_numpy(rng.standard_normal((3, 60, 90)))
    b = torch.from_numpy(rng.standard_normal((90, 500)))
    out = torch.empty(3, 60, 500, dtype=torch.float64)
    added = torch.from_numpy(rng.standard_normal((60, 1)))
    multiply_into(out, a, b, addends=[(added, 2)])
    assert np.allclose(out.numpy(), a.numpy() @ b.numpy() + 2 * added.numpy())


def test_rows_that_are_too_many_to_be_packed_for_all(rng):
    a = torch.from_numpy(rng.integers(-8, 9, (1500, 1000)).astype("float32"))
    b = torch.from_numpy(rng.integers(-8, 9, (1000, 250)).astype("float32"))
    for left in (a, a.t().contiguous().t()):
        assert np.array_equal((left @ b).numpy(), a.double().numpy() @ b.double().numpy())


def test_one_and_two_threads_give_the_same_bits(rng):
    shapes = ((130, 140, 150), (700, 800, 300), (1, 2000, 700), (16, 500, 900), (40, 70_000, 3))
    before = torch.get_num_threads()
    for m, k, n in shapes:
        for order in itertools.product(("rows", "columns"), repeat=2):
            a, b = laid_out(rng, m, k, order[0]), laid_out(rng, k, n, order[1])
            found = []
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                found.append(a @ b)
            torch.set_num_threads(before)
            assert all(torch.equal(found[0], other) for other in found[1:])


def test_several_callers_at_once(rng):
    a, b = laid_out(rng, 600, 700, "rows"), laid_out(rng, 700, 500, "columns")
    wanted, wrong = a @ b, []

    def work():
        for _ in range(5):
            if not torch.equal(a @ b, wanted):
                wrong.append(1)

    callers = [threading.Thread(target=work) for _ in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not wrong


_NARROW = """
import dataclasses
import numpy as np
from flambeau.codegen import llvm_cpu
host = llvm_cpu.host()
host.target = dataclasses.replace(host.target, vector_bytes={size})
import flambeau as torch
from flambeau.codegen.descriptions import Product
from flambeau.eager import gemm
from flambeau.eager.products import PRODUCTS
rng = np.random.default_rng(0)
for small in (gemm.SMALL, 0):
    gemm.SMALL = small
    gemm.PLANS.clear()
    PRODUCTS.clear()
    for m, k, n in ((1, 70, 33), (40, 50, 60), (33, 70, 5)):
        for dtype in ("float32", "float64", "complex64", "int16"):
            a, b = ((10 * rng.standard_normal(s)).astype(dtype) for s in ((m, k), (k, n)))
            x, y = torch.from_numpy(a), torch.from_numpy(b)
            for left, right in ((x, y), (x, y.t().contiguous().t()), (x.t().contiguous().t(), y)):
                assert np.allclose((left @ right).numpy(), a @ b, 1e-3, 1e-2), (m, k, n, dtype)
"""


@pytest.mark.parametrize("size", [32, 16])
def test_narrower_vectors(size):
    from flambeau.codegen.llvm_cpu import host

    if host().target.vector_bytes <= size:
        pytest.skip("the host is no wider")
    text = _NARROW.format(size=size)
    subprocess.run([sys.executable, "-c", text], check=True)


@pytest.mark.parametrize("size", [(128, 9216, 128), (100, 12000, 64)])
def test_few_results_of_many_products_are_shared_by_threads(monkeypatch, size):
    forget_plans(monkeypatch)
    m, k, n = size
    multiply_into(torch.empty(m, n), torch.ones(m, k), torch.ones(n, k).t())
    (plan,) = gemm.PLANS.values()
    words = Product(*struct.unpack_from(f"{len(Product._fields)}q", plan.desc))
    assert words.row_groups * words.column_groups >= 2
