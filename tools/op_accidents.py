"""Differences from PyTorch's op database that were looked at once and stay, with the reason.

`tools/op_database.py` counts them apart. Each row: patterns of the op, the dtype and the word.
"""

import re

JUDGED = []


def reason(name, dtype, word):
    """Why a difference stays; None where nobody has said."""
    for op, dtypes, words, text in JUDGED:
        if all(
            re.fullmatch(pattern, value)
            for pattern, value in ((op, name), (dtypes, dtype), (words, word))
        ):
            return text
    return None
