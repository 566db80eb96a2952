"""Every public name as the first thing a process touches. Run as a program: names in, failures out.

Imports are lazy, so what works may depend on what was used before. A fork of a process that has
imported flambeau and nothing more is as fresh as a new process, and cheap. Each child calls one
name: with the arguments of CALLS, or with plain ones, one after the other until a call succeeds.
"""

import itertools
import os
import signal
import sys
import warnings
from pathlib import Path

SHAPES = ((3, 3), (2, 3, 4, 4), (4,), (2, 3, 4), (2, 2, 3, 3, 3), (), (1, 3, 3))
WORDS = {  # what parameters of these names are given; others get 0, 0.5 or 1
    "dtype": None, "generator": None, "reduction": "mean", "mode": "constant", "n": 2, "p": 0.5,
    "output_size": 2, "kernel_size": 2, "size": (3, 3), "shape": (9,), "normalized_shape": (4,),
    "num_groups": 1, "stride": 1, "pad": (1, 1), "groups": 1, "dilation": 1, "upscale_factor": 1,
    "downscale_factor": 1, "sections": 3, "chunks": 1, "split_size_or_sections": 1,
    "repeats": (2, 2, 2, 2, 2), "driver": None, "reduce": "sum", "dims": (0,), "train": True,
    "align_corners": False, "training": True,
}  # fmt: skip
INDICES = "index indices target pivots LU_pivots".split()
MASKS = "condition mask".split()

