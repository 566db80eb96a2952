"""Launchers of templates; importing them registers them (see binding.launches)."""

from flambeau.eager import (
    copying,
    counting,
    distributions,
    index_slices,
    indexing,
    joining,
    losses,
    masking,
    products,
    random_integers,
    reducing,
    resampling,
    sampling,
    scans,
    sorting,
    subscripts,
)

MODULES = (
    sorting,
    scans,
    counting,
    copying,
    distributions,
    subscripts,
    masking,
    indexing,
    index_slices,
    joining,
    losses,
    products,
    random_integers,
    reducing,
    sampling,
    resampling,
)
