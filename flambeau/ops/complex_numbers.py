"""Complex numbers: from parts and from angles, conjugates and directions.

Conjugation is carried out at once: nothing here is lazy, so resolve_conj has nothing to do. The
parts themselves (`real`, `imag`) are views and live in `views.py`.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau.codegen import scalar as m
from flambeau.ops.elementary import real_part_of, sgn_of
from flambeau.ops.rules import floating_magnitude, promoted
from flambeau.ops.support import refuses, same_dtype
from flambeau.ops.table import composite, pointwise


def _angle_gradient(g, input):
    if isinstance(input, m.Complex) or (not isinstance(input, m.Expr) and input.dtype.is_complex):
        size = m.abs(input)
        turn = m.where(size == 0, 0, g / m.where(size == 0, 1, size * size))
        return input * turn * 1j
    return 0


@pointwise(
    dtype=floating_magnitude,
    dtypes=refuses("angle_cpu", ""),
    variants="function method out",
    grad=_angle_gradient,
)
def angle(input):
    """The angle of a complex number; 0 or pi for real ones."""
    if isinstance(input, m.Complex):
        return m.atan2(input.im, input.re)
    return m.where(input != input, input, m.where(input < 0, math.pi, m.const(0, input.type)))


@pointwise(dtype=promoted, variants="", node="ConjPhysicalBackward0", grad=lambda g: m.conj(g))
def conj_kernel(input):
    """The complex conjugate."""
    return m.conj(input)


@composite(variants="function method inplace out")
def conj_physical(input):
    """The complex conjugate; real tensors are returned as they are."""
    return m.tensor_word("conj_kernel")(input) if input.dtype.is_complex else input


@composite(variants="function method")
def conj(input):
    """The complex conjugate; real tensors are returned as they are."""
    return m.tensor_word("conj_kernel")(input) if input.dtype.is_complex else input


@composite(variants="function method")
def resolve_conj(input):
    """input: conjugation is never put off here."""
    return input


@composite(variants="function method")
def resolve_neg(input):
    """input: negation is never put off here."""
    return input


def _complex_of_parts(operands):
    real = operands[0][0]
    return real, real.to_complex()


_PARTS = "Expected both inputs to be Half, Float or Double tensors but got {} and {}"
_DIFFERENT = (
    "Expected object of scalar type {first} but got scalar type {second} for second argument"
)


_OUT = (
    "Expected object of scalar type {wanted.scalar_name} but got scalar type {got.scalar_name} for "
    "argument 'out'"
)


def _check_parts(op, operands):
    if any(o.dtype not in (d.float16, d.float32, d.float64) for o in operands):
        raise RuntimeError(_PARTS.format(*(o.dtype.scalar_name for o in operands)))
    same_dtype(_DIFFERENT)(op, operands)
    if op.name == "polar" and operands[0].dtype is d.float16:
        raise errors.not_implemented("polar_cpu", d.float16)


@pointwise(
    dtype=_complex_of_parts,
    dtypes=_check_parts,
    numbers=False,
    variants="function out",
    exact_out=_OUT,
    grad=dict(real=lambda g: real_part_of(g), imag=lambda g: real_part_of(g * -1j)),
)
def complex(real, imag):
    """Complex numbers with these parts."""
    return m.Complex(real, imag)


@pointwise(
    dtype=_complex_of_parts,
    dtypes=_check_parts,
    numbers=False,
    variants="function out",
    exact_out=_OUT,
    domain=(0, math.inf),
    grad=dict(
        abs=lambda g, out: real_part_of(m.conj(g) * sgn_of(out)),
        angle=lambda g, out: real_part_of(m.conj(g) * out * 1j),
        # along the angle out moves by i * out
    ),
)
def polar(abs, angle):
    """Complex numbers with these sizes and angles."""
    return m.Complex(abs * m.cos(angle), abs * m.sin(angle))
