"""Launchers of templates; importing them registers them (see binding.launches)."""

from flambeau.eager import copying, reducing

MODULES = (copying, reducing)
