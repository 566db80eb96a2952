"""Which of its addresses a kernel only reads.

A kernel that is not in the table counts as one that writes to all memory it is given. So does an
address that stands in the words of a description, unless the table names those words.
"""

from typing import Any

from flambeau.eager import kernels
from flambeau.runtime import cpu


def _reduction(key):
    reduction, shape = key[0], key[1]
    results, sources = len(reduction.outputs), 1
    if shape[4] == "states":
        results = len(reduction.state)
    if shape[3] == "states":
        sources = len(reduction.state)
    return range(1 + results, 1 + results + sources)


def _row_program(key):
    from flambeau.codegen.templates.row_programs import program_of

    _, name, *facts = key
    operands = program_of(name, *facts).operands
    first = min(k for k, n in enumerate(operands) if n in ("x", "g"))
    return range(1 + first, 1 + len(operands))


def _walk(key):
    """A table, a list and indices: which of the first two is read?"""
    mode, _, indices, *_ = key
    return (1 if mode == "read" else 2, *range(3, 3 + indices))


def _scan(key):
    targets = len(key[2])
    return (1 + targets, 2 + targets)


# by file and function of the builder: places among the arguments, the description is number 0
READS: dict = {
    "attention:build": range(3, 6),  # query, key, value
    "attention_backward:build": range(4, 10),  # and result, logarithms, gradient
    "conv:build": range(2, 5),  # input, weight, bias
    "conv_depthwise:build": range(2, 5),
    "conv_depthwise:build_weight": (2, 3),
    "conv_panels:build": (2,),
    "conv_weight:build": (2, 3),
    "conv_weight:build_gathering": (2,),
    "conv_winograd:build": range(2, 5),
    "conv_winograd:build_spread": (2,),
    "conv_winograd_weight:build": (2, 3),
    "conv_winograd_weight:build_gathering": (2,),
    "dropout:build_dropout": (3,),
    "embedding:build_links": (3,),
    "embedding:build_linked_sum": range(2, 7),
    "embedding:build_lookup": (2, 3),
    "gemm:build": (2, 3, *range(6, 16)),  # matrices and addends
    "indexing:build_walk": _walk,
    "joining:build_join": (2,),  # words with the addresses of what is joined
    "losses:build_total": lambda key: range(2, 2 + len(key[0].inputs)),
    "padding:build_pad": (2,),
    "pooling:build_largest": (3,),
    "pooling:build_largest_backward": (2, 3),
    "pooling_means:build_mean": (2,),
    "pooling_means:build_mean_backward": (2,),
    "pooling_rows:build_largest_rows": (3,),
    "pooling_rows:build_largest_rows_backward": (2, 3),
    "pooling_rows:build_mean_rows": (2,),
    "pooling_rows:build_mean_rows_backward": (2,),
    "reduction:build_columns": _reduction,
    "reduction:build_join": _reduction,
    "reduction:build_rows": _reduction,
    "row_programs:build": _row_program,
    "rows_columns:build_tally_totals": lambda key: range(1 + key[1], 1 + 2 * key[1]),
    "rows_cross_entropy:build_cross_entropy": range(4, 7),  # scores, classes, weights
    "rows_cross_entropy:build_cross_entropy_backward": range(2, 7),
    "rows_cross_entropy:build_nll_loss": range(4, 7),
    "rows_cross_entropy:build_nll_loss_backward": range(2, 6),
    "rows_cross_entropy:build_total": (3,),
    "sampling:build_bernoulli": (),
    "sampling:build_bernoulli_from": (2,),
    "sampling:build_normal": (),
    "sampling:build_uniform": (),
    "scans:build_scan_columns": _scan,
    "scans:build_scan_rows": _scan,
    "updates:build_norm": (),
    "updates:build_norm_total": (1,),
    "updates:build_scaled": (1,),
    "updating:_build": (),
}


