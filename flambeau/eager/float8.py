"""Products of float8 matrices, by widening them."""

from flambeau import _dtype as d
from flambeau.ops.table import public

_BAD_SCALES = (
    "Invalid scaling configuration.\n"
    "- For TensorWise scaling, a and b should be float8, scales should be float and singletons.\n"
    "- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be "
    "({m}, 1) and scale_b should be (1, {n}), and both should be contiguous.\n"
    "Got mat_a.dtype()={a}, scale_a.size()={sa}, mat_b.dtype()={b}, scale_b.size()={sb}."
)


def _is_float8(t):
    return t.dtype.name in d.FLOAT8


def _check(a, b, scale_a, scale_b):
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"mat_{'a' if a.ndim != 2 else 'b'} must be a matrix")
    if a.shape[1] != b.shape[0]:
        (m, k), (l, n) = a.shape, b.shape
        raise RuntimeError(f"mat_a and mat_b shapes cannot be multiplied ({m}x{k} and {l}x{n})")
    (m, _), (_, n) = a.shape, b.shape
    floats = scale_a.dtype is d.float32 and scale_b.dtype is d.float32
    whole = scale_a.numel() == 1 and scale_b.numel() == 1
    by_rows = scale_a.shape == (m, 1) and scale_b.shape == (1, n)
    if not (_is_float8(a) and _is_float8(b) and floats and (whole or by_rows)):
        raise ValueError(
            _BAD_SCALES.format(
                m=m, n=n, a=a.dtype.scalar_name, b=b.dtype.scalar_name,
                sa=list(scale_a.shape), sb=list(scale_b.shape),
            )
        )  # fmt: skip


def _scaled_mm(
    self, mat2, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None,
    use_fast_accum=False, *, out=None,
):  # fmt: skip
    """(scale_a self) (scale_b mat2) + bias, of two matrices of float8.

    Args:
        scale_a, scale_b: one number each, or one per row of self and per column of mat2.
        out_dtype: that of self if it is not given.
    """
    _check(self, mat2, scale_a, scale_b)
    wide = public("mm")(self.to(d.float32), mat2.to(d.float32))
    wide = wide * (scale_a * scale_b)
    if bias is not None:
        wide = wide + bias.to(d.float32)
    if scale_result is not None and out_dtype is not None and out_dtype.name in d.FLOAT8:
        wide = wide * scale_result
    found = wide.to(self.dtype if out_dtype is None else out_dtype)
    return found if out is None else out.copy_(found)
