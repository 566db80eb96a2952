"""`torch.jit.frontend`: the errors of source that is no TorchScript."""

from flambeau.jit.places import FrontendError as FrontendError
from flambeau.jit.places import FrontendTypeError as FrontendTypeError
from flambeau.jit.places import NotSupportedError as NotSupportedError
from flambeau.jit.places import UnsupportedNodeError as UnsupportedNodeError
