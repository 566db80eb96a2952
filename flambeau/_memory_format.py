"""Memory formats and layouts (how a tensor holds its elements), as PyTorch names them."""


class memory_format:
    """How dimensions are ordered in memory."""

    __slots__ = ("name",)

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return self.name


def _make(name):
    self = object.__new__(memory_format)
    self.name = name
    return self


contiguous_format = _make("contiguous_format")
channels_last = _make("channels_last")
channels_last_3d = _make("channels_last_3d")
preserve_format = _make("preserve_format")


class layout:
    """The kind of storage a tensor has."""

    __slots__ = ("name",)

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return self.name


def _kind(name):
    self = object.__new__(layout)
    self.name = name
    return self


strided = _kind("strided")
sparse_coo = _kind("sparse_coo")
sparse_csr = _kind("sparse_csr")
sparse_csc = _kind("sparse_csc")
sparse_bsr = _kind("sparse_bsr")
sparse_bsc = _kind("sparse_bsc")
jagged = _kind("jagged")
LAYOUTS = (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged)
