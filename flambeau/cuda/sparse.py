"""`torch.cuda.sparse`: constructors of old; all else about sparse tensors is in `torch.sparse`."""

from typing import Any


def __getattr__(name: str) -> Any:
    from flambeau._sparse.legacy import TYPED  # with the first sparse tensor
    from flambeau.cuda import _typed

    if name not in TYPED:
        raise AttributeError(f"module 'torch.cuda.sparse' has no attribute '{name}'")
    found = globals()[name] = _typed(TYPED[name])
    return found
