"""Transposed convolutions of quantized tensors."""

from flambeau.ao.quantized_ops.convolution import ConvPackedParams, convolved, dynamic

PUBLIC = [
    f"conv_transpose{n}d{ending}"
    for n in (1, 2, 3)
    for ending in ("", "_prepack", "_unpack", "_dynamic")
]


def _prepack(weight, bias, stride, padding, output_padding, dilation, groups):
    return ConvPackedParams(
        weight, bias, stride, padding, dilation, groups, output_padding, transpose=True
    )


def _family(n):
    """The four functions for a number of dimensions."""

    def run(qx, packed_weight, output_scale, output_zero_point):
        """A quantized transposed convolution."""
        return convolved(qx, packed_weight, output_scale, output_zero_point, False)

    def prepack(weight, bias, stride, padding, output_padding, dilation, groups):
        """A weight of dtype qint8 and its bias, packed."""
        return _prepack(weight, bias, stride, padding, output_padding, dilation, groups)

    def unpack(packed_weights):
        """Weight and bias."""
        return packed_weights.unpack()

    def of_floats(qx, packed_weight, reduce_range=False):
        """Floats, quantized by their own range; gives floats."""
        return dynamic(qx, packed_weight, reduce_range)

    stem = f"conv_transpose{n}d"
    names = (stem, stem + "_prepack", stem + "_unpack", stem + "_dynamic")
    return dict(zip(names, (run, prepack, unpack, of_floats)))


for _n in (1, 2, 3):
    globals().update(_family(_n))
