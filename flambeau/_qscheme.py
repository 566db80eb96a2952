"""How quantized tensors are quantized, as PyTorch names it."""


class qscheme:
    """A way to choose scales and zero points: one pair or one per channel, symmetric or not."""

    __slots__ = ("name",)

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return self.name

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


def _make(name):
    self = object.__new__(qscheme)
    self.name = name
    return self


per_tensor_affine = _make("per_tensor_affine")
per_channel_affine = _make("per_channel_affine")
per_tensor_symmetric = _make("per_tensor_symmetric")
per_channel_symmetric = _make("per_channel_symmetric")
per_channel_affine_float_qparams = _make("per_channel_affine_float_qparams")
ALL = {
    found.name: found
    for found in (
        per_tensor_affine,
        per_channel_affine,
        per_tensor_symmetric,
        per_channel_symmetric,
        per_channel_affine_float_qparams,
    )
}
