"""Small windows in contiguous rows on a GPU, by the names of templates/pooling_rows.py.

Neighbouring threads take neighbouring windows; see pooling.py.
"""

from flambeau.codegen.gpu import pooling


def build_largest_rows(code, taps, stride, index):
    """Both texts of the largest elements."""
    return pooling.largest(code, index, "plain", False, (taps, stride))


def build_largest_rows_backward(code, taps, stride, index):
    """Both texts of the way back."""
    return pooling.largest_backward(code, index, "plain", False, (taps, stride))


def build_mean_rows(code, taps, stride):
    """Both texts of means."""
    return pooling.mean(code, "plain", False, (taps, stride))


def build_mean_rows_backward(code, taps, stride):
    """Both texts of the way back."""
    return pooling.mean_backward(code, "plain", False, (taps, stride))