HOSTS_ON_GPUS = ("row_programs:build",)  # kernels of GPUs that may take others in
# kernels of GPUs with the host's arguments
SAME_ON_GPUS = (
    "embedding:build_lookup", "gemm:build", "joining:build_join", "padding:build_pad",
    "pooling:build_largest", "pooling:build_largest_backward", "pooling_means:build_mean",
    "pooling_means:build_mean_backward", "pooling_rows:build_largest_rows",
    "pooling_rows:build_largest_rows_backward", "pooling_rows:build_mean_rows",
    "pooling_rows:build_mean_rows_backward", "reduction:build_columns", "reduction:build_join",
    "reduction:build_rows", "row_programs:build", "rows_columns:build_tally_totals",
    "rows_cross_entropy:build_cross_entropy", "rows_cross_entropy:build_cross_entropy_backward",
    "rows_cross_entropy:build_nll_loss", "rows_cross_entropy:build_nll_loss_backward",
    "rows_cross_entropy:build_total",
)  # fmt: skip


def _joined_statistics(key):
    *_, tracked = key
    return range(5, 8) if tracked else range(3, 6)


READS_ON_GPUS: dict = {
    "convolution:build": (2, 3, 4),
    "embedding:build_firsts": (2,),
    "embedding:build_sorted_sum": range(2, 8),
    "library_product:build": (2, 3, *range(6, 16)),
    "normalization:build_joined_statistics": _joined_statistics,
    "philox:build_bernoulli_from": (),
    "philox:build_dropout": (),
    "philox:build_fill": (),
    "radix:build_counts": (2,),
    "radix:build_pass": (3,),
    "radix:build_ranks": (3,),
    "radix:build_starts": (),
    "radix:build_tiles": (3,),
    "small_products:build_small": READS["gemm:build"],
} | {name: READS[name] for name in SAME_ON_GPUS}
# libraries that are called by Python
READS_OF_LIBRARIES = {
    "cublas": (),
    "cudnn_attention": range(3, 8),
    "cudnn_attention_backward": range(4, 12),
    "cudnn_convolution": (2, 3),
    "cudnn_recurrence": (1, 3, 5, 7),
    "cudnn_recurrence_backward": (1, 2, 3, 5, 6, 8, 9, 11),
}


def builder_of(definition: int) -> str:
    """ "file:function" of what built a kernel; "" if nobody knows.

    Kernels of GPUs have the name of the host's builder, whose arguments they take.
    """
    found = kernels.sources.get(definition)
    if found is None:
        name, _ = kernels.recipes.get(definition, ("", ()))
        return name if name in HOSTS_ON_GPUS else ""
    return f"{found[0].__module__.rpartition('.')[2]}:{found[0].__name__}"


def key_of(definition: int) -> Any:
    """What a kernel was built with."""
    found = kernels.sources.get(definition)
    return kernels.recipes[definition][1] if found is None else found[1]


def is_known(definition: int) -> bool:
    """Does a kernel write to nothing but the addresses that `only_read` leaves over?

    Such kernels tell Python nothing but complaints: a recording need not run them.
    """
    if definition in kernels.nests:
        return True
    if kernels.runtime_of(definition).is_host:
        return builder_of(definition) in READS
    return _on_gpu(definition) is not None


def _on_gpu(definition):
    """What is known of a kernel of a GPU; None if nothing is."""
    if definition in kernels.recipes:
        return READS_ON_GPUS.get(kernels.recipes[definition][0])
    return READS_OF_LIBRARIES.get(cpu.name_of(definition))


SURELY = "row_programs:build", "normalization:build_joined_statistics"


def surely_writes(definition: int) -> bool:
    """Does a kernel write to all addresses that `only_read` leaves over?"""
    if definition in kernels.nests or builder_of(definition) in SURELY:
        return True
    return kernels.recipes.get(definition, ("",))[0] in SURELY


def only_read(launch: Any) -> Any:
    """Places of arguments that a launch only reads."""
    nest = kernels.nests.get(launch.definition)
    if nest is not None:
        first = 1 + len(nest.outputs)
        return range(first, first + len(nest.inputs))
    if kernels.runtime_of(launch.definition).is_host:
        places = READS.get(builder_of(launch.definition), ())
    else:
        places = _on_gpu(launch.definition) or ()
    return places(key_of(launch.definition)) if callable(places) else places
