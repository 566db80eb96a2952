"""What code is made for: the vectors, features and conventions of a kind of processor.

Builders ask `current()`, never the host. It is the target of the runtime that a kernel is built
for (`building_for`), and the host's where nobody has said otherwise.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of processor, as far as builders care.

    features: what LLVM calls them -> are they there? scaling: vector type -> intrinsic for
    x * 2**n. gpu: "ptx" for a GPU, "emulated" for the host in its place, else nothing. words:
    (word, scalar type) -> what writes it with instructions of its own (see scalar.native).
    """

    triple: str
    features: Mapping[str, bool]
    vector_bytes: int
    scaling: Mapping[str, str] = field(default_factory=dict)
    gpu: str = ""
    words: Mapping[tuple[str, str], Callable] = field(default_factory=dict)

    @property
    def attributes(self) -> str:
        """Of every function, as LLVM writes them."""
        bits = 8 * self.vector_bytes
        return f'"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'


class _Active(threading.local):
    target: Target | None = None


_active = _Active()


def current() -> Target:
    """The target that code is being made for."""
    found = _active.target
    if found is None:
        from flambeau.codegen.llvm_cpu import host  # with llvmlite, on first need

        found = host().target
    return found


@contextlib.contextmanager
def building_for(target: Target | Callable[[], Target]) -> Iterator[None]:
    """Inside, builders make code for a target; a function is asked for it now."""
    previous = _active.target
    _active.target = target if isinstance(target, Target) else target()
    try:
        yield
    finally:
        _active.target = previous
