"""`torch.ao.nn.qat.dynamic`: layers that will find the range of their input when they run."""

from typing import Any

from flambeau.ao.nn.qat import modules
from flambeau.ao.quantization.utils import activation_is_memoryless

__all__ = ["Linear"]


class Linear(modules.Linear):
    """A linear layer whose weight is rounded, as that of a dynamic one will be."""

    def _round(self, qconfig: Any) -> None:
        super()._round(qconfig)
        if not activation_is_memoryless(qconfig):
            raise ValueError(
                "Dynamic QAT requires a memoryless observer."
                "This means a MovingAverage observer with averaging constant equal to 1"
            )
