"""Stochastic depth: whole residual branches are left out at random while learning."""

import flambeau
from flambeau import Tensor, nn


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Zeros with probability `p`, else the input divided by 1 - p (Huang et al. 2016).

    Args:
        mode: "batch" draws once for the whole input, "row" once for each sample.
        training: without it the input passes unchanged.
    """
    if p < 0.0 or p > 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
    if mode not in ("batch", "row"):
        raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
    if not training or p == 0.0:
        return input
    survival = 1.0 - p
    rows = input.shape[0] if mode == "row" else 1
    noise = flambeau.empty(
        [rows] + [1] * (input.ndim - 1), dtype=input.dtype, device=input.device
    ).bernoulli_(survival)
    if survival > 0.0:
        noise.div_(survival)
    return input * noise


class StochasticDepth(nn.Module):
    """The module of `stochastic_depth`."""

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p = p
        self.mode = mode

    def forward(self, input: Tensor) -> Tensor:
        return stochastic_depth(input, self.p, self.mode, self.training)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p}, mode={self.mode})"
