"""Which of its addresses a kernel only reads.

A kernel that is not in the table counts as one that writes to all memory it is given. So does an
address that stands in the words of a description, unless the table names those words.
"""

from typing import Any

from flambeau.eager import kernels


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


ON_GPUS = ("row_programs:build",)  # what is known of kernels of GPUs, too


def builder_of(definition: int) -> str:
    """ "file:function" of what built a kernel; "" if nobody knows.

    Kernels of GPUs have the name of the host's builder, whose arguments they take.
    """
    found = kernels.sources.get(definition)
    if found is None:
        name, _ = kernels.recipes.get(definition, ("", ()))
        return name if name in ON_GPUS else ""
    return f"{found[0].__module__.rpartition('.')[2]}:{found[0].__name__}"


def key_of(definition: int) -> Any:
    """What a kernel was built with."""
    found = kernels.sources.get(definition)
    return kernels.recipes[definition][1] if found is None else found[1]


def is_known(definition: int) -> bool:
    """Does a kernel write to nothing but the addresses that `only_read` leaves over?

    Such kernels tell Python nothing but complaints: a recording need not run them.
    """
    if not kernels.runtime_of(definition).is_host:
        return False
    return definition in kernels.nests or builder_of(definition) in READS


def surely_writes(definition: int) -> bool:
    """Does a kernel write to all addresses that `only_read` leaves over?"""
    return definition in kernels.nests or builder_of(definition) == "row_programs:build"


def only_read(launch: Any) -> Any:
    """Places of arguments that a launch only reads."""
    nest = kernels.nests.get(launch.definition)
    if nest is not None:
        first = 1 + len(nest.outputs)
        return range(first, first + len(nest.inputs))
    places = READS.get(builder_of(launch.definition), ())
    return places(key_of(launch.definition)) if callable(places) else places
