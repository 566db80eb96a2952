"""Where ops of aten differ from the functions here: tables for calls.py."""

from typing import Any

# op -> its name for an argument: the name here
_SECTIONS = dict.fromkeys(
    "sections indices tensor_indices_or_sections".split(), "indices_or_sections"
)
RENAMED: dict[str, dict[str, str]] = {
    **{
        name: {"train": "training"}
        for name in "dropout alpha_dropout feature_dropout feature_alpha_dropout".split()
    },
    **{name: {"indices": "input"} for name in ("embedding", "embedding_bag")},
    "split": {"self": "tensor", "split_size": "split_size_or_sections"},
    "split_with_sizes": {"split_sizes": "split_size_or_sections"},
    **dict.fromkeys("tensor_split hsplit vsplit dsplit".split(), _SECTIONS),
    "pad_sequence": {"sequences": "tensors"},
    "linalg_lstsq": {"b": "other"},
    **{name: {"from": "from_"} for name in ("uniform_", "random_")},
    **{name: {"axis0": "dim0", "axis1": "dim1"} for name in ("swapaxes", "swapaxes_")},
    **{
        name: {"x": "input"}
        for name in "special_airy_ai special_scaled_modified_bessel_k0 "
        "special_scaled_modified_bessel_k1 special_spherical_bessel_j0".split()
    },
}

# parameters of functions here that ops do not have; they do not change what is computed
IGNORED = frozenset(
    "size_average reduce _stacklevel inplace _lower return_indices out requires_grad names "
    "max_norm norm_type kwargs unbiased blocks".split()
)

# what PyTorch's functions in Python add to the call of the op
ADDED: dict[str, dict[str, Any]] = {
    "batch_norm": {"cudnn_enabled": False},
    "instance_norm": {"cudnn_enabled": False},
    "layer_norm": {"cudnn_enable": False},
    "group_norm": {"cudnn_enabled": False},
}

# a number as second argument is made a tensor
TENSOR_FIRST = frozenset(
    "add sub mul div add_ sub_ mul_ div_ true_divide multiply subtract divide floor_divide "
    "floor_divide_ true_divide_ multiply_ subtract_ divide_ bitwise_left_shift "
    "bitwise_right_shift logaddexp maximum minimum atan2 logical_and logical_or logical_xor "
    "copysign xlogy".split()
)

# overloads that are asked first, where the order of lines does not say it
PREFERRED: dict[str, tuple[str, ...]] = {
    "var": ("dim", "correction"),
    "std": ("dim", "correction"),
    "var_mean": ("dim", "correction"),
    "std_mean": ("dim", "correction"),
    "embedding_bag": ("padding_idx",),
    "conv_transpose2d": ("input",),
    "flatten": ("using_ints",),
    **{f"upsample_{kind}": ("vec",) for kind in "nearest1d nearest2d nearest3d linear1d bilinear2d "
       "bicubic2d trilinear3d".split()},
    "sum": ("default", "dim_IntList"),
    "mean": ("default", "dim"),
    "empty": ("memory_format",),
    "arange": ("default", "start", "start_step"),
}  # fmt: skip

# operators that have ops of their own
OPERATORS = {
    "__and__": "__and__",
    "__rand__": "__and__",
    "__or__": "__or__",
    "__ror__": "__or__",
    "__xor__": "__xor__",
    "__rxor__": "__xor__",
    "__lshift__": "__lshift__",
    "__rshift__": "__rshift__",
    "__iand__": "__iand__",
    "__ior__": "__ior__",
    "__ixor__": "__ixor__",
    "__rsub__": "rsub",
}

# other names of ops, which PyTorch records as they are called
ALIASES = frozenset(
    "absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh clip divide fix greater "
    "greater_equal less less_equal moveaxis multiply negative not_equal row_stack subtract "
    "swapaxes swapdims true_divide".split()
)

# ops with whole numbers as defaults that functions here have as floats
LOOSE = frozenset({"softplus", "dist"})

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
BAGS = {"sum": 0, "mean": 1, "max": 2}

# functions that make tensors say where
FACTORIES = frozenset(
    "arange empty empty_strided eye full linspace logspace ones scalar_tensor zeros rand randint "
    "randn randperm normal tril_indices triu_indices bartlett_window blackman_window "
    "hamming_window hann_window kaiser_window".split()
)
LIKE = frozenset(
    "empty_like full_like ones_like zeros_like rand_like randn_like randint_like new_zeros "
    "new_ones new_full new_empty new_empty_strided".split()
)
