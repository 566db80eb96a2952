"""Which tensors of a dictionary are over the same memory.

safetensors files hold every tensor apart, so tensors that overlap would be written twice and be
two tensors when they are read again.
"""

from flambeau.storage import root_of


def overlapping(tensors):
    """Groups of names whose bytes overlap, one by one and in order; most groups have one name."""
    storages: dict = {}
    for name, tensor in tensors.items():
        root = root_of(tensor._storage)
        if tensor.device.runtime.computes and root.pointer and root.nbytes:
            storages.setdefault(root.pointer, []).append(name)
    groups = []
    for names in storages.values():
        end = None
        for start, stop, name in sorted((*_reach(tensors[name]), name) for name in names):
            if end is None or start >= end:
                groups.append({name})
                end = stop
            else:
                groups[-1].add(name)
                end = max(end, stop)
    return groups


def _reach(tensor):
    """(first byte, byte after the last) of a tensor's elements."""
    start = tensor.data_ptr()
    if not tensor.numel():
        return start, start
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    return start, start + (last + 1) * tensor.element_size()


def _is_whole(tensor):
    """Does it cover its storage?"""
    storage = root_of(tensor._storage)
    whole = tensor.numel() * tensor.element_size() == storage.nbytes
    return whole and tensor.data_ptr() == storage.pointer


def same_memory(tensors, preferred=()):
    """{name to keep: names of the same memory}; of several, one that `preferred` holds is kept."""
    out = {}
    for group in overlapping(tensors):
        if len(group) < 2:
            continue
        whole = sorted(name for name in group if _is_whole(tensors[name]))
        if not whole:
            raise RuntimeError(
                "Error while trying to find names to remove to save state dict, but found no "
                f"suitable name to keep for saving amongst: {group}. None is covering the entire "
                "storage. Refusing to save/load the model since you could be storing much more "
                "memory than needed; save clones of these tensors instead."
            )
        kept = next((name for name in whole if name in preferred), whole[0])
        out[kept] = sorted(group - {kept})
    return out
