"""Products with, and all of, the first and second derivatives of a function of tensors.

`vjp` and `vhp` are one or two backward passes. `jvp` and `hvp` multiply from the other side by the
double-backward trick: a backward pass is linear in its incoming gradient `g`, so differentiating
it with respect to `g` gives the forward product. `jacobian` runs one backward pass per output
element and `hessian` is the jacobian of the jacobian.

The engine that all of them call is in `engine.py`.
"""

from __future__ import annotations

import flambeau

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_OUTPUTS = "outputs of the user-provided function"


# Arguments in, results out.


def _as_tuple(values, name, function):
    """(whether it was a tuple, the tuple), after checking that every entry is a tensor."""
    is_tuple = isinstance(values, tuple)
    entries = values if is_tuple else (values,)
    for index, entry in enumerate(entries):
        if not isinstance(entry, flambeau.Tensor):
            where = f"value at index {index}" if is_tuple else f"given {name}"
            raise TypeError(
                f"The {name} given to {function} must be either a Tensor or a tuple of Tensors "
                f"but the {where} has type {type(entry)}."
            )
    return is_tuple, entries


def _entering(tensors, create_graph, requires_grad):
    """Tensors of our own to differentiate at: fresh leaves, or views that keep their history."""
    return tuple(
        t.view_as(t)
        if create_graph and t.requires_grad
        else t.detach().requires_grad_(requires_grad)
        for t in tensors
    )


def _leaving(tensors, create_graph, is_tuple):
    """Results as the caller gets them: no history unless asked, no tuple unless given one."""
    if not create_graph:
        tensors = tuple(t.detach() for t in tensors)
    return tensors if is_tuple else tensors[0]


def _vector(v, targets, is_tuple, function, create_graph, missing):
    """The vector of a product, checked against what it multiplies; None is fine for one number."""
    if v is None:
        if len(targets) != 1 or targets[0].nelement() != 1:
            raise RuntimeError(f"The vector v can only be None if {missing}")
        return (None,)
    _, v = _as_tuple(v, "v", function)
    v = _entering(v, create_graph, requires_grad=False)
    if len(v) != len(targets):
        if not is_tuple:
            raise RuntimeError("The given v should contain a single Tensor.")
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(targets)} but got {len(v)}."
        )
    for index, (entry, target) in enumerate(zip(v, targets, strict=True)):
        if entry.size() != target.size():
            where = f"Entry {index} in " if is_tuple else ""
            raise RuntimeError(
                f"{where}v has invalid size: should be {target.size()} but got {entry.size()}."
            )
    return v


def _grad(outputs, inputs, grad_outputs, create_graph=False, retain_graph=None):
    """`autograd.grad`, with None for everything when no output has a history."""
    pairs = zip(outputs, grad_outputs, strict=True)
    kept = [(out, g) for out, g in pairs if out is not None and out.requires_grad]
    if not kept:
        return (None,) * len(inputs)
    return flambeau.autograd.grad(
        tuple(out for out, _ in kept),
        inputs,
        tuple(g for _, g in kept),
        retain_graph=retain_graph,
        create_graph=create_graph,
        allow_unused=True,
    )


def _last_pass(create_graph):
    """Grad mode for the last backward pass: the caller's, unless the graph is wanted."""
    return flambeau.set_grad_enabled(create_graph or flambeau.is_grad_enabled())


# Strict mode: what does not depend on the input is an error, not a zero.

_INDEPENDENT_OUTPUT = (
    "The output of the user-provided function is independent of input {i}."
    " This is not allowed in strict mode."
)

_NO_HISTORY = {
    "outputs": (
        "Output {i} of the user-provided function does not require gradients."
        " The outputs must be computed in a differentiable manner from the input"
        " when running in strict mode."
    ),
    "grad_inputs": (
        "The gradient with respect to input {i} is independent of the inputs of the"
        " user-provided function. This is not allowed in strict mode."
    ),
    "jacobian": (
        "While computing the hessian, found that the jacobian of the user-provided"
        " function with respect to input {i} is independent of the input. This is not"
        " allowed in strict mode. You should ensure that your function is twice"
        " differentiable and that the jacobian depends on the inputs (this would be"
        " violated by a linear function for example)."
    ),
}

