"""`torch.masked`: functions of the elements that a mask leaves, and tensors that carry a mask."""

from flambeau.masked.functions import amax as amax
from flambeau.masked.functions import amin as amin
from flambeau.masked.functions import argmax as argmax
from flambeau.masked.functions import argmin as argmin
from flambeau.masked.functions import cumprod as cumprod
from flambeau.masked.functions import cumsum as cumsum
from flambeau.masked.functions import log_softmax as log_softmax
from flambeau.masked.functions import logaddexp as logaddexp
from flambeau.masked.functions import logsumexp as logsumexp
from flambeau.masked.functions import mean as mean
from flambeau.masked.functions import median as median
from flambeau.masked.functions import norm as norm
from flambeau.masked.functions import normalize as normalize
from flambeau.masked.functions import prod as prod
from flambeau.masked.functions import softmax as softmax
from flambeau.masked.functions import softmin as softmin
from flambeau.masked.functions import std as std
from flambeau.masked.functions import sum as sum
from flambeau.masked.functions import var as var
from flambeau.masked.maskedtensor import MaskedTensor as MaskedTensor
from flambeau.masked.maskedtensor import as_masked_tensor as as_masked_tensor
from flambeau.masked.maskedtensor import is_masked_tensor as is_masked_tensor
from flambeau.masked.maskedtensor import masked_tensor as masked_tensor
from flambeau.masked.masks import canonical_dims as _canonical_dim  # noqa: F401
from flambeau.masked.masks import combine as _combine_input_and_mask  # noqa: F401
from flambeau.masked.masks import identity_of as _reduction_identity  # noqa: F401
from flambeau.masked.masks import input_mask as _input_mask  # noqa: F401
from flambeau.masked.masks import output_mask as _output_mask  # noqa: F401
from flambeau.masked.masks import where as _where  # noqa: F401

__all__ = [
    "MaskedTensor",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "as_masked_tensor",
    "cumprod",
    "cumsum",
    "is_masked_tensor",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "masked_tensor",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]
