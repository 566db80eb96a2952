"""Where padding goes: widths and pieces per dimension, what every output reads, what is refused."""


def widths(ndim, pad):
    """(before, after) per dimension, from the first on."""
    found = [(0, 0)] * ndim
    for k in range(len(pad) // 2):
        found[ndim - 1 - k] = (pad[2 * k], pad[2 * k + 1])
    return found


def check_edges(layout, pad, mode):
    """What modes that read edges refuse."""
    shape, dims = layout.sizes, len(pad) // 2
    ndim = len(shape)
    batched = ndim == dims + 2
    if 0 in shape[1 if batched else 0 :] and mode != "circular":
        kinds = f"{dims + 1}D or {dims + 2}D (batch mode)"
        raise RuntimeError(
            f"Expected {kinds} tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {list(shape)}"
        )
    letters = "DHW"[3 - dims :]
    for k in range(dims):
        dim, low, high = ndim - 1 - k, pad[2 * k], pad[2 * k + 1]
        if mode == "reflect" and (low >= shape[dim] or high >= shape[dim]):
            raise RuntimeError(
                f"Argument #{4 + 2 * k}: Padding size should be less than the corresponding input "
                f"dimension, but got: padding ({low}, {high}) at dimension {dim} of input "
                f"{list(shape)}"
            )
        if mode == "circular":
            if low > shape[dim] or high > shape[dim]:
                raise RuntimeError("Padding value causes wrapping around more than once.")
            if shape[dim] + low + high < 0:
                raise RuntimeError("Negative padding value is resulting in an empty dimension")
    out = [shape[ndim - dims + k] + pad[-2 * k - 2] + pad[-2 * k - 1] for k in range(dims)]
    if max(out) < 1 and mode != "circular":
        old = ", ".join(f"{c}: {n}" for c, n in zip(letters, shape[-dims:]))
        new = " ".join(f"{c}: {n}" for c, n in zip(letters, out))
        raise RuntimeError(f"input ({old}) is too small. Calculated output {new}")


def sides(size, low, high, mode):
    """Pieces of one padded dimension: (start in input, step, start in output, length)."""
    cut_low, cut_high = max(0, -low), max(0, -high)
    length = size - cut_low - cut_high
    pieces = [(cut_low, 1, max(0, low), length)]
    end = max(0, low) + length
    if mode == "circular":
        before, after = (size - cut_high - low, 1), (cut_low, 1)
    elif mode == "replicate":
        before, after = (0, 0), (size - 1, 0)
    else:
        before, after = (low, -1), (size - 2, -1)
    if low > 0:
        pieces.append((*before, 0, low))
    if high > 0:
        pieces.append((*after, end, high))
    return [p for p in pieces if p[3] > 0]


def _map(size, low, high, mode):
    """Which input every output of a dimension is (as the kernels compute it)."""
    places = range(-low, size + high)
    if mode == "replicate":
        return [min(max(k, 0), size - 1) for k in places]
    if mode == "reflect":
        return [size - 1 - abs(size - 1 - abs(k)) for k in places]
    start = max(0, -low)  # circular: what is left after cutting, over and over
    kept = size - start - max(0, -high)
    return [start + (k - start) % kept for k in places]


def edge_maps(input_shape, pad, mode):
    """What every output reads along the padded dimensions, and the shape of the gradient."""
    dims = len(pad) // 2
    added = widths(len(input_shape), pad)[-dims:]
    return [_map(n, *side, mode) for n, side in zip(input_shape[-dims:], added)], input_shape
