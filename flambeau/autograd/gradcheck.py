"""`gradcheck` and `gradgradcheck`: derivatives from backward against finite differences.

A function of several tensors has one Jacobian per (output, input) pair. The slow mode compares
them whole, in matrices with a row per input element and a column per output element. The fast mode
compares one number per pair, `v J u` for random positive `u` and `v`. Both see real outputs only:
a complex output is checked part by part, and a complex input gives `ds/dx + i ds/dy`, which is
what backward returns for a real `s`.
"""

from __future__ import annotations

import itertools
import sys
import types
import warnings
from typing import NamedTuple

import flambeau
from flambeau.autograd import forward_ad
from flambeau.autograd.function import UndefinedGrad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """Raised by gradcheck and gradgradcheck when the derivatives disagree."""


class Tolerances(NamedTuple):
    """How far finite differences step, and how much disagreement is forgiven."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_grad_dtypes: bool


def _as_tuple(values):
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def _with_grad(values):
    """The tensors among the values that require grad."""
    return tuple(v for v in values if isinstance(v, flambeau.Tensor) and v.requires_grad)


def _close(a, b, rtol, atol):
    dtype = flambeau.promote_types(a.dtype, b.dtype)
    return flambeau.allclose(a.to(dtype), b.to(dtype), rtol, atol)


# Finite differences.


def _difference(function, shift, eps):
    """Central difference of every output while `shift(+-1)` moves the input in place."""
    try:
        shift(-1)
        below = [out.detach().clone() for out in _as_tuple(function())]
        shift(+1)
        above = [out.detach().clone() for out in _as_tuple(function())]
    finally:
        shift(0)
    for a, b in zip(below, above, strict=True):
        for what, one, other in (("shape", a.shape, b.shape), ("dtype", a.dtype, b.dtype)):
            if one != other:
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs are "
                    f"perturbed by {eps}, but got: {what}s {one} and {other}."
                )
    return [(b - a) / (2 * eps) for a, b in zip(below, above, strict=True)]


def _along(function, x, direction, eps):
    """Directional differences of every output; `direction` is a tensor, or an index of x."""
    # .data moves the very tensor the function may have captured, past autograd; what was moved is
    # put back, so the version is put back too: graphs recorded before stay valid.
    data, version = x.data, x._storage.version
    if isinstance(direction, tuple):
        index, unit = direction
        before = data[index].item()

        def shift(sign):
            data[index] = before + sign * eps * unit
    else:
        whole = data.clone()

        def shift(sign):
            data.copy_(whole + (sign * eps) * direction if sign else whole)

    try:
        return _difference(function, shift, eps)
    finally:
        x._storage.version = version


def _numerical_rows(function, x, eps):
    """For each element of x, the derivative of every output: one row of each Jacobian."""
    for index in itertools.product(*map(range, x.shape)):
        row = _along(function, x, (index, 1), eps)
        if x.is_complex():
            across = _along(function, x, (index, 1j), eps)
            row = [dx + 1j * dy for dx, dy in zip(row, across, strict=True)]
        yield [d.reshape(-1) for d in row]


def _numerical_jacobians(func, inputs, outputs, eps):
    """`jacobians[i][o]`, of output o by the i-th input that requires grad."""
    jacobians = []
    for x in _with_grad(inputs):
        rows = list(_numerical_rows(lambda: func(*inputs), x, eps))
        jacobians.append(
            [flambeau.stack(column) for column in zip(*rows, strict=True)]
            or [x.new_zeros(0, out.numel()) for out in outputs]
        )
    return jacobians


# Backward.


_NOT_REENTRANT = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
    "times gives different values, although analytical gradient matches numerical gradient."
    "The tolerance for nondeterminism was {nondet_tol}.\n\nIf the operation is meant to be "
    "nondeterministic, pass `nondet_tol=<tol>` with a small positive number."
)


def _columns(output, inputs, vectors):
    """Matrices of gradients: for each input a column per vector; and what was wrong with them."""
    dtypes_fit = sizes_fit = True
    columns: list[list] = [[] for _ in inputs]
    for v in vectors:
        grads = flambeau.autograd.grad(output, inputs, v, retain_graph=True, allow_unused=True)
        for column, x, g in zip(columns, inputs, grads, strict=True):
            if g is not None and g.size() != x.size():
                sizes_fit, g = False, None
            if g is not None:
                dtypes_fit &= g.dtype == x.dtype
            column.append((flambeau.zeros_like(x) if g is None else g).reshape(-1))
    matrices = [
        flambeau.stack(column, dim=1) if column else x.new_zeros(x.numel(), 0)
        for x, column in zip(inputs, columns, strict=True)
    ]
    return matrices, dtypes_fit, sizes_fit


def _analytical(output, inputs, vectors, tol):
    """The gradients of one output, computed twice: they must agree with themselves first."""
    first, dtypes_fit, sizes_fit = _columns(output, inputs, vectors)
    second, _, _ = _columns(output, inputs, vectors)
    if tol.check_grad_dtypes and not dtypes_fit:
        raise GradcheckError("Gradient has dtype mismatch")
    if not sizes_fit:
        raise GradcheckError("Analytical gradient has incorrect size")
    for a, b in zip(first, second, strict=True):
        if a.numel() and (a - b).abs().max() > tol.nondet_tol:
            raise GradcheckError(_NOT_REENTRANT.format(nondet_tol=tol.nondet_tol))
    return first


def _one_hot(output):
    """Vectors that pick one element each."""
    for element in range(output.numel()):
        v = flambeau.zeros_like(output, memory_format=flambeau.contiguous_format)
        v.view(-1)[element] = 1
        yield v


# The comparison, slow and fast.


def _mismatch(analytical, numerical, output_index, input_index, part):
    prefix = f"While considering the {part} part of complex outputs only, " if part else ""
    return (
        f"{prefix}Jacobian mismatch for output {output_index} with respect to input {input_index},"
        f"\nnumerical:{numerical}\nanalytical:{analytical}\n"
    )


# Backward comes first in every comparison: finite differences write to the inputs, and a graph
# may refuse to run backward over inputs that were written to since.


def _compare_all(func, inputs, results, tol, part_of):
    """Slow mode: every entry of every Jacobian."""
    xs = _with_grad(inputs)
    analytical = {
        o: _analytical(out, xs, list(_one_hot(out)), tol)
        for o, out in enumerate(results)
        if out.requires_grad
    }
    numerical = _numerical_jacobians(func, inputs, results, tol.eps)
    if not analytical and any(
        flambeau.ne(jacobian, 0).any() for of_input in numerical for jacobian in of_input
    ):
        raise GradcheckError("Numerical gradient for function expected to be zero")
    for nth, (o, jacobians) in enumerate(analytical.items()):
        for i, a in enumerate(jacobians):
            if not _close(a, numerical[i][o], tol.rtol, tol.atol):
                raise GradcheckError(_mismatch(a, numerical[i][o], nth, i, part_of(o)))


def _positive(t, generator):
    """A random real vector of length one, shaped like t and without negative entries."""
    dtype = t.real.dtype if t.is_complex() else t.dtype
    if not dtype.is_floating_point:
        dtype = flambeau.float64
    u = flambeau.rand(t.shape, dtype=dtype, generator=generator)
    return u / u.norm() if t.numel() else u


def _slow_details(func, inputs, output_index, input_index, tol):
    """For the message of a fast failure: the same pair in slow mode."""
    results = _as_tuple(func(*inputs))
    out = results[output_index]
    analytical = _columns(out, _with_grad(inputs), list(_one_hot(out)))[0][input_index]
    numerical = _numerical_jacobians(func, inputs, results, tol.eps)[input_index][output_index]
    text = (
        "\nThe above quantities relating the numerical and analytical jacobians are computed \n"
        "in fast mode. Below, we recompute numerical and analytical jacobians in slow mode:\n\n"
        f"Numerical:\n {numerical}\nAnalytical:\n{analytical}\n\n"
        "The max per-element difference (slow mode) is: "
        f"{(numerical - analytical).abs().max()}.\n"
    )
    if _close(analytical, numerical, tol.rtol, tol.atol):
        text += (
            "Fast gradcheck failed but element-wise differences are small. This means that the\n"
            "test might've passed in slow_mode! Pass `fast_mode=False` to see."
        )
    return text


def _compare_projected(func, inputs, results, tol, part_of):
    """Fast mode: v J u for one random pair of vectors per Jacobian."""
    # A generator of our own, so that a check does not move the caller's random numbers.
    generator = flambeau.Generator()
    xs = _with_grad(inputs)
    us = [[_positive(x, generator) for _ in range(2 if x.is_complex() else 1)] for x in xs]
    vs = [_positive(out, generator) for out in results]
    analytical = {
        o: _analytical(out, xs, [vs[o]], tol) for o, out in enumerate(results) if out.requires_grad
    }
    for i, (x, u) in enumerate(zip(xs, us, strict=True)):
        units = [u[0], 1j * u[1]] if x.is_complex() else u
        steps = [_along(lambda: func(*inputs), x, unit, tol.eps) for unit in units]
        if not analytical and any((d != 0).any() for step in steps for d in step):
            raise GradcheckError("Numerical gradient for function expected to be zero")
        for nth, (o, of_inputs) in enumerate(analytical.items()):
            slopes = [(vs[o] * step[o]).sum() for step in steps]
            vj = of_inputs[i].reshape(x.shape)
            parts = [vj.real, vj.imag] if x.is_complex() else [vj]
            found = [(part * w).sum() for part, w in zip(parts, u, strict=True)]
            n, a = slopes[0], found[0]
            if x.is_complex():
                n, a = n + 1j * slopes[1], a + 1j * found[1]
            # Errors of atol in every entry add up to atol times v 1 u.
            atol = tol.atol * sum(float(w.sum()) for w in u) * float(vs[o].sum())
            if not _close(a, n, tol.rtol, atol):
                details = _slow_details(func, inputs, o, i, tol)
                raise GradcheckError(_mismatch(a, n, nth, i, part_of(o)) + details)


def _parts(func, results):
    """(function, part name) for each real-valued reading of the outputs."""
    if not any(out.is_complex() for out in results):
        return [(func, None)]

    def reading(part):
        def read(*args):
            outs = _as_tuple(func(*args))
            return tuple(getattr(out, part) if out.is_complex() else out for out in outs)

        return read

    return [(reading("imag"), "imaginary"), (reading("real"), "real")]


# Other promises of a backward function.


def _check_zero_in_zero_out(outputs, inputs):
    """Zero gradients in must give zero gradients out, of the right kind."""
    xs = _with_grad(inputs)
    zeros = [flambeau.zeros_like(out) for out in outputs]
    grads = flambeau.autograd.grad(outputs, xs, zeros, retain_graph=True, allow_unused=True)
    for g, x in zip(grads, xs, strict=True):
        if g is None:
            continue
        if not g.eq(0).all():
            raise GradcheckError("backward not multiplied by grad_output")
        for fits, what in (
            (g.dtype == x.dtype, "type"),
            (g.device == x.device, "device"),
            (g.size() == x.size(), "size"),
        ):
            if not fits:
                raise GradcheckError(f"grad is incorrect {what}")


def _check_undefined(func, inputs):
    """Backward must live with outputs whose gradient never arrives: all of them, or any one."""
    xs = _with_grad(inputs)
    count = len(_with_grad(_as_tuple(func(*inputs))))
    missing = [set(range(count)), *({i} for i in range(count) if count > 1)]
    for absent in missing:
        outputs = _with_grad(_as_tuple(func(*inputs)))
        outputs = [
            UndefinedGrad.apply(out) if i in absent else out for i, out in enumerate(outputs)
        ]
        zeros = [flambeau.zeros_like(out) for out in outputs]
        problem = cause = None
        try:
            grads = flambeau.autograd.grad(outputs, xs, zeros, allow_unused=True)
        except RuntimeError as error:
            problem = "Expected backward function to handle undefined output grads. "
            cause = error
        else:
            if any(g is not None and not g.eq(0).all() for g in grads):
                problem = (
                    "Expected all input grads to be undefined or zero when all output grads are "
                    "undefined or zero. "
                )
        if problem:
            warnings.warn(
                "Backwards compatibility: New undefined gradient support checking feature is "
                "enabled by default, but it may break existing callers of this function. If this "
                'is true for you, you can call this function with "check_undefined_grad=False" '
                "to disable the feature",
                stacklevel=3,
            )
            raise GradcheckError(problem + "A gradient that is None stands for zeros.") from cause


_BATCHED_FAILED = (
    "\n\ngradcheck or gradgradcheck failed while testing batched gradient computation."
)


def _compare_batched(got, wanted, o, i):
    if not flambeau.allclose(got, wanted):
        raise GradcheckError(
            f"For output {o} and input {i}:{_BATCHED_FAILED}\n\nGot:\n{got}\n\nExpected:\n{wanted}"
        )


def _check_batched(outputs, inputs):
    """Backward of a stack of vectors must be the stack of backwards."""
    xs = _with_grad(inputs)
    for o, out in enumerate(outputs):
        vectors = [flambeau.randn_like(out) for _ in range(2)]

        def backward(v, out=out, **options):
            return flambeau.autograd.grad(
                out, xs, v, retain_graph=True, allow_unused=True, **options
            )

        expected = zip(*(backward(v) for v in vectors), strict=True)
        try:
            got = backward(flambeau.stack(vectors), is_grads_batched=True)
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}{_BATCHED_FAILED}"
            ) from error
        for i, (g, singles) in enumerate(zip(got, expected, strict=True)):
            if g is None and all(single is None for single in singles):
                continue
            _compare_batched(g, flambeau.stack(singles), o, i)


# Entry points.


def _check_inputs(inputs):
    if not _with_grad(inputs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, "
            "but none of them have requires_grad=True."
        )
    for index, x in enumerate(inputs):
        if not (isinstance(x, flambeau.Tensor) and x.requires_grad):
            continue
        if x.dtype not in (flambeau.float64, flambeau.complex128):
            warnings.warn(
                f"Input #{index} requires gradient and is not a double precision floating point "
                "or complex. This check will likely fail if all the inputs are not of double "
                "precision floating point or complex. ",
                stacklevel=4,
            )
        if any(step == 0 and n > 1 for step, n in zip(x.stride(), x.size(), strict=True)):
            raise RuntimeError(
                f"The {index}th input has a dimension with stride 0. gradcheck only supports "
                "inputs that are non-overlapping to be able to compute the numerical gradients "
                "correctly. You should call .contiguous on the input before passing it to "
                "gradcheck."
            )


def _check(func, inputs, tol, fast_mode, check_undefined_grad, check_batched_grad):
    inputs = _as_tuple(inputs)
    _check_inputs(inputs)
    results = _as_tuple(func(*inputs))
    compare = _compare_projected if fast_mode else _compare_all
    for reading, part in _parts(func, results):
        seen = _as_tuple(reading(*inputs))

        def part_of(o, part=part):
            return part if results[o].is_complex() else None

        compare(reading, inputs, seen, tol, part_of)
    outputs = _with_grad(_as_tuple(func(*inputs)))
    if not outputs:
        return True
    if check_batched_grad:
        _check_batched(outputs, inputs)
    _check_zero_in_zero_out(outputs, inputs)
    if check_undefined_grad:
        _check_undefined(func, inputs)
    return True


# Forward mode.


def _check_forward(func, inputs, tol, batched):
    """Tangents of results, for each element of each input, against differences."""
    inputs = _as_tuple(inputs)
    _check_inputs(inputs)
    for i, x in enumerate(inputs):
        if not isinstance(x, flambeau.Tensor) or not x.requires_grad:
            continue
        for index in itertools.product(*map(range, x.shape)):
            for unit in (1, 1j) if x.is_complex() else (1,):
                _compare_tangents(func, inputs, i, index, unit, tol)
        if batched:
            _check_batched_tangents(func, inputs, i)


def _tangents(func, inputs, i, direction):
    """(value, tangent) of each result as the i-th input moves; the others stand still."""
    given = [t.detach() if isinstance(t, flambeau.Tensor) else t for t in inputs]
    with forward_ad.dual_level():
        for k, t in enumerate(inputs):
            if isinstance(t, flambeau.Tensor) and t.requires_grad:
                tangent = direction if k == i else flambeau.zeros_like(given[k])
                given[k] = forward_ad.make_dual(given[k], tangent)
        outs = [o for o in _as_tuple(func(*given)) if o.is_floating_point() or o.is_complex()]
        return [forward_ad.unpack_dual(o) for o in outs]


def _compare_tangents(func, inputs, i, index, unit, tol):
    x = inputs[i]
    numerical = _along(lambda: func(*inputs), x, (index, unit), tol.eps)
    direction = flambeau.zeros_like(x.detach())
    direction[index] = unit
    moved = _tangents(func, inputs, i, direction)
    if len(moved) != len(numerical):
        return
    nth = sum(isinstance(t, flambeau.Tensor) and t.requires_grad for t in inputs[:i])
    for o, ((value, tangent), wanted) in enumerate(zip(moved, numerical, strict=True)):
        found = flambeau.zeros_like(value.detach()) if tangent is None else tangent.detach()
        if not _close(found.reshape(-1), wanted.reshape(-1), tol.rtol, tol.atol):
            raise GradcheckError(
                f"Jacobian computed with forward mode mismatch for output {o} with respect to "
                f"input {nth},\nnumerical:{wanted}\nanalytical:{found}\n"
            )


def _check_batched_tangents(func, inputs, i):
    """Tangents of a stack of directions must be the stack of tangents."""

    def tangents(direction):
        moved = _tangents(func, inputs, i, direction)
        return tuple(flambeau.zeros_like(v) if t is None else t for v, t in moved)

    directions = [flambeau.randn_like(inputs[i].detach()) for _ in range(2)]
    expected = zip(*map(tangents, directions), strict=True)
    try:
        got = flambeau.func.vmap(tangents)(flambeau.stack(directions))
    except RuntimeError as error:
        raise GradcheckError(
            f"While computing batched gradients, got: {error}{_BATCHED_FAILED}"
        ) from error
    for o, (g, singles) in enumerate(zip(got, expected, strict=True)):
        _compare_batched(g, flambeau.stack(singles), o, i)


def gradcheck(
    func,
    inputs,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check the gradients of `func` at `inputs` against finite differences.

    Args:
        func: takes tensors, returns a tensor or a tuple of tensors.
        inputs: its arguments; those that require grad are checked, best in float64.
        eps: the step of the differences.
        atol, rtol: what `allclose` forgives.
        raise_exception: raise a GradcheckError on failure instead of returning False.
        nondet_tol: how much two backward passes over the same graph may differ.
        check_undefined_grad: also check that gradients which never arrive count as zeros.
        check_grad_dtypes: also check that gradients have the dtype of their inputs.
        check_batched_grad: also check gradients of a stack of vectors.
        check_batched_forward_grad: also check tangents of a stack of directions.
        fast_mode: compare random projections of the Jacobians; much cheaper for large inputs.
        masked: of sparse tensors only the elements that are there change.

    Returns:
        True if everything agrees.

    Example:
        >>> import flambeau as torch
        >>> x = torch.rand(3, dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradcheck(torch.sin, (x,))
        True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if check_batched_grad and not check_backward_ad:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_backward_ad to be True"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    tol = Tolerances(eps, atol, rtol, nondet_tol, check_grad_dtypes)
    several = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    if any(isinstance(t, flambeau.Tensor) and t._layout.strides is None for t in several):
        from flambeau._sparse.checking import on_dense  # which few programs need

        func, inputs = on_dense(func, several, bool(masked))
    try:
        if check_backward_ad:
            _check(func, inputs, tol, fast_mode, check_undefined_grad, check_batched_grad)
        if check_forward_ad:
            _check_forward(func, inputs, tol, check_batched_forward_grad)
        return True
    except GradcheckError:
        if raise_exception:
            raise
        return False


def _random_vector(out, noncontiguous):
    """A gradient for an output: uniform in [-1, 1), perhaps with gaps in memory."""
    v = 2 * flambeau.rand(out.shape, dtype=out.dtype, device=out.device) - 1
    if noncontiguous and v.numel() > 1:
        v = flambeau.stack((v, v), dim=-1)[..., 0]
    return v.detach().requires_grad_()


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check the second derivatives of `func`: a `gradcheck` of its backward pass.

    Args as for `gradcheck`, and:
        grad_outputs: the gradients to start backward with; random ones when left out.
        gen_non_contig_grad_outputs: make the random ones with gaps in memory.

    Example:
        >>> import flambeau as torch
        >>> x = torch.rand(3, dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradgradcheck(torch.sin, (x,))
        True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
        )
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError(
            "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
        )
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_rev_over_rev to be True"
        )
    inputs = _as_tuple(inputs)
    if grad_outputs is None:
        results = _with_grad(_as_tuple(func(*inputs)))
        vectors = tuple(_random_vector(out, gen_non_contig_grad_outputs) for out in results)
    else:
        vectors = _as_tuple(grad_outputs)

    def backward(*args):
        # Sliced from the front: with no vectors at all, args[-0:] would be everything.
        xs, vs = args[: len(inputs)], args[len(inputs) :]
        for x, given in zip(xs, inputs):  # forward mode hands them over without
            if isinstance(given, flambeau.Tensor) and given.requires_grad and not x.requires_grad:
                x.requires_grad_()
        outputs = _with_grad(_as_tuple(func(*xs)))
        grads = flambeau.autograd.grad(
            outputs, _with_grad(xs), vs, create_graph=True, allow_unused=True
        )
        return tuple(g for g in grads if g is not None)

    return gradcheck(
        backward,
        inputs + vectors,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


class _CallableModule(types.ModuleType):
    """A function by its name in torch.autograd, and a module by its path.

    Whoever imports the path first puts this module where the function should be, so it can be
    called.
    """

    def __call__(self, *args, **kwargs):
        return gradcheck(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
