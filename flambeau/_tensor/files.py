"""from_file: tensors over the bytes of a file."""

from flambeau import _dtype
from flambeau._typed_storage import UntypedStorage
from flambeau.eager.creation import empty


def from_file(
    filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=False,
    requires_grad=False,
):  # fmt: skip
    """size elements of a file; with shared, what is written here is written to the file."""
    dtype = _dtype.default_dtype() if dtype is None else dtype
    if pin_memory:
        raise RuntimeError("tensors constructed from a file cannot be pinned")
    if device is not None and str(device) != "cpu":
        raise NotImplementedError(f"from_file: only tensors of the host lie in files, not {device}")
    bytes_ = UntypedStorage.from_file(filename, bool(shared), size * dtype.itemsize)
    found = empty(0, dtype=dtype).set_(bytes_, 0, (size,), (1,))
    return found.requires_grad_() if requires_grad else found
