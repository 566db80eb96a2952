"""PyTorch's private folder of the same name, for programs that reach into it."""

import sys

from . import collate as collate
from . import fetch as fetch
from . import pin_memory as pin_memory

HAS_NUMPY = True
IS_WINDOWS = sys.platform == "win32"
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds between two looks at whether workers live
python_exit_status = False


def __getattr__(name: str) -> object:
    if name in ("signal_handling", "worker"):
        import importlib

        return importlib.import_module(f"flambeau.utils.data._utils.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
