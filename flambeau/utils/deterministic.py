"""`torch.utils.deterministic`: what new memory holds under `use_deterministic_algorithms`."""

import sys
import types

from flambeau.runtime.switches import switches


class _Module(types.ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Is memory that nothing was written to filled with nan, or with the largest integer?"""
        return switches.fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if type(mode) is not bool:
            raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
        switches.change(fill=mode)


sys.modules[__name__].__class__ = _Module