# By the pass that found nothing: plain or double backward, each with or without the trick.
_NO_GRADIENT = {
    "back": _INDEPENDENT_OUTPUT,
    "back_trick": (
        "The gradient with respect to the input is independent of entry {i}"
        " in the grad_outputs when using the double backward trick to compute"
        " forward mode gradients. This is not allowed in strict mode."
    ),
    "double_back": (
        "The jacobian of the user-provided function is independent of input {i}."
        " This is not allowed in strict mode."
    ),
    "double_back_trick": (
        "The hessian of the user-provided function is independent of entry {i} in the"
        " grad_jacobian. This is not allowed in strict mode as it prevents from using the"
        " double backward trick to replace forward mode AD."
    ),
}

_CONSTANT = (
    "The {derivative} of the user-provided function is independent of input {i}."
    " This is not allowed in strict mode when create_graph=True."
)


def _require_history(values, kind, strict):
    """In strict mode, raise for the first value that is missing or does not require grad."""
    if not strict:
        return
    for i, value in enumerate(values):
        if value is None:
            raise RuntimeError(_INDEPENDENT_OUTPUT.format(i=i))
        if not value.requires_grad:
            raise RuntimeError(_NO_HISTORY[kind].format(i=i))


def _zeros_for_none(grads, shaped_like, strict, create_graph, stage):
    """Gradients with zeros where there is none, which strict mode does not allow."""
    filled = []
    for i, (g, like) in enumerate(zip(grads, shaped_like, strict=True)):
        if g is None:
            if strict:
                raise RuntimeError(_NO_GRADIENT[stage].format(i=i))
            g = flambeau.zeros_like(like)
        elif strict and create_graph and not g.requires_grad:
            derivative = "hessian" if stage.startswith("double") else "jacobian"
            raise RuntimeError(_CONSTANT.format(derivative=derivative, i=i))
        filled.append(g)
    return tuple(filled)


