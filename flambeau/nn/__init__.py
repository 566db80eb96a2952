"""Neural networks: modules, their functions (`functional`), initial values (`init`), `utils`."""

from flambeau.nn import functional as functional
from flambeau.nn import init as init
from flambeau.nn import parallel as parallel
from flambeau.nn import utils as utils
from flambeau.nn.modules import *  # noqa: F403
from flambeau.nn.parallel import DataParallel as DataParallel
from flambeau.nn.parameter import Buffer as Buffer
from flambeau.nn.parameter import Parameter as Parameter
from flambeau.nn.parameter import UninitializedBuffer as UninitializedBuffer
from flambeau.nn.parameter import UninitializedParameter as UninitializedParameter
