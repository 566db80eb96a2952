"""Checkpoints as ops of graphs: a graph of its own that runs again on the way back."""

import importlib
from typing import Any

from flambeau import random
from flambeau._tensor import Tensor
from flambeau.aten.overloads import namespace

__all__ = ["checkpoint_op"]


def _checkpointed(body: Any, inputs: tuple, preserve_rng_state: bool) -> Any:
    recording: Any = importlib.import_module("flambeau.compiler.recording")
    if recording.is_active() and body.meta.get("draws", True):
        raise recording.Spoiled("a checkpoint that draws random numbers, twice the same")
    checkpoint: Any = importlib.import_module("flambeau.utils.checkpoint").checkpoint
    generators = [random.default_generator]
    place = next((x.device for x in inputs if isinstance(x, Tensor)), None)
    if place is not None and place.type == "cuda":
        generators.append(random.cuda_generator(place.index))
    marks = [g._mark() for g in generators]
    result = checkpoint(body, *inputs, use_reentrant=False, preserve_rng_state=preserve_rng_state)
    body.meta["draws"] = marks != [g._mark() for g in generators]
    return result


checkpoint_op = namespace("higher_order").packet("tag_activation_checkpoint")
checkpoint_op.function = lambda overload="": _checkpointed
