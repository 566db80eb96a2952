"""`torch._guards`: questions of libraries about a mode that makes tensors without values."""

from typing import Any


def active_fake_mode() -> None:
    """No mode: graphs are recorded beside real tensors, never under a mode."""


def detect_fake_mode(inputs: Any = None) -> None:
    """No mode: tensors without values stand alone here."""
