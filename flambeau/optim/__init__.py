"""`torch.optim`: optimizers. A step is one native call per group (eager/updating.py)."""

from flambeau.optim import lr_scheduler as lr_scheduler
from flambeau.optim.adadelta import Adadelta as Adadelta
from flambeau.optim.adagrad import Adagrad as Adagrad
from flambeau.optim.adam import Adam as Adam
from flambeau.optim.adamax import Adamax as Adamax
from flambeau.optim.adamw import AdamW as AdamW
from flambeau.optim.asgd import ASGD as ASGD
from flambeau.optim.nadam import NAdam as NAdam
from flambeau.optim.optimizer import Optimizer as Optimizer
from flambeau.optim.radam import RAdam as RAdam
from flambeau.optim.rmsprop import RMSprop as RMSprop
from flambeau.optim.rprop import Rprop as Rprop
from flambeau.optim.sgd import SGD as SGD
