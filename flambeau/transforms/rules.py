"""Loads all rules of transforms; whoever enters a level imports this."""

from flambeau.transforms import (
    batching_rules,
    custom,
    drawing,
    handling,
    members,
    writing,
)

__all__ = [
    "batching_rules",
    "custom",
    "drawing",
    "handling",
    "members",
    "writing",
]
