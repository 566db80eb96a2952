"""Named results: what ops with several outputs return, as in `torch.return_types`.

Each is a tuple with a name per item, printed in PyTorch's way; `sort((values, indices))` makes one.
Nothing here knows tensors, so rows, launchers and public functions alike may use it.
"""

from operator import itemgetter


class _Result(tuple):
    """A tuple whose items have names."""

    __slots__ = ()
    n_fields = n_sequence_fields = 0
    n_unnamed_fields = 0
    __match_args__: tuple = ()

    def __new__(cls, items):
        self = tuple.__new__(cls, items)
        if len(self) != cls.n_fields:
            raise TypeError(
                f"torch.return_types.{cls.__name__}() takes a {cls.n_fields}-sequence "
                f"({len(self)}-sequence given)"
            )
        return self

    def __repr__(self):
        items = ",\n".join(f"{n}={v!r}" for n, v in zip(self.__match_args__, self))
        return f"torch.return_types.{type(self).__name__}(\n{items})"

    def __reduce__(self):
        return type(self), (tuple(self),)


def _make(name, fields):
    names = tuple(fields.split())
    space = {n: property(itemgetter(k), doc=f"item {k}") for k, n in enumerate(names)}
    space |= {"__slots__": (), "__match_args__": names, "__module__": __name__}
    space |= {"n_fields": len(names), "n_sequence_fields": len(names)}
    return type(name, (_Result,), space)


_FIELDS = {
    "values indices": "cummax cummin kthvalue max median min mode nanmedian sort topk",
    "min max": "aminmax",
    "mantissa exponent": "frexp",
    "hist bin_edges": "histogram histogramdd",
    "primal tangent": "_unpack_dual",
    "a tau": "geqrf",
    "Q R": "qr linalg_qr",
    "U S V": "svd",
    "U S Vh": "linalg_svd _linalg_svd",
    "sign logabsdet": "slogdet linalg_slogdet",
    "L info": "linalg_cholesky_ex",
    "eigenvalues eigenvectors": "linalg_eig linalg_eigh _linalg_eigh",
    "inverse info": "linalg_inv_ex",
    "LD pivots": "linalg_ldl_factor",
    "LD pivots info": "linalg_ldl_factor_ex",
    "solution residuals rank singular_values": "linalg_lstsq",
    "P L U": "linalg_lu lu_unpack",
    "LU pivots": "linalg_lu_factor",
    "LU pivots info": "linalg_lu_factor_ex _lu_with_info",
    "result info": "linalg_solve_ex",
    "solution cloned_coefficient": "triangular_solve",
}
for _fields, _names in _FIELDS.items():
    for _name in _names.split():
        globals()[_name] = _make(_name, _fields)

all_return_types = [
    v for v in globals().values() if isinstance(v, type) and issubclass(v, _Result) and v.n_fields
]
