"""What the programs print: a few numbers of every tensor, so that two runs can be compared."""

import numbers


def show(label, *things):
    """One line: the label, then sizes, sums and some elements of everything."""
    print("=", label + ":", *(word for thing in things for word in words(thing)), flush=True)


def words(thing):
    if hasattr(thing, "detach"):
        return of_tensor(thing.detach())
    if isinstance(thing, dict):
        return [word for key in thing for word in (str(key), *words(thing[key]))]
    if isinstance(thing, (list, tuple)):
        return [word for item in thing for word in words(item)]
    if isinstance(thing, numbers.Real) and not isinstance(thing, (bool, int)):
        return [f"{float(thing):.7g}"]
    if hasattr(thing, "dtype") and hasattr(thing, "reshape"):  # NumPy
        return words(thing.reshape(-1).tolist()[:8])
    return [str(thing).replace(" ", "")]


def of_tensor(tensor):
    """Size, mean and mean magnitude, the first and the last elements."""
    sizes = "x".join(map(str, tensor.shape)) or "scalar"
    flat = tensor.reshape(-1)
    if flat.is_complex():
        flat = flat.real + 2 * flat.imag
    if flat.dtype.itemsize < 4 or not flat.is_floating_point():
        flat = flat.double()
    few = [*flat[:3].tolist(), *flat[-3:].tolist()]
    return [sizes, *(f"{x:.7g}" for x in (flat.mean().item(), flat.abs().mean().item(), *few))]


def gradients(module):
    """The mean magnitude of all gradients of a module, and of its first and last parameters'."""
    found = [
        p.grad.detach().double().abs().mean().item()
        for p in module.parameters()
        if p.grad is not None
    ]
    return [len(found), sum(found), found[0], found[-1]]
