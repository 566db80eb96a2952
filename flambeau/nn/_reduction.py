"""Names, numbers and old spellings of reductions, as losses written elsewhere ask for them."""

import warnings

from flambeau.ops.losses import old_reduction, reduction_number


def get_enum(reduction: str) -> int:
    """The number of a reduction that is given by name."""
    return reduction_number(reduction)


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The name of what the arguments of old mean, with a warning that they are old."""
    with warnings.catch_warnings():
        if not emit_warning:
            warnings.simplefilter("ignore")
        return old_reduction(size_average, reduce)


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """The same, as a number."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
