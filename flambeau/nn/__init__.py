"""Neural networks: `functional` is the rows that PyTorch keeps in that namespace, `utils` tools
around gradients.
"""

from flambeau.nn import functional as functional
from flambeau.nn import utils as utils
