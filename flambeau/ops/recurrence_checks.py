"""What recurrent layers and their cells refuse, before anything is computed."""

from flambeau import errors


def layer(rule, input, states, weights, batch_sizes):
    """Do layouts fit each other? Kernels take all sizes from those of the weights."""
    (hidden, cell), (w_ih, w_hh, b_ih, b_hh, w_hr) = states, weights
    if w_hh.ndim != 2:
        raise RuntimeError(f"weight_hh must have 2 dimensions, got {w_hh.ndim}")
    shown, batch = w_hh.shape[1], batch_sizes[0] if batch_sizes else 0
    width = shown if cell is None else cell.shape[-1]
    wide = rule.gates * width
    for name, t in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        if t.shape[0] != wide:
            raise RuntimeError(
                f"{name} first dim must be {rule.gates} * hidden_size = {wide}, but got "
                f"{t.shape[0]}"
            )
    if w_ih.shape != (wide, input.shape[-1]):
        turned = "x".join(map(str, reversed(w_ih.shape)))
        rows = "x".join(map(str, input.shape))
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows} and {turned})")
    wanted = (
        ("hidden state", hidden, (batch, shown)),
        ("cell state", cell, (batch, width)),
        ("bias_ih", b_ih, (wide,)),
        ("bias_hh", b_hh, (wide,)),
        ("weight_hr", w_hr, (shown, width)),
    )
    for name, t, shape in wanted:
        if t is not None and t.shape != shape:
            raise RuntimeError(f"Expected {name} of size {list(shape)}, got {list(t.shape)}")
    if (cell is not None) != rule.has_cell or (w_hr is None and shown != width):
        raise RuntimeError("hidden and cell states do not fit the weights")
    if (b_ih is None) != (b_hh is None):
        raise RuntimeError("a layer has two biases or none")
    if sum(batch_sizes) != input.shape[0] or min(batch_sizes, default=0) < 0:
        raise RuntimeError(f"batch_sizes must add up to the {input.shape[0]} rows of data")
    for t in (*states, *weights):
        if t is not None and t.dtype is not input.dtype:
            raise RuntimeError(
                f"expected m1 and m2 to have the same dtype, but got: {t.dtype.cpp_name} != "
                f"{input.dtype.cpp_name}"
            )


def step(rule, hidden, x_gates, h_gates, cell):
    """Do the parts of a step fit each other? Rows of weights are columns of projections."""
    rows, width = hidden.shape
    wide = rule.gates * width
    for name, t in (("weight_ih", x_gates), ("weight_hh", h_gates)):
        if t.shape[-1] != wide:
            raise RuntimeError(
                f"{name} first dim must be {rule.gates} * hidden_size = {wide}, but got "
                f"{t.shape[-1]}"
            )
        if t.shape != (rows, wide):
            raise RuntimeError(f"expected {rows} rows of {wide} gates, got {list(t.shape)}")
    if (cell is not None) != rule.has_cell or (cell is not None and cell.shape != hidden.shape):
        raise RuntimeError(f"expected a cell state of shape {list(hidden.shape)}")
    for t in (x_gates, h_gates, cell):
        if t is not None and t.dtype is not hidden.dtype:
            raise RuntimeError(
                f"expected scalar type {hidden.dtype.scalar_name} but found {t.dtype.scalar_name}"
            )


def dtypes(input, hidden, cell, w_ih, w_hh):
    """What a layer is told must be of one floating dtype."""
    for name, t in (("hidden", hidden), ("cell", cell), ("weight", w_ih), ("weight", w_hh)):
        if t is not None and t.dtype is not input.dtype:
            raise RuntimeError(
                f"Input and {name} tensors are not the same dtype, found input tensor with "
                f"{input.dtype.scalar_name} and {name} tensor with {t.dtype.scalar_name}"
            )
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("addmm_impl_cpu_", input.dtype)