# Products with the first derivative.


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """The outputs of `func` and `v` times its Jacobian, at `inputs`.

    Args:
        func: takes tensors, returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        v: as the outputs; may be left out when there is one output of one element.
        create_graph: keep the history, so that the results can be differentiated.
        strict: raise where an output does not depend on an input, instead of giving zeros.

    Example:
        >>> import flambeau as torch
        >>> torch.autograd.functional.vjp(lambda x: x * x, torch.tensor([1.0, 2.0]), torch.ones(2))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    with flambeau.enable_grad():
        is_inputs_tuple, inputs = _as_tuple(inputs, "inputs", "vjp")
        inputs = _entering(inputs, create_graph, requires_grad=True)
        is_outputs_tuple, outputs = _as_tuple(func(*inputs), _OUTPUTS, "vjp")
        _require_history(outputs, "outputs", strict)
        v = _vector(
            v,
            outputs,
            is_outputs_tuple,
            "vjp",
            create_graph,
            "the user-provided function returns a single Tensor with a single element.",
        )
    with _last_pass(create_graph):
        found = _grad(outputs, inputs, v, create_graph=create_graph)
        product = _zeros_for_none(found, inputs, strict, create_graph, "back")
    return (
        _leaving(outputs, create_graph, is_outputs_tuple),
        _leaving(product, create_graph, is_inputs_tuple),
    )


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """The outputs of `func` and its Jacobian times `v`, at `inputs`.

    Arguments as for `vjp`, with `v` as the inputs.

    Example:
        >>> import flambeau as torch
        >>> torch.autograd.functional.jvp(lambda x: x.sum(), torch.ones(3), torch.arange(3.0))
        (tensor(3.), tensor(3.))
    """
    with flambeau.enable_grad():
        is_inputs_tuple, inputs = _as_tuple(inputs, "inputs", "jvp")
        inputs = _entering(inputs, create_graph, requires_grad=True)
        v = _vector(
            v,
            inputs,
            is_inputs_tuple,
            "jvp",
            create_graph,
            "the input to the user-provided function is a single Tensor with a single element.",
        )
        is_outputs_tuple, outputs = _as_tuple(func(*inputs), _OUTPUTS, "jvp")
        _require_history(outputs, "outputs", strict)
        # Any value of g will do, the backward pass being linear in it; it must only need grad.
        g = tuple(flambeau.zeros_like(out, requires_grad=True) for out in outputs)
        backward = _grad(outputs, inputs, g, create_graph=True)
        _require_history(backward, "grad_inputs", strict)
    with _last_pass(create_graph):
        found = _grad(backward, g, v, create_graph=create_graph)
        product = _zeros_for_none(found, outputs, strict, create_graph, "back_trick")
    return (
        _leaving(outputs, create_graph, is_outputs_tuple),
        _leaving(product, create_graph, is_outputs_tuple),
    )


# The whole first and second derivative.


def _rows(index, out, inputs, create_graph, strict):
    """The Jacobian of one output with respect to every input, one backward pass per element."""
    rows: list[list] = [[] for _ in inputs]
    for element in range(out.nelement()):
        entry = out.reshape(-1)[element]
        found = _grad((entry,), inputs, (None,), create_graph=create_graph, retain_graph=True)
        for i, (g, x) in enumerate(zip(found, inputs, strict=True)):
            if g is None:
                if strict:
                    raise RuntimeError(
                        f"Output {index} of the user-provided function is independent of input"
                        f" {i}. This is not allowed in strict mode."
                    )
                g = flambeau.zeros_like(x)
            elif strict and create_graph and not g.requires_grad:
                raise RuntimeError(_CONSTANT.format(derivative="jacobian", i=index))
            rows[i].append(g)
    blocks = []
    for x, of_input in zip(inputs, rows, strict=True):
        shape = (*out.size(), *x.size())
        block = flambeau.stack(of_input).view(shape) if of_input else x.new_zeros(shape)
        blocks.append(block)
    return tuple(blocks)


def _rows_at_once(out, inputs, create_graph):
    """The same by one batched backward pass."""
    count = out.numel()
    if not out.requires_grad or not count:
        return tuple(x.new_zeros((*out.size(), *x.size())) for x in inputs)
    basis = flambeau.eye(count, dtype=out.dtype, device=out.device)
    found = flambeau.autograd.grad(
        out,
        inputs,
        basis.view(count, *out.size()),
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
        is_grads_batched=True,
    )
    return tuple(
        x.new_zeros((*out.size(), *x.size())) if g is None else g.view(*out.size(), *x.size())
        for g, x in zip(found, inputs, strict=True)
    )


def _check_strategy(strategy, create_graph, strict, vectorize):
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "reverse-mode":
        return
    for asked, option in ((create_graph, "create_graph"), (strict, "strict")):
        if asked:
            kind = NotImplementedError if option == "create_graph" else RuntimeError
            raise kind(
                f"torch.autograd.functional.jacobian: `{option}=True` "
                'and `strategy="forward-mode"` are not supported together (yet). '
                f'Please either set `{option}=False` or `strategy="reverse-mode"`.'
            )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
            "only implemented for `vectorize=True`."
        )


def jacobian(
    func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"
):
    """The Jacobian of `func` at `inputs`: `J[i][j]` is that of output i by input j.

    Args:
        func: takes tensors, returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        create_graph: keep the history, so that the result can be differentiated.
        strict: raise where an output does not depend on an input, instead of giving zeros.
        vectorize: all rows in one batched pass, not one after the other.
        strategy: ``"reverse-mode"`` or ``"forward-mode"``, which wants vectorize.

    Shape:
        each block has the shape of its output followed by the shape of its input.

    Example:
        >>> import flambeau as torch
        >>> torch.autograd.functional.jacobian(lambda x: x * x, torch.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    _check_strategy(strategy, create_graph, strict, vectorize)
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs)
    with flambeau.enable_grad():
        is_inputs_tuple, inputs = _as_tuple(inputs, "inputs", "jacobian")
        inputs = _entering(inputs, create_graph, requires_grad=True)
        is_outputs_tuple, outputs = _as_tuple(func(*inputs), _OUTPUTS, "jacobian")
        _require_history(outputs, "outputs", strict)
        if vectorize and strict:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` "
                "and `vectorized=True` are not supported together. "
                "Please either set `strict=False` or `vectorize=False`."
            )
        found = [
            _rows_at_once(out, inputs, create_graph)
            if vectorize
            else _rows(i, out, inputs, create_graph, strict)
            for i, out in enumerate(outputs)
        ]
        blocks = tuple(_leaving(rows, create_graph, is_inputs_tuple) for rows in found)
    return blocks if is_outputs_tuple else blocks[0]


def _forward_jacobian(func, inputs):
    """The Jacobian by one batch of tangents."""
    is_inputs_tuple, inputs = _as_tuple(inputs, "inputs", "jacobian")
    is_tuple = False

    def checked(*args):
        nonlocal is_tuple
        is_tuple, outputs = _as_tuple(func(*args), _OUTPUTS, "jacobian")
        return outputs

    plain = tuple(t.detach() for t in inputs)
    blocks = flambeau.func.jacfwd(checked, tuple(range(len(plain))))(*plain)
    blocks = tuple(_leaving(rows, False, is_inputs_tuple) for rows in blocks)
    return blocks if is_tuple else blocks[0]


def _single_number(out, function):
    """The one tensor of one element that a function with a Hessian returns."""
    is_tuple, _ = _as_tuple(out, _OUTPUTS, function)
    if is_tuple:
        raise RuntimeError(f"The function given to {function} should return a single Tensor")
    if out.nelement() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {function} should contain"
            " a single element"
        )
    return out


def hessian(
    func,
    inputs,
    create_graph=False,
    strict=False,
    vectorize=False,
    outer_jacobian_strategy="reverse-mode",
):
    """The Hessian of a scalar `func` at `inputs`: `H[i][j]` is that by inputs i and j.

    Arguments as for `jacobian`.

    Example:
        >>> import flambeau as torch
        >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    is_inputs_tuple, inputs = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def scalar(*args):
        out = func(*args)
        _require_history(_as_tuple(out, _OUTPUTS, "hessian")[1], "outputs", strict)
        return _single_number(out, "hessian").squeeze()

    is_forward = outer_jacobian_strategy == "forward-mode"  # then args are duals without history

    def gradient(*args):
        at = [a.requires_grad_() for a in args] if is_forward else args
        found = jacobian(scalar, tuple(at), create_graph=True)
        _require_history(found, "jacobian", strict)
        return found

    blocks = jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return blocks if is_inputs_tuple else blocks[0][0]


# Products with the second derivative.


def _gradient_graph(func, inputs, v, create_graph, strict, function):
    """What `vhp` and `hvp` share: inputs, vector, output and the gradient with its history."""
    is_tuple, inputs = _as_tuple(inputs, "inputs", function)
    inputs = _entering(inputs, create_graph, requires_grad=True)
    v = _vector(
        v,
        inputs,
        is_tuple,
        function,
        create_graph,
        "the input to the user-provided function is a single Tensor with a single element.",
    )
    out = func(*inputs)
    _require_history(_as_tuple(out, _OUTPUTS, function)[1], "outputs", strict)
    out = _single_number(out, function)
    gradient = _grad((out,), inputs, (None,), create_graph=True)
    _require_history(gradient, "jacobian", strict)
    return is_tuple, inputs, v, out, gradient


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """The value of a scalar `func` and `v` times its Hessian, at `inputs`.

    Arguments as for `vjp`, with `v` as the inputs.

    Example:
        >>> import flambeau as torch
        >>> torch.autograd.functional.vhp(lambda x: (x**3).sum(), torch.ones(2), torch.ones(2))
        (tensor(2.), tensor([6., 6.]))
    """
    with flambeau.enable_grad():
        is_tuple, inputs, v, out, gradient = _gradient_graph(
            func, inputs, v, create_graph, strict, "vhp"
        )
    with _last_pass(create_graph):
        found = _grad(gradient, inputs, v, create_graph=create_graph)
        product = _zeros_for_none(found, inputs, strict, create_graph, "double_back")
    return _leaving((out,), create_graph, False), _leaving(product, create_graph, is_tuple)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """The value of a scalar `func` and its Hessian times `v`, at `inputs`.

    The Hessian of most functions is symmetric; then `vhp` gives the same with one pass less.

    Example:
        >>> import flambeau as torch
        >>> torch.autograd.functional.hvp(lambda x: (x**3).sum(), torch.ones(2), torch.ones(2))
        (tensor(2.), tensor([6., 6.]))
    """
    with flambeau.enable_grad():
        is_tuple, inputs, v, out, gradient = _gradient_graph(
            func, inputs, v, create_graph, strict, "hvp"
        )
        g = tuple(flambeau.zeros_like(x, requires_grad=True) for x in inputs)
        backward = _grad(gradient, inputs, g, create_graph=True)
    with _last_pass(create_graph):
        found = _grad(backward, g, v, create_graph=create_graph)
        product = _zeros_for_none(found, inputs, strict, create_graph, "double_back_trick")
    return _leaving((out,), create_graph, False), _leaving(product, create_graph, is_tuple)