X, Y, Z = "torch.full((3, 3), 0.5)", "torch.full((2, 3, 4), 0.5)", "torch.full((2, 3, 4, 4), 0.5)"
V, C, M = "torch.full((3,), 0.5)", "torch.ones(2, 3, 1)", "torch.nn.functional"
P = f"{M}.fractional_max_pool"
CALLS = {  # rows that want more than plain arguments
    "clamp": f"torch.clamp({X}, 0)",
    "conv_transpose1d": f"{M}.conv_transpose1d({Y}, torch.ones(3, 1, 2))",
    "conv_transpose2d": f"{M}.conv_transpose2d({Z}, torch.ones(3, 1, 2, 2))",
    "conv_tbc": f"torch.conv_tbc({Y}, torch.ones(1, 4, 2), torch.ones(2), 0)",
    "convolution": f"torch.convolution({Y}, {C}, None, [1], [0], [1], False, [0], 1)",
    "histogram": f"torch.histogram({V}, 2)",
    "histogramdd": f"torch.histogramdd({X}, [2, 2, 2])",
    "nonzero_static": f"torch.nonzero_static({X}, size=2)",
    "segment_reduce": f"torch.segment_reduce({X}, 'sum', lengths=torch.tensor([1, 2]))",
    "block_diag": f"torch.block_diag({X}, {X})",
    "broadcast_tensors": f"torch.broadcast_tensors({X}, {V})",
    "cartesian_prod": f"torch.cartesian_prod({V}, {V})",
    "nll_loss": f"{M}.nll_loss({X}, torch.tensor([0, 1, 2]))",
    "cross_entropy": f"{M}.cross_entropy({X}, torch.tensor([0, 1, 2]))",
    "binary_cross_entropy": f"{M}.binary_cross_entropy({X}, {X})",
    "binary_cross_entropy_with_logits": f"{M}.binary_cross_entropy_with_logits({X}, {X})",
    "kl_div": f"{M}.kl_div({X}, {X})",
    "poisson_nll_loss": f"{M}.poisson_nll_loss({X}, {X})",
    "gaussian_nll_loss": f"{M}.gaussian_nll_loss({X}, {X}, {X})",
    "ctc_loss": f"{M}.ctc_loss({Y}, torch.ones(3, 1, dtype=torch.int64), (2,) * 3, (1,) * 3)",
    "embedding_bag": f"{M}.embedding_bag(torch.zeros(1, 2, dtype=torch.int64), {X})",
    "fold": f"{M}.fold(torch.ones(1, 4, 4), 3, 2)",
    "grid_sampler_2d": f"torch.grid_sampler_2d({Z}, torch.ones(2, 1, 1, 2), 0, 0, False)",
    "affine_grid": f"{M}.affine_grid(torch.ones(1, 2, 3), (1, 1, 2, 2))",
    "affine_grid_generator": "torch.affine_grid_generator(torch.ones(1, 2, 3), (1, 1, 2, 2), True)",
    "index_put": f"torch.index_put({X}, [torch.tensor([0])], torch.tensor(1.))",
    "scatter": f"torch.scatter({X}, 0, torch.zeros(1, 3, dtype=torch.int64), 1.)",
    "index_reduce": f"torch.index_reduce({X}, 0, torch.tensor([0]), torch.ones(1, 3), 'mean')",
    "inverse": "torch.inverse(torch.eye(2))",
    "lu_solve": "torch.lu_solve(torch.ones(2, 1), *torch.linalg.lu_factor(torch.eye(2)))",
    "lu_unpack": "torch.lu_unpack(*torch.linalg.lu_factor(torch.eye(2)))",
    "orgqr": "torch.orgqr(torch.eye(2), torch.ones(2))",
    "ormqr": "torch.ormqr(torch.eye(2), torch.ones(2), torch.eye(2))",
    "cosine_embedding_loss": f"{M}.cosine_embedding_loss({X}, {X}, {V})",
    "unflatten": "torch.unflatten(torch.ones(4), 0, (2, 2))",
    "as_strided": f"torch.as_strided({X}, (2,), (1,))",
    "view_as_real": "torch.view_as_real(torch.ones(2, dtype=torch.complex64))",
    "view_as_complex": "torch.view_as_complex(torch.ones(2, 2))",
    "imag": "torch.imag(torch.ones(2, dtype=torch.complex64))",
    "multi_head_attention_forward": "torch.nn.MultiheadAttention(4, 2)(*[torch.ones(2, 1, 4)] * 3)",
    "native_group_norm": f"torch.native_group_norm({Y}, None, None, 2, 3, 4, 1, 1e-5)",
    "native_batch_norm": f"torch.native_batch_norm({Y}, None, None, None, None, True, 0.1, 1e-5)",
    "batch_norm": f"{M}.batch_norm({Y}, None, None, training=True)",
    "instance_norm": f"{M}.instance_norm({Y})",
    "lp_pool1d": f"{M}.lp_pool1d({Y}, 2, 2)",
    "lp_pool2d": f"{M}.lp_pool2d({Z}, 2, 2)",
    "lp_pool3d": f"{M}.lp_pool3d({Z}, 2, 2)",
    "fractional_max_pool2d": f"{M}.fractional_max_pool2d({Z}, 2, output_size=2)",
    "fractional_max_pool3d": f"{M}.fractional_max_pool3d({Z}, 2, output_size=1)",
    "fractional_max_pool2d_with_indices": f"{P}2d_with_indices({Z}, 2, output_size=2)",
    "fractional_max_pool3d_with_indices": f"{P}3d_with_indices({Z}, 2, output_size=1)",
    "linear_cross_entropy": f"{M}.linear_cross_entropy({X}, {X}, torch.tensor([0, 1, 2]))",
    "mv": f"torch.mv({X}, {V})",
    "addbmm": f"torch.addbmm({X}, torch.ones(2, 3, 3), torch.ones(2, 3, 3))",
    "addmv": f"torch.addmv({V}, {X}, {V})",
    "chain_matmul": f"torch.chain_matmul({X}, {X})",
    "einsum": f"torch.einsum('ij,jk->ik', {X}, {X})",
    "diagonal_scatter": f"torch.diagonal_scatter({X}, {V})",
    "select_scatter": f"torch.select_scatter({X}, {V}, 0, 0)",
    "as_strided_scatter": f"torch.as_strided_scatter({X}, {V}, (3,), (1,))",
    "lstm_cell": "torch.nn.LSTMCell(3, 2)(torch.ones(1, 3))",
    "gru_cell": "torch.nn.GRUCell(3, 2)(torch.ones(1, 3))",
    "grid_sampler_3d": "torch.grid_sampler_3d(torch.ones(1, 1, 2, 2, 2), "
    "torch.ones(1, 1, 1, 1, 3), 0, 0, False)",
    "lstm": "torch.nn.LSTM(2, 3)(torch.ones(2, 1, 2))",
    "gru": "torch.nn.GRU(2, 3)(torch.ones(2, 1, 2))",
    "rnn_tanh": "torch.nn.RNN(2, 3)(torch.ones(2, 1, 2))",
    "rnn_relu": "torch.nn.RNN(2, 3, nonlinearity='relu')(torch.ones(2, 1, 2))",
    "interpolate": f"{M}.interpolate({Z}, scale_factor=2)",
    "upsample": f"{M}.upsample({Z}, scale_factor=2)",
    "upsample_nearest": f"{M}.upsample_nearest({Z}, scale_factor=2)",
    "upsample_bilinear": f"{M}.upsample_bilinear({Z}, scale_factor=2)",
    "multinomial": f"torch.multinomial({V}, 1)",
    "local_response_norm": f"{M}.local_response_norm({Y}, 2)",
    "kthvalue": f"torch.kthvalue({V}, 1)",
    "mvlgamma": f"torch.mvlgamma({V} + 5, 2)",
    "stft": "torch.stft(torch.ones(8), 4, return_complex=True)",
    "istft": "torch.istft(torch.ones(3, 5, dtype=torch.complex64), 4)",
    "split_with_sizes": f"torch.split_with_sizes({V}, (1, 2))",
    "unsafe_split": f"torch.unsafe_split({V}, 1)",
    "unsafe_split_with_sizes": f"torch.unsafe_split_with_sizes({V}, (1, 2))",
    "tensor_split": f"torch.tensor_split({V}, 2)",
    "hsplit": "torch.hsplit(torch.ones(2, 2, 2), 2)",
    "vsplit": "torch.vsplit(torch.ones(2, 2, 2), 2)",
    "dsplit": "torch.dsplit(torch.ones(2, 2, 2), 2)",
}
LOSSES = {  # of two tensors alike, of scores and classes
    f"({X}, {X})": "L1Loss MSELoss SmoothL1Loss HuberLoss KLDivLoss BCELoss BCEWithLogitsLoss "
    "SoftMarginLoss MultiLabelSoftMarginLoss HingeEmbeddingLoss PoissonNLLLoss",
    f"({X}, torch.tensor([0, 1, 2]))": "NLLLoss CrossEntropyLoss MultiMarginLoss",
    f"({X}, {X}, {X})": "TripletMarginLoss GaussianNLLLoss",
}
PLAIN = (
    "ReLU GELU SiLU Mish ELU Softplus Hardtanh Hardswish LogSigmoid Tanhshrink Dropout Flatten "
    "Identity Softsign CELU SELU RReLU PReLU"
)
MODULES = {  # constructor: what the layer is called with
    **{n: given for given, names in LOSSES.items() for n in names.split()},
    **dict.fromkeys(PLAIN.split(), f"({X})"),
    "MultiLabelMarginLoss": f"({X}, torch.zeros(3, 3, dtype=torch.int64))",
    "MarginRankingLoss": f"({V}, {V}, {V})",
    "CosineEmbeddingLoss": f"({X}, {X}, {V})",
    "Linear(3, 2)": f"({X})",
    "Bilinear(3, 3, 2)": f"({X}, {X})",
    "LayerNorm(3)": f"({X})",
    "RMSNorm(3)": f"({X})",
    "GroupNorm(1, 3)": f"({Y})",
    "BatchNorm1d(3)": f"({Y})",
    "InstanceNorm1d(3)": f"({Y})",
    "Conv1d(3, 2, 2)": f"({Y})",
    "Conv2d(3, 2, 2)": f"({Z})",
    "ConvTranspose2d(3, 2, 2)": f"({Z})",
    "MaxPool2d(2)": f"({Z})",
    "AvgPool2d(2)": f"({Z})",
    "AdaptiveAvgPool2d(2)": f"({Z})",
    "AdaptiveMaxPool2d(2)": f"({Z})",
    "LPPool2d(2, 2)": f"({Z})",
    "Upsample(scale_factor=2)": f"({Z})",
    "PixelShuffle(1)": f"({Z})",
    "ReflectionPad2d(1)": f"({Z})",
    "Embedding(4, 2)": "(torch.tensor([1]))",
    "LSTMCell(3, 2)": f"({X})",
    "GRUCell(3, 2)": f"({X})",
    "TransformerEncoderLayer(4, 2)": "(torch.ones(2, 1, 4))",
    "Softmax(1)": f"({X})",
    "CosineSimilarity()": f"({X}, {X})",
    "PairwiseDistance()": f"({X}, {X})",
    "Fold(3, 2)": "(torch.ones(1, 4, 4))",
    "Unfold(2)": f"({Z})",
}
# what only a broken order of imports, or a row without its launcher, leads to
BROKEN = ("has no attribute", "partially initialized", "is not defined", "cannot import name")
REMOVED = "symeig eig solve lstsq matrix_rank".split()


