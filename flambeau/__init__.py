"""flambeau: PyTorch's API in pure Python. (The front door is assembled here.)"""
from flambeau._tensor import Tensor
from flambeau.eager import methods as _methods
from flambeau.ops import pointwise as _p
_methods.attach()
