"""Memory formats and the strided layout, as PyTorch names them."""


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
    """The kind of storage a tensor has; only strided exists so far."""

    __slots__ = ()

    def __repr__(self):
        return "torch.strided"

    def __reduce__(self):
        return "strided"


strided = layout()
