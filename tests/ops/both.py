"""The same call in flambeau and in PyTorch: values, strides, gradients, warnings and complaints.

For families whose functions take one or two tensors and many options. PyTorch is imported only by
the tests that ask for it.
"""

import warnings

import numpy as np

import flambeau

TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-10}


def draw(shape, seed=0, scale=1.0):
    return np.random.default_rng(seed).standard_normal(shape) * scale


def tensor(lib, values, dtype="float32", last=False, grad=True):
    """A tensor of a library; last: channels last in memory."""
    t = lib.from_numpy(np.array(values)).to(getattr(lib, dtype))
    if last:
        t = t.contiguous(memory_format=lib.channels_last if t.dim() == 4 else lib.channels_last_3d)
    return t.requires_grad_() if grad and t.is_floating_point() else t


def numbers(t):
    t = t.detach()
    if str(t.dtype).endswith("bfloat16"):
        t = t.float()
    return t.numpy() if not isinstance(t, flambeau.Tensor) else np.array(t.numpy())


def assert_same(ours, theirs, dtype, note=(), strides=True):
    assert tuple(ours.shape) == tuple(theirs.shape), note
    if strides and ours.numel():
        assert tuple(ours.stride()) == tuple(theirs.stride()), note
    if ours.grad_fn is not None and theirs.grad_fn is not None:
        assert type(ours.grad_fn).__name__ == type(theirs.grad_fn).__name__, note
    limit = TOLERANCE.get(dtype, 0)
    a, b = numbers(ours), numbers(theirs)
    np.testing.assert_allclose(a, b, rtol=limit, atol=limit, err_msg=str(note))


def check(torch, function, arrays, dtype="float32", last=False, strides=True):
    """function(lib, *tensors) gives the same result and the same gradients in both."""
    results = []
    for lib in (flambeau, torch):
        given = [tensor(lib, a, dtype, last and k == 0) for k, a in enumerate(arrays)]
        results.append((given, function(lib, *given)))
    (ours, out), (theirs, wanted) = results
    note = (dtype, last, [a.shape for a in arrays])
    assert_same(out, wanted, dtype, note, strides)
    if not wanted.requires_grad:
        return
    g = draw(tuple(wanted.shape), 7)
    out.backward(tensor(flambeau, g, dtype, last, grad=False))
    wanted.backward(tensor(torch, g, dtype, last, grad=False))
    for a, b in zip(ours, theirs):
        assert_same(a.grad, b.grad, dtype, note, strides)


def outcome(function, *args):
    """The exception's type and first line, or the texts of warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            function(*args)
        except Exception as error:  # which one, and its words, is what tests compare
            return type(error).__name__, str(error).split("\n")[0]
    return [str(w.message) for w in seen]


def bits_with_threads(function):
    """The results of a function with one thread and with two."""
    before = flambeau.get_num_threads()
    found = []
    try:
        for count in (1, 2):
            flambeau.set_num_threads(count)
            found.append([t.detach().numpy().tobytes() for t in function()])
    finally:
        flambeau.set_num_threads(before)
    return found
