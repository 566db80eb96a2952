"""`torch.sparse`: functions of sparse tensors that are not among those of torch."""

from typing import Any

from flambeau import Tensor
from flambeau._sparse import creation, products, reductions
from flambeau._sparse.legacy import TYPED as _TYPED
from flambeau._sparse.tensors import is_sparse
from flambeau.interposing.overriding import answerable

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
]

globals().update(_TYPED)  # FloatTensor and its kin


@answerable
def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None, *, out: Any = None) -> Tensor:
    """The product of a sparse matrix and another matrix.

    Example:
        >>> s = torch.eye(2).to_sparse()
        >>> torch.sparse.mm(s, torch.ones(2, 2))
        tensor([[1., 1.],
                [1., 1.]])
    """
    if reduce not in (None, "sum"):
        return products.reduced_mm(mat1, mat2, reduce)
    if not is_sparse(mat1) and not is_sparse(mat2):
        return mat1.mm(mat2)
    return products.product(mat1, mat2)


@answerable
def addmm(
    mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> Tensor:
    """beta mat + alpha mat1 mat2, of which mat1 is sparse."""
    return products.masked_addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


@answerable
def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """Sums along dimensions: sparse as long as a dimension by coordinates is left."""
    return reductions.sparse_sum(input, dim, dtype)


@answerable
def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax of the elements that are there."""
    return reductions.softmax(input, dim, dtype)


@answerable
def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of softmax of the elements that are there."""
    return reductions.log_softmax(input, dim, dtype)


@answerable
def sampled_addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: float = 1.0,
    alpha: float = 1.0,
    out: Any = None,
) -> Tensor:
    """beta input + alpha mat1 mat2 at the places where input has elements."""
    return products.sampled_addmm(input, mat1, mat2, beta=beta, alpha=alpha, out=out)


@answerable
def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """A sparse matrix with rows of numbers along its diagonals."""
    return reductions.spdiags(diagonals, offsets, shape, layout)


@answerable
def spsolve(input: Tensor, other: Tensor, *, left: bool = True) -> Tensor:
    """The solution x of input x = other for a sparse matrix."""
    return products.spsolve(input, other)


class check_sparse_tensor_invariants:
    """Whether creation of sparse tensors checks what it is told: a context or a decorator.

    Example:
        >>> with torch.sparse.check_sparse_tensor_invariants():
        ...     torch.sparse.check_sparse_tensor_invariants.is_enabled()
        True
    """

    def __init__(self, enable: bool = True) -> None:
        self.wanted = enable
        self.before: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        return creation.invariants_checked()

    @staticmethod
    def enable() -> None:
        creation.check_invariants(True)

    @staticmethod
    def disable() -> None:
        creation.check_invariants(False)

    def __enter__(self) -> None:
        if self.before is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context "
                "manager instance for context nesting."
            )
        self.before = self.is_enabled()
        creation.check_invariants(self.wanted)

    def __exit__(self, *error: Any) -> None:
        creation.check_invariants(self.before)
        self.before = None

    def __call__(self, function: Any) -> Any:
        import functools

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.wanted):
                return function(*args, **kwargs)

        return checked


def as_sparse_gradcheck(gradcheck: Any) -> Any:
    """A gradcheck of functions with sparse tensors, as functions of values with dense results."""
    import functools

    from flambeau._sparse.checking import on_elements

    @functools.wraps(gradcheck)
    def checked(function: Any, inputs: Any, **kwargs: Any) -> Any:
        inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        masked = kwargs.pop("masked", True)
        return gradcheck(*on_elements(function, inputs, masked), **kwargs)

    return checked
