"""`torch.masked.maskedtensor`; everything lives in `core.py`."""

from flambeau.masked.maskedtensor.core import MaskedTensor as MaskedTensor
from flambeau.masked.maskedtensor.core import as_masked_tensor as as_masked_tensor
from flambeau.masked.maskedtensor.core import is_masked_tensor as is_masked_tensor
from flambeau.masked.maskedtensor.core import masked_tensor as masked_tensor