def names():
    """Everything that can be tried first."""
    from flambeau.ops.table import TABLE

    rows = [n for n, op in TABLE.items() if ("function" in op.variants or op.namespaces)]
    rows = [n for n in rows if not n.startswith(("_", "functional_")) and n not in REMOVED]
    return rows + [f"nn.{n}" for n in MODULES]


def _plain_value(p, shape, whole, torch):
    if p.kind in ("tensor", "optional"):
        if p.name in MASKS:
            return torch.ones(shape, dtype=torch.bool)
        is_whole = whole or p.name in INDICES
        return torch.zeros(shape, dtype=torch.int64) if is_whole else torch.full(shape, 0.5)
    if p.kind == "tensors":
        return (torch.full(shape, 0.5),) * 2
    return WORDS.get(p.name, {"int": 0, "float": 0.5, "scalar": 1, "bool": False}.get(p.kind, 0))


def use(name):
    """Call one name; what is wrong, or an empty text."""
    import flambeau as torch
    from flambeau.ops.table import REQUIRED, TABLE, public

    if name.startswith("nn."):
        layer = name if name.endswith(")") else name + "()"
        eval(f"torch.{layer}{MODULES[name[3:]]}", {"torch": torch})
        return ""
    if name in CALLS:
        eval(CALLS[name], {"torch": torch})
        return ""
    function, row, refused = public(name), TABLE[name], ""
    for shape, whole in itertools.product(SHAPES, (False, True)):
        wanted = [p for p in row.params if p.default is REQUIRED]
        given = [_plain_value(p, shape, whole, torch) for p in wanted]
        try:
            function(
                *[v for p, v in zip(wanted, given) if not p.keyword_only],
                **{p.name: v for p, v in zip(wanted, given) if p.keyword_only},
            )
            return ""
        except Exception as error:
            refused = f"{type(error).__name__}: {error}"
            if any(text in refused for text in BROKEN):
                return refused
    return f"no arguments are known for it ({refused})"


def in_child(name):
    """What `use` says in a fork of this process."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            text = use(name)
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        text = answer.read().decode()
    _, status = os.waitpid(child, 0)
    return text or (f"ended with status {status}" if status else "")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    import flambeau  # noqa: F401  (and nothing more before the forks)

    warnings.simplefilter("ignore")
    for each in sys.stdin.read().split("\n"):
        wrong = in_child(each) if each else ""
        if wrong:
            print(f"{each}: {wrong}", flush=True)
