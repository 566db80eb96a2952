"""Means of windows on a GPU, by the names of templates/pooling_means.py (see pooling.py)."""

from flambeau.codegen.gpu import pooling


def build_mean(code, channels, kind):
    """Both texts of windows of any kind."""
    return pooling.mean(code, kind, channels > 0)


def build_mean_across(code, kind):
    """Both texts of large windows."""
    return pooling.mean_across(code, kind)


def build_mean_backward(code, channels, kind):
    """Both texts of the way back."""
    return pooling.mean_backward(code, kind, channels > 0)


def build_mean_backward_across(code, kind):
    """Both texts of the way back in contiguous planes."""
    return pooling.mean_backward(code, kind, False)
