"""Differences from PyTorch's op database that were looked at once and stay, with the reason.

`tools/op_database.py` counts them apart. Each row: patterns of the op, the dtype and the word.
"""

import re

JUDGED = [
    (
        "as_strided_scatter", ".*", "gradient",
        "PyTorch's gradient of the input fails its own gradcheck: what was overwritten counts",
    ),
    (
        r"special\.bessel_[jy][01]", "float64", "values",
        "PyTorch is off by 1e-7 between 5 and 6; ours agrees with mpmath",
    ),
    (
        "native_group_norm", ".*", "gradient",
        "mean and rstd have no gradient here; PyTorch's do if both are used",
    ),
    ("matrix_exp", "float32", "values", "one element in 125 is off by four units of rounding"),
    ("_softmax_backward_data", "bfloat16", "values", "PyTorch rounds the sum of a row to bfloat16"),
]  # fmt: skip


def reason(name, dtype, word):
    """Why a difference stays; None where nobody has said."""
    for op, dtypes, words, text in JUDGED:
        if all(
            re.fullmatch(pattern, value)
            for pattern, value in ((op, name), (dtypes, dtype), (words, word))
        ):
            return text
    return None
