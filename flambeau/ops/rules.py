"""dtype rules: from the operands' dtypes to the dtype a kernel computes with and the dtype of the
result.

A rule gets (dtype, weight) pairs (weight 2: tensor with dimensions, 1: 0-d tensor, 0: Python
number; see _dtype.result_dtype) and returns (compute, result). Half types compute in float32 inside
kernels anyway.
"""

from flambeau import _dtype as d
from flambeau._dtype import result_dtype


def weighted(operands):
    """Layouts and Python number types as the (dtype, weight) pairs that rules want."""
    return [
        (d.scalar_dtype(o), 0) if isinstance(o, type) else (o.dtype, 2 if o.ndim else 1)
        for o in operands
    ]


def promoted(operands):
    """The common dtype of all operands."""
    common = result_dtype(operands)
    return common, common


def same(operands):
    """The dtype of the first operand."""
    return operands[0][0], operands[0][0]


def floating(operands):
    """The common dtype; integers and booleans become the default float."""
    common = result_dtype(operands)
    if common.category < d.FLOATING:
        common = d.default_dtype()
    return common, common


def boolean(operands):
    """Compared in the common dtype; the result is bool."""
    return result_dtype(operands), d.bool_


def real_boolean(operands):
    """A test of each element: computed in its own dtype, the result is bool."""
    return operands[0][0], d.bool_


def magnitude(operands):
    """Like promoted, but complex operands give their real dtype."""
    common = result_dtype(operands)
    return common, common.to_real()


def floating_magnitude(operands):
    """Like floating, but complex operands give their real dtype."""
    common, _ = floating(operands)
    return common, common.to_real()


def integral(operands):
    """The common dtype, which must be an integer or bool."""
    return promoted(operands)


def accumulating(operands):
    """The first dtype; integers widen to int64, so that sums do not overflow."""
    first = operands[0][0]
    wide = d.int64 if first.category < d.FLOATING else first
    return wide, wide
