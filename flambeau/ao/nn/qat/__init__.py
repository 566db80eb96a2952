"""`torch.ao.nn.qat`: modules that train with weights rounded to levels."""

from flambeau.ao.nn.qat import modules
from flambeau.ao.nn.qat.modules import Conv1d, Conv2d, Conv3d, Embedding, EmbeddingBag, Linear

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear", "modules"]
