"""Symmetric indefinite matrices: ldl_factor and ldl_solve. PyTorch has no derivatives for them."""

from flambeau.ops.support import not_implemented_derivative
from flambeau.ops.table import composite, public, template
from flambeau.return_types import linalg_ldl_factor as LdlFactor
from flambeau.return_types import linalg_ldl_factor_ex as LdlFactorEx


@template(
    "linalg_ldl_factor_ex", variants="", outputs=3, node="NotImplemented",
    grad=not_implemented_derivative("linalg_ldl_factor_ex"),
)  # fmt: skip
def _linalg_ldl_factor_ex(
    input, hermitian: bool = False, check_errors: bool = False, name: str = ""
):
    """(packed factors, pivots, info)."""


@composite(variants="out", bind=True, outputs=3, exact_out=True)
def linalg_ldl_factor_ex(input, *, hermitian: bool = False, check_errors: bool = False):
    """A = L D Lᵀ (or Lᴴ), packed, with pivots and error codes."""
    name = "torch.linalg.ldl_factor_ex"
    return LdlFactorEx(public("_linalg_ldl_factor_ex")(input, hermitian, check_errors, name))


@composite(variants="out", bind=True, outputs=2, exact_out=True)
def linalg_ldl_factor(input, *, hermitian: bool = False):
    """A = L D Lᵀ (or Lᴴ), packed, with pivots."""
    found = public("_linalg_ldl_factor_ex")(input, hermitian, True, "torch.linalg.ldl_factor")
    return LdlFactor(found[:2])


_REFUSED = not_implemented_derivative("linalg_ldl_solve")


@template(
    "linalg_ldl_solve", variants="out", node="NotImplemented",
    grad=dict(LD=_REFUSED, B=_REFUSED), exact_out=True)  # fmt: skip
def linalg_ldl_solve(LD, pivots, B, *, hermitian: bool = False):
    """Solve A X = B by the packed factors of A."""
