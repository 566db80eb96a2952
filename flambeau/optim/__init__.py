"""`torch.optim`: optimizers. A step is one native call per group (eager/updating.py).

`lr_scheduler` changes learning rates; `swa_utils`, which needs `nn`, loads when first touched.
"""

import importlib as _importlib

from flambeau.optim import lr_scheduler as lr_scheduler
from flambeau.optim.adadelta import Adadelta as Adadelta
from flambeau.optim.adafactor import Adafactor as Adafactor
from flambeau.optim.adagrad import Adagrad as Adagrad
from flambeau.optim.adam import Adam as Adam
from flambeau.optim.adamax import Adamax as Adamax
from flambeau.optim.adamw import AdamW as AdamW
from flambeau.optim.asgd import ASGD as ASGD
from flambeau.optim.lbfgs import LBFGS as LBFGS
from flambeau.optim.muon import Muon as Muon
from flambeau.optim.nadam import NAdam as NAdam
from flambeau.optim.optimizer import Optimizer as Optimizer
from flambeau.optim.radam import RAdam as RAdam
from flambeau.optim.rmsprop import RMSprop as RMSprop
from flambeau.optim.rprop import Rprop as Rprop
from flambeau.optim.sgd import SGD as SGD
from flambeau.optim.sparse_adam import SparseAdam as SparseAdam
from flambeau.optim.stateless import (
    swap_in_optimizer_params_and_state as swap_in_optimizer_params_and_state,
)

__all__ = [
    "Adafactor",
    "Adadelta",
    "Adagrad",
    "Adam",
    "Adamax",
    "AdamW",
    "ASGD",
    "LBFGS",
    "lr_scheduler",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
    "swap_in_optimizer_params_and_state",
    "swa_utils",
]


def __getattr__(name):
    if name == "swa_utils":
        return _importlib.import_module("flambeau.optim.swa_utils")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), "swa_utils"})
