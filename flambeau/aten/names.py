"""What the ops of the table are called in profiles and traces: PyTorch's `aten::` names.

Most rows have the name of PyTorch's op. Listed here are those that stand for an op of another name,
those that PyTorch writes in Python (nothing is shown for them, only for what they call), and the
way to tell what an index between brackets does. Rows that PyTorch has no counterpart for, such as
losses that are summed as they are computed, are shown as `flambeau::`.
"""

import re
from collections.abc import Callable
from typing import Any

from flambeau._layout import Layout
from flambeau._tensor import Tensor
from flambeau.ops.table import TABLE

_RENAMED = {
    "T": "numpy_T",
    "H": "matrix_H",
    "_attention": "_scaled_dot_product_flash_attention_for_cpu",
    "_attention_backward": "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_attention_gradients": "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_batch_norm_backward": "native_batch_norm_backward",
    "_batched_product": "bmm",
    "_cholesky": "cholesky",
    "_diagonal_copy": "diagonal_copy",
    "_geqrf": "geqrf",
    "_grid_sampler_2d": "grid_sampler_2d",
    "_grid_sampler_3d": "grid_sampler_3d",
    "_grid_sampler_backward": "grid_sampler_2d_backward",
    "_group_norm_backward": "native_group_norm_backward",
    "_layer_norm_backward": "native_layer_norm_backward",
    "_logsumexp": "logsumexp",
    "_max_all": "max",
    "_max_dim": "max",
    "_min_all": "min",
    "_min_dim": "min",
    "_median_all": "median",
    "_median_dim": "median",
    "_nanmedian_all": "nanmedian",
    "_nanmedian_dim": "nanmedian",
    "_nll_loss": "nll_loss_forward",
    "_nll_loss2d": "nll_loss2d_forward",
    "_nll_loss_backward": "nll_loss_backward",
    "_norm_max": "linalg_vector_norm",
    "_norm_min": "linalg_vector_norm",
    "_norm_sum": "linalg_vector_norm",
    "_rms_norm_backward": "_fused_rms_norm_backward",
    "_split": "split",
    "_std": "std",
    "_std_mean": "std_mean",
    "_var": "var",
    "_var_mean": "var_mean",
    "_view_dtype": "view",
    "alpha_dropout_with_mask": "alpha_dropout",
    "bag_gradient": "_embedding_bag_dense_backward",
    "bags": "_embedding_bag",
    "cdist_gradient": "_cdist_backward",
    "conj_kernel": "_conj_physical",
    "convolution_to_input": "convolution_backward",
    "convolution_to_weight": "convolution_backward",
    "convolution_to_weight_and_bias": "convolution_backward",
    "count_all_nonzero": "count_nonzero",
    "cross_entropy": "cross_entropy_loss",
    "div_floor": "div",
    "div_trunc": "div",
    "dropout_with_mask": "native_dropout",
    "euclidean_distances": "_euclidean_dist",
    "grouped_mm": "_grouped_mm",
    "logsigmoid": "log_sigmoid_forward",
    "masked_scale": "_masked_scale",
    "multi_margin": "multi_margin_loss",
    "multi_margin_gradient": "multi_margin_loss_backward",
    "multilabel_margin": "multilabel_margin_loss_forward",
    "pair_distances": "_pdist_forward",
    "pdist_gradient": "_pdist_backward",
    "prelu_kernel": "_prelu_kernel",
    "round_decimals": "round",
    "self_distances": "_cdist_forward",
}
_PATTERNS = (  # families of rows
    (r"_(adaptive_max_pool[23]d(_backward)?)", r"\1"),
    (r"_(avg_pool[23]d(_backward)?)", r"\1"),
    (r"_(max_pool[23]d)", r"\1_with_indices"),
    (r"_(max_pool[23]d)_backward", r"\1_with_indices_backward"),
    (r"_(max_unpool[23]d)", r"\1"),
    (r"_(fractional_max_pool[23]d(_backward)?)", r"\1"),
    (r"_reflect_(pad[123]d(_backward)?)", r"reflection_\1"),
    (r"_replicate_(pad[123]d(_backward)?)", r"replication_\1"),
    (r"_(upsample_(?:bicubic2d|bilinear2d|linear1d|trilinear3d|nearest[123]d)(_backward)?)", r"\1"),
    (r"_(linalg_(?:cholesky_ex|eig|inv_ex|ldl_factor_ex|lstsq|lu|lu_factor_ex|pinv|qr))", r"\1"),
)
# rows that no op of PyTorch corresponds to; composites among them are not shown at all
_VISION = frozenset({"nms", "roi_align", "roi_pool"})  # rows that come with vision
_OWN = frozenset(
    """
    _nms_sorted _roi_align_backward normalize_channel pixel_byte pixel_channel
    _circular_pad1d _circular_pad1d_backward _circular_pad2d _circular_pad2d_backward
    _circular_pad3d _circular_pad3d_backward _complex_std _complex_std_mean _complex_var
    _complex_var_mean _cross_entropy_rows _cross_entropy_rows_backward
    _cross_entropy_wide _cross_entropy_wide_backward
    _linalg_factored_solve _logsumexp_backward _logsumexp_rows
    _lu_permutation _rnn_layer _rnn_layer_backward _rnn_step _rnn_step_backward _unique_lines
    _unique_runs absolute_error absolute_error_total adaptive_max_pool1d_with_indices
    adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices affine_grid
    alignment_gradient alignments bag_dots binary_entropy binary_entropy_total celu_of_result
    divergence divergence_total dropout1d dropout2d dropout3d eig elu_of_result fold
    fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices frexp_kernel
    gaussian_likelihood gaussian_likelihood_total gaussian_nll_loss grid_sample gumbel_softmax
    hardtanh_of_result hinge hinge_total huber_error huber_error_total interpolate
    leaky_relu_of_result linear_cross_entropy lobpcg local_response_norm log_divergence
    log_divergence_total logit_entropy logit_entropy_total lp_pool1d lp_pool2d lp_pool3d lstsq lu
    matrix_rank max_unpool1d multi_head_attention_forward multilabel_soft_margin_loss
    nextafter_bfloat16 nextafter_float16 nonzero_rows normalize ones_at pca_lowrank
    poisson_likelihood poisson_likelihood_total ranking ranking_total repeated_positions
    segment_rows selu_of_result smooth_absolute_error smooth_absolute_error_total soft_margin
    soft_margin_total
    softmin softsign solve squared_error squared_error_total svd_lowrank symeig tanhshrink
    triplet_margin_with_distance_loss unique upsample upsample_bilinear upsample_nearest
    weighted_absolute_error weighted_absolute_error_total weighted_binary_entropy
    weighted_binary_entropy_total weighted_huber_error weighted_huber_error_total
    weighted_logit_entropy weighted_logit_entropy_total weighted_squared_error
    weighted_squared_error_total broadcast_shapes padded_sequences linear_to_weight
    _rnn_stack _rnn_stack_backward sparse_table_gradient
    quantized_i8 quantized_u8 quantized_i32 quantized_channels_i8 quantized_channels_u8
    quantized_channels_i32 dequantized dequantized_shifted faked leveled_i8 leveled_u8 leveled_i32
    summed_i8 summed_u8 rounding_error rows_product
    """.split()
)


