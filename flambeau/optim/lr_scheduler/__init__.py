"""`torch.optim.lr_scheduler`: learning rates that change while training.

`scheduler.py` has the base class; the others are grouped by idea: factors (`factors.py`), curves
to an end (`decays.py`), waves (`cosine.py`, `cycles.py`), waiting for progress (`plateau.py`),
several at once (`composed.py`).
"""

from flambeau.optim.lr_scheduler.composed import ChainedScheduler as ChainedScheduler
from flambeau.optim.lr_scheduler.composed import SequentialLR as SequentialLR
from flambeau.optim.lr_scheduler.cosine import CosineAnnealingLR as CosineAnnealingLR
from flambeau.optim.lr_scheduler.cosine import (
    CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts,
)
from flambeau.optim.lr_scheduler.cycles import CyclicLR as CyclicLR
from flambeau.optim.lr_scheduler.decays import ConstantLR as ConstantLR
from flambeau.optim.lr_scheduler.decays import LinearLR as LinearLR
from flambeau.optim.lr_scheduler.decays import PolynomialLR as PolynomialLR
from flambeau.optim.lr_scheduler.factors import ExponentialLR as ExponentialLR
from flambeau.optim.lr_scheduler.factors import LambdaLR as LambdaLR
from flambeau.optim.lr_scheduler.factors import MultiplicativeLR as MultiplicativeLR
from flambeau.optim.lr_scheduler.factors import MultiStepLR as MultiStepLR
from flambeau.optim.lr_scheduler.factors import StepLR as StepLR
from flambeau.optim.lr_scheduler.one_cycle import OneCycleLR as OneCycleLR
from flambeau.optim.lr_scheduler.plateau import ReduceLROnPlateau as ReduceLROnPlateau
from flambeau.optim.lr_scheduler.scheduler import (
    EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING,
)
from flambeau.optim.lr_scheduler.scheduler import LRScheduler as LRScheduler
from flambeau.optim.lr_scheduler.scheduler import _LRScheduler as _LRScheduler

__all__ = [
    "LambdaLR",
    "MultiplicativeLR",
    "StepLR",
    "MultiStepLR",
    "ConstantLR",
    "LinearLR",
    "ExponentialLR",
    "SequentialLR",
    "CosineAnnealingLR",
    "ChainedScheduler",
    "ReduceLROnPlateau",
    "CyclicLR",
    "CosineAnnealingWarmRestarts",
    "OneCycleLR",
    "PolynomialLR",
    "LRScheduler",
]
