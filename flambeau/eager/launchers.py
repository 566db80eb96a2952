"""Launchers of templates; importing them registers them (see binding.launches)."""

from flambeau.eager import (
    copying,
    distributions,
    products,
    random_integers,
    reducing,
    sampling,
)

MODULES = (
    copying,
    distributions,
    products,
    random_integers,
    reducing,
    sampling,
)
