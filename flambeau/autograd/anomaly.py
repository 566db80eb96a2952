"""Anomaly mode: which forward call a backward belongs to that fails or gives nan.

While it is on, recording keeps a traceback with each node (`modes.anomaly`, read where nodes are
made), and a handler (interposing/) stands around the nodes of backward.
"""

import sys
import warnings

from flambeau import interposing
from flambeau.autograd.grad_mode import modes, update_watched


class _Checking(interposing.Handler):
    """Looks at what nodes of backward give, and names their forward call if one fails."""

    kinds = frozenset({"node"})
    is_lasting = forks = True

    def around(self, name, function, args, kwargs):
        node = args[0]
        above, modes.node = modes.node, node
        try:
            results = function(*args, **kwargs)
        except Exception:
            _warn_origin(node)
            raise
        finally:
            modes.node = above
        if modes.anomaly_check_nan:
            for k, r in enumerate(results):
                if r is not None and r.dtype.category >= 2 and bool((r != r).any()):
                    _warn_origin(node)
                    raise RuntimeError(
                        f"Function '{name}' returned nan values in its {k}th output."
                    )
        return results


_checking = _Checking()


def _switch(mode, check_nan):
    if mode is not modes.anomaly:
        (interposing.push if mode else interposing.pop)(_checking)
    modes.anomaly, modes.anomaly_check_nan = mode, check_nan
    update_watched()


def _warn_origin(node):
    lines = node.metadata.get("traceback_")
    if not lines:
        _warn(
            f"Error detected in {node.name()}. No forward pass information available. Enable "
            "detect anomaly during forward pass for more information."
        )
        return
    _warn(
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
        + "".join(lines)
    )
    while (parent := node.metadata.get("parent_")) is not None:
        lines = parent.metadata.get("traceback_")
        start = f"\n\nPrevious calculation was induced by {parent.name()}. "
        if lines:
            start += "Traceback of forward call that induced the previous calculation:\n"
            _warn(start + "".join(lines))
        else:
            _warn(
                start + "No forward pass information available. Enable detect anomaly during "
                "forward pass for more information."
            )
        node = parent


def _warn(text):
    """A warning that hides no error: where warnings are errors, it is only printed."""
    try:
        warnings.warn(text, stacklevel=3)
    except UserWarning as error:
        print(f"Warning: {error}", file=sys.stderr)


class detect_anomaly:
    """Name the forward call whose backward fails or gives nan."""

    def __init__(self, check_nan=True):
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self):
        self.previous = modes.anomaly, modes.anomaly_check_nan
        _switch(True, self.check_nan)

    def __exit__(self, *error):
        _switch(*self.previous)


class set_detect_anomaly(detect_anomaly):
    """Switch anomaly detection on or off, at once."""

    def __init__(self, mode, check_nan=True):
        self.previous = modes.anomaly, modes.anomaly_check_nan
        _switch(bool(mode), check_nan)

    def __enter__(self):
        pass


def is_anomaly_enabled():
    return modes.anomaly


def is_anomaly_check_nan_enabled():
    return modes.anomaly_check_nan
