"""Launchers of templates; importing them registers them (see binding.launches)."""

from flambeau.eager import (
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
    products,
    random_integers,
    reducing,
    sampling,
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
    products,
    random_integers,
    reducing,
    sampling,
)
