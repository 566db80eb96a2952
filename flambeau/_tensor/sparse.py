"""Methods of Tensor about sparse tensors; what answers loads when somebody calls one."""

from flambeau._tensor.attachment import METHODS

NAMES = (
    "coalesce is_coalesced sparse_mask indices values _indices _values _nnz crow_indices "
    "col_indices ccol_indices row_indices sparse_dim dense_dim _dimI _dimV to_sparse to_sparse_coo "
    "to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc to_dense sparse_resize_ "
    "sparse_resize_and_clear_ resize_as_sparse_ _coalesced_ smm sspaddmm narrow_copy"
).split()


def _later(name):
    def asked(self, *args, **kwargs):
        from flambeau._sparse import methods

        return methods.METHODS[name](self, *args, **kwargs)

    asked.__name__ = asked.__qualname__ = name
    return asked


METHODS.update({name: _later(name) for name in NAMES})
