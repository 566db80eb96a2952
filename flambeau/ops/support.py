"""Which dtypes an op refuses, and in which words.

PyTorch has no kernel for some dtypes (`add` of uint16, `lt` of complex numbers); a row says so with
`dtypes=refuses("add_stub", "wide")`. The group of a dtype is one of bool, int, wide (uint16,
uint32, uint64), half, float, complex, chalf (complex32) and float8; the dtype that counts is the
one the op would compute in. The last two have few kernels: a row that says refuses() at all refuses
them, but for those listed here. All refuse the dtypes that only have a name.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau.ops.rules import weighted

GROUPS = {t: "bool int float complex".split()[t.category] for t in d.ALL}
GROUPS |= dict.fromkeys((d.uint16, d.uint32, d.uint64), "wide")
GROUPS |= dict.fromkeys((d.float16, d.bfloat16), "half")
GROUPS |= dict.fromkeys(d.QUANTIZED, "quantized")
GROUPS |= dict.fromkeys(d.FLOAT8.values(), "float8")
GROUPS[d.complex32] = "chalf"

# What PyTorch has for dtypes that most kernels refuse
HAS = {
    "float8": frozenset("abs mul eq ne where isnan isinf isfinite".split()),
    "chalf": frozenset("abs add addcmul conj_physical masked_fill mul neg rsub sgn sub".split()),
}
INTEGRAL = "bool int wide"
FLOATING = "half float"


def refuses(name, groups, **instead):
    """A `dtypes=` check: no kernel called name for these groups.

    instead: for a group, the exception (type, text) that is raised in place of "not implemented".
    """
    refused = frozenset(groups.split())

    def check(op, operands):
        compute = op.rule(weighted(operands))[0]
        group = GROUPS.get(compute, "named")
        told = instead.get("complex" if group == "chalf" else group)
        if told is not None:
            kind, text = told
            raise kind(text)
        if is_refused(op, group, refused):
            raise errors.not_implemented(name, compute)

    return check


def is_refused(op, group, refused):
    """Is there no kernel of an op for a group, which refuses some?"""
    return group in refused or group == "named" or op.name not in HAS.get(group, (op.name,))


def refuse_complex32(name, t):
    """No kernel called name computes with complex32; for ops that are no pointwise rows."""
    if t.dtype is d.complex32:
        raise errors.not_implemented(name, t.dtype)


def group_of(operand):
    """The group of a layout, or of a Python number type."""
    found = d.scalar_dtype(operand) if isinstance(operand, type) else operand.dtype
    return GROUPS.get(found, "named")


def dtype_of(operand):
    return d.scalar_dtype(operand) if isinstance(operand, type) else operand.dtype


def same_dtype(text):
    """A check that all operands agree; text may name {first} and {second}."""

    def check(op, operands):
        first = dtype_of(operands[0])
        for o in operands[1:]:
            if dtype_of(o) is not first:
                raise RuntimeError(
                    text.format(first=first.scalar_name, second=dtype_of(o).scalar_name)
                )

    return check


def every(*checks):
    """Several checks, one after the other."""

    def check(op, operands):
        for c in checks:
            c(op, operands)

    return check


def not_implemented_derivative(op):
    """A derivative that PyTorch does not have: recorded, and refused when it is asked for."""

    def refuse(g):
        raise RuntimeError(f"derivative for aten::{op} is not implemented")

    refuse.without_derivative = op
    return refuse


def refuse_gradient(function, **tensors):
    """PyTorch has no derivative with respect to some arguments, and says so at once."""
    for name, t in tensors.items():
        if getattr(t, "requires_grad", False) and is_recorded(t):
            raise errors.not_differentiable(function, name)


def is_recorded(t):
    """Would a call with this tensor be recorded? Without gradients, nothing that is computed."""
    return t.requires_grad and t.reshape(-1)[:0].sum().requires_grad
