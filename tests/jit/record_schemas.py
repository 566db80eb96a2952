"""Writes flambeau/jit/schemas.txt: the signatures of ops that are not in flambeau/aten/aten.txt.

Run with an installed PyTorch: python tests/jit/record_schemas.py
"""

import pathlib
import re

import torch

from flambeau.aten.overloads import _function

# ops of lists, strings, numbers and modules, and ops of tensors under names of aten alone
PRIMITIVES = """Bool Complex ComplexImplicit Delete Float FloatImplicit Int IntImplicit
ScalarImplicit Size append bin can_cast capitalize center chr clear copy count degrees dict divmod
endswith expandtabs extend fabs factorial find floordiv format get hash hex insert isalnum isalpha
isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper items join keys
len list ljust lower lstrip manual_seed mathremainder modf oct ord partition percentFormat pop
popitem promote_types radians range remove replace reverse rfind rindex rjust rpartition rsplit
rstrip save seed setdefault sorted splitlines startswith str strip swapcase title update upper
values warn zfill is_scripting is_grad_enabled set_grad_enabled wait cross_entropy_loss nll_loss_nd
nll_loss2d numpy_T _convolution _convolution_mode lift lift_fresh lift_fresh_copy detach_copy elu_
gelu_ hardsigmoid_ hardswish_ hardtanh_ leaky_relu_ mish_ relu6_ silu_ log_sigmoid
reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
replication_pad3d upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
upsample_nearest2d upsample_nearest3d upsample_trilinear3d dequantize to_dense unique_dim
unique_dim_consecutive _unique2 nonzero_numpy result_type sym_size sym_numel gamma matrix_H
special_digamma special_erf special_erfc special_erfinv special_exp2 special_expit special_expm1
special_gammaln special_i0 special_log1p special_log_softmax special_logit special_logsumexp
special_psi special_round special_sinc special_softmax special_xlogy __and__ __or__ __xor__ __not__
__is__ __isnot__ __contains__ __getitem__ __derive_index __range_length __lshift__ __rshift__
_nested_tensor_from_mask
_nested_tensor_from_mask_left_aligned _transformer_encoder_layer_fwd _native_multi_head_attention
to_padded_tensor nested_to_padded_tensor is_autocast_enabled is_autocast_cpu_enabled
get_autocast_dtype __round_to_zero_floordiv _set_item __interpolate fft_fftfreq
fft_rfftfreq crow_indices col_indices ccol_indices row_indices indices coalesce is_coalesced
to_sparse
to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc to_sparse_coo sparse_coo_tensor
sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor
sparse_compressed_tensor""".split()


def is_kept(schema):
    space, _, name = schema.name.partition("::")
    if schema.overload_name.endswith(("out", "out_", "dimname", "dimnames", "names")):
        return False
    if any(a.kwarg_only and a.is_out for a in schema.arguments):
        return False
    if space == "prim":
        return not name.startswith(("Check", "profile", "Tensor", "rpc", "Autograd"))
    return space == "aten" and (
        name in PRIMITIVES or ("Dimname" not in str(schema) and _function(name) is not None)
    )


def main():
    names = sorted({s.name for s in torch._C._jit_get_all_schemas()})
    lines = []
    package = pathlib.Path(__file__).parents[2] / "flambeau"
    ops = (package / "aten" / "aten.txt").read_text().splitlines()
    known = {"aten::" + op[: op.index("(")] for op in ops}
    for name in names:
        for schema in torch._C._jit_get_schemas_for_operator(name):
            if is_kept(schema):
                text = re.sub(r"\((\w+)\)|\((\w+|\*)( -> [\w*]+)?\)", "", str(schema))
                lines.append(text.replace("SymInt", "int"))
    lines = [line for line in lines if line[: line.index("(")] not in known]
    target = package / "jit" / "schemas.txt"
    target.write_text("\n".join(lines) + "\n")
    print(len(lines), "schemas")


if __name__ == "__main__":
    main()
