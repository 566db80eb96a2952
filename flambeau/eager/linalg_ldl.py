"""Launchers of the symmetric indefinite factoring: ldl_factor_ex and ldl_solve.

One kernel call for a whole batch (codegen/templates/ldl.py). Rows are in ops/linalg_ldl.py.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import Size, broadcast_shape
from flambeau._tensor import empty_tensor
from flambeau.eager.copying import fill_into
from flambeau.eager.linalg_factors import (
    columns_of,
    is_real_work,
    launch,
    launches_unrecorded,
    library_for,
    pointer,
)
from flambeau.eager.rows import contiguous
from flambeau.ops import linalg_checks as check

FEW = 16  # rows of matrices that are left to a thread each, even where there is a library


def _named(stem, dtype, hermitian):
    return stem + "_hermitian" if hermitian and dtype.is_complex else stem


@launches_unrecorded("linalg_ldl_factor_ex")
def ldl_factor_ex(input, hermitian, check_errors, name):
    check.square(input, "torch.linalg.ldl_factor_ex")
    check.floating(input, "torch.linalg.ldl_factor_ex")
    check.has_kernel(input, "ldl_factor_kernel_cpu")
    *batch, n, _ = input.shape
    found = columns_of(input)
    pivots = empty_tensor(Size((*batch, n)), d.int32, input.device)
    info = empty_tensor(Size(batch), d.int32, input.device)
    if is_real_work(info):
        fill_into(info, 0)
    own = library_for(found) if is_real_work(found) else None
    if own is not None and n > FEW and not (hermitian and input.dtype.is_complex):
        own.ldl(found, pivots, info)
    elif is_real_work(found):
        launch(
            _named("ldl", input.dtype, hermitian), input, info._layout.numel,
            n * n * n // 3, [n, n, n * n], pointer(found), pointer(pivots), pointer(info),
        )  # fmt: skip
    if check_errors:
        failure = check.first_failure(info)
        if failure is not None:
            raise RuntimeError(
                "false INTERNAL ASSERT FAILED, please report a bug to PyTorch. "
                f"{name}: Unknown error code: {failure[1]}."
            )
    return found, pivots, info


_WRONG_PIVOTS = {
    1: "Pivots given to ldl_solve must all satisfy |pivot| >= 1",
    2: "Pivots given to ldl_solve must all satisfy |pivot| <= LD.size(-2)",
    3: "Pivots given to ldl_solve end within a block of two rows",
}


def _wrong_pivots(kind):
    return RuntimeError(f"{_WRONG_PIVOTS[kind]}. Did you properly pass the result of ldl_factor?")


@launches_unrecorded("linalg_ldl_solve")
def ldl_solve(LD, pivots, B, hermitian):
    check.floating(LD, "torch.linalg.ldl_solve")
    check.square(LD, "torch.linalg.ldl_solve")
    if B.ndim < 2 and B.dtype is LD.dtype:  # else that is what is complained about
        raise errors.dimension_out_of_range(-2, B.ndim)
    check.legacy_pair(B, LD, "torch.linalg.ldl_solve")
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but "
            f"got pivots with shape {list(pivots.shape)} instead"
        )
    if pivots.dtype.category != 1:
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected pivots to be integers. Got "
            f"{pivots.dtype.scalar_name}"
        )
    check.has_kernel(LD, "ldl_solve_kernel_cpu")
    batch = broadcast_shape(B.shape[:-2], LD.shape[:-2])
    n, columns = B.shape[-2:]
    factors, found = columns_of(LD, batch), columns_of(B, batch)
    places = contiguous(pivots.to(d.int32).expand(*batch, n))
    unread = LD.device.runtime.computes and not columns and pivots.numel()
    if unread and bool((pivots.abs() > n).any()):
        raise _wrong_pivots(2)
    if not is_real_work(found):
        return found
    own = library_for(found)
    if own is not None and n > FEW and not (hermitian and LD.dtype.is_complex):
        for kind, wrong in ((1, pivots == 0), (2, pivots.abs() > n)):
            if wrong.any().item():  # a library would follow them anywhere
                raise _wrong_pivots(kind)
        own.ldl_solve(factors, places, found)
        return found
    failed = launch(
        _named("ldl_solve", LD.dtype, hermitian), LD, found._layout.numel // n, n * n,
        [n, columns, n, n * n, n, n * columns], pointer(factors), pointer(found), pointer(places),
    )  # fmt: skip
    if failed:
        raise _wrong_pivots(failed)
    return found
