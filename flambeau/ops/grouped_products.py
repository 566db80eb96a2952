"""grouped_mm: products of groups of rows or columns, each with a matrix of its own.

Groups of a two-dimensional operand are told apart by where each one ends (`offs`), as experts of a
mixture take their shares of the tokens.
"""

from itertools import pairwise

from flambeau import _dtype as d
from flambeau.ops.table import DType, OptionalTensor, composite, public


def _check(mat_a, mat_b, offs, bias, out_dtype):
    for name, t in (("mat_a", mat_a), ("mat_b", mat_b)):
        if t.ndim not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    for name, t in (("mat_a", mat_a), ("mat_b", mat_b)):
        if t.dtype not in (d.float32, d.bfloat16, d.float16):
            raise RuntimeError(
                f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got "
                f"{t.dtype.scalar_name}"
            )
    if (offs is None) != (mat_a.ndim == mat_b.ndim == 3):
        raise RuntimeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
        )
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if offs is None:
        if mat_a.shape[0] != mat_b.shape[0]:
            raise RuntimeError("batched dimension has to match")
    else:
        if offs.ndim != 1:
            raise RuntimeError("offs has to be 1D")
        if offs.dtype is not d.int32:
            raise RuntimeError("Offsets have to be int32")
        for t in (mat_a, mat_b):
            if t.ndim == 3 and t.shape[0] != offs.shape[0]:
                raise RuntimeError("matrix batch sizes have to match")
    if out_dtype is not None and out_dtype is not mat_a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")


def _groups(offs, size):
    """(start, end) of each group, within a dimension."""
    ends = [min(max(end, 0), size) for end in offs.tolist()]
    return [(start, max(start, end)) for start, end in pairwise([0, *ends])]


@composite(namespace="nn.functional", variants="", python=False)
def grouped_mm(
    mat_a,
    mat_b,
    *,
    offs: OptionalTensor = None,
    bias: OptionalTensor = None,
    out_dtype: DType = None,
):
    """Products of groups: rows of mat_a, columns of mat_b, or parts of the sums.

    Shape: (M, K) and (G, K, N) give (M, N), as do (G, M, K) and (K, N); (M, K) and (K, N) give
    (G, M, N); without offs (G, M, K) and (G, K, N) give (G, M, N). offs (G) holds the end of each
    group; what lies behind the last one gives zeros.
    """
    _check(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return mat_a.bmm(mat_b)
    if mat_a.ndim == mat_b.ndim:
        groups = _groups(offs, mat_a.shape[1])
        return public("stack")([mat_a[:, s:e].mm(mat_b[s:e]) for s, e in groups])
    dim = 0 if mat_a.ndim == 2 else 1
    total = mat_a.shape[0] if dim == 0 else mat_b.shape[1]
    groups = _groups(offs, total)
    if dim == 0:
        parts = [mat_a[s:e].mm(mat_b[k]) for k, (s, e) in enumerate(groups)]
    else:
        parts = [mat_a[k].mm(mat_b[:, s:e]) for k, (s, e) in enumerate(groups)]
    rest = total - sum(e - s for s, e in groups)
    if rest:
        shape = (rest, mat_b.shape[2]) if dim == 0 else (mat_a.shape[1], rest)
        parts.append(mat_a.new_zeros(shape))
    return public("cat")(parts, dim)
