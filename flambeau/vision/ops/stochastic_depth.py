"""Stochastic depth: whole residual branches are left out at random while learning."""

from flambeau import Tensor, fx

from ._utils import Settled


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Zeros with probability `p`, else the input divided by 1 - p (Huang et al. 2016).

    Args:
        mode: "batch" draws once for the whole input, "row" once for each sample.
        training: without it the input passes unchanged.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
    if mode not in ("batch", "row"):
        raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
    if p == 0.0 or not training:
        return input
    stays = 1.0 - p
    draws = [input.shape[0] if mode == "row" else 1, *[1] * (input.dim() - 1)]
    kept = input.new_empty(draws).bernoulli_(stays)
    return input * (kept / stays if stays > 0.0 else kept)


fx.wrap("stochastic_depth")


class StochasticDepth(Settled):
    """The module of `stochastic_depth`."""

    shown = ("p", "mode")

    def __init__(self, p: float, mode: str) -> None:
        super().__init__(p=p, mode=mode)

    def forward(self, input: Tensor) -> Tensor:
        return stochastic_depth(input, self.p, self.mode, self.training)