def row_name(name: str) -> str | None:
    """The shown name of a row, None if it is not to be shown."""
    name = name.removeprefix("functional_")
    if name in _RENAMED:
        return "aten::" + _RENAMED[name]
    for pattern, replacement in _PATTERNS:
        if re.fullmatch(pattern, name):
            return "aten::" + re.sub(pattern, replacement, name)
    if name in _VISION:
        return "torchvision::" + name
    if name in _OWN:
        row = TABLE.get(name) or TABLE["functional_" + name]
        return None if row.kind == "composite" else "flambeau::" + name.lstrip("_")
    return "aten::" + name


def function_name(name: str, aliases: dict[str, str]) -> tuple[str | None, str]:
    """(shown name, row) of a public function, in-place forms included."""
    row, ending = aliases.get(name, name), ""
    if row not in TABLE and name.endswith("_"):
        row, ending = aliases.get(name[:-1], name[:-1]), "_"
    shown = row_name(row) if row in TABLE else "aten::" + name
    return (None if shown is None else shown + ending), row


def _subscript(args: tuple, kwargs: dict) -> str:
    """x[...] by what stands between the brackets."""
    key = args[1] if len(args) > 1 else None
    items = key if type(key) is tuple else (key,)
    kinds = {type(item) for item in items}
    if any(isinstance(item, (Tensor, list)) or hasattr(item, "__array__") for item in items):
        return "aten::index"
    for kind, name in ((slice, "slice"), (int, "select"), (type(None), "unsqueeze")):
        if kind in kinds:
            return "aten::" + name
    return "aten::alias"


def _assignment(args: tuple, kwargs: dict) -> str:
    """x[...] = value."""
    key = args[1] if len(args) > 1 else None
    items = key if type(key) is tuple else (key,)
    if any(isinstance(item, (Tensor, list)) or hasattr(item, "__array__") for item in items):
        return "aten::index_put_"
    number = len(args) > 2 and not isinstance(args[2], Tensor)
    return "aten::fill_" if number else "aten::copy_"


Name = str | Callable[[tuple, dict], str]

# methods of Tensor that are no rows
METHODS: dict[str, Name] = {
    "__getitem__": _subscript,
    "__setitem__": _assignment,
    "__matmul__": "aten::matmul",
    "__rmatmul__": "aten::matmul",
    "__rsub__": "aten::rsub",
    "__rtruediv__": "aten::div",
    "__rdiv__": "aten::div",
    "__rpow__": "aten::pow",
    "__rmod__": "aten::remainder",
    "__rfloordiv__": "aten::floor_divide",
    "__bool__": "aten::is_nonzero",
    "is_nonzero": "aten::is_nonzero",
    "__int__": "aten::item",
    "__float__": "aten::item",
    "__index__": "aten::item",
    "__complex__": "aten::item",
    **dict.fromkeys(
        "to type_as bfloat16 bool byte char double float half int long short".split(), "aten::to"
    ),
    **{
        name: "aten::" + name
        for name in (
            "item copy_ detach detach_ fill_diagonal_ new_empty new_empty_strided new_full "
            "new_ones new_zeros resize_ resize_as_ set_ sum_to_size where zero_"
        ).split()
    },
}

CREATION = (
    "arange empty empty_like empty_strided eye full full_like linspace logspace ones ones_like "
    "scalar_tensor zeros zeros_like normal rand rand_like randint randint_like randn randn_like "
    "randperm bartlett_window blackman_window hamming_window hann_window kaiser_window"
).split()


# what goes between tensors and other data; PyTorch shows no op of its own for most of these
DATA = {
    "tensor": "aten::tensor",
    "as_tensor": "aten::as_tensor",
    "tolist": "flambeau::tolist",
    "numpy": "flambeau::numpy",
    **{
        name: "flambeau::" + name
        for name in "asarray from_dlpack to_dlpack from_numpy frombuffer new_tensor new".split()
    },
}
# rules of updates that PyTorch has an op for
_FUSED = {"adam": "_fused_adam_", "sgd": "_fused_sgd_", "adagrad": "_fused_adagrad_"}


def update_name(args: tuple, kwargs: dict) -> str:
    """An optimizer's update, by its rule."""
    rule = args[0] if args else kwargs["name"]
    return "aten::" + _FUSED[rule] if rule in _FUSED else f"flambeau::{rule}_"


def type_of(value: Any) -> str:
    """How PyTorch's profiler calls the type of an argument (a tensor or its layout)."""
    if isinstance(value, (Tensor, Layout)):
        name = str(getattr(value, "dtype").scalar_name)  # noqa: B009  layouts have no annotations
        return _C_NAMES.get(name, name)
    if type(value) in (bool, int, float, complex):
        return "Scalar"
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(v, (Tensor, Layout)) for v in value):
            return "TensorList"
        return "ScalarList"
    return ""


_C_NAMES = {
    "Byte": "unsigned char",
    "Char": "signed char",
    "Short": "short int",
    "Int": "int",
    "Long": "long int",
    "Bool": "bool",
    "Float": "float",
    "Double": "double",
    "Half": "c10::Half",
    "BFloat16": "c10::BFloat16",
    "ComplexFloat": "c10::complex<float>",
    "ComplexDouble": "c10::complex<double>",
}
