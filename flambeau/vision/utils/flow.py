"""`flow_to_image`: motion as colour; the hue says in which direction, the saturation how far.

The wheel of hues is that of Baker et al., "A Database and Evaluation Methodology for Optical Flow"
(ICCV 2007): between two neighbouring hues one channel rises or falls in equal steps.
"""

from __future__ import annotations

from functools import cache

import flambeau as torch
from flambeau import Tensor

# steps from one pure hue to the next; the channel that changes, and whether it rises
_ARCS = (
    (15, 1, True),  # red to yellow
    (6, 0, False),  # to green
    (4, 2, True),  # to cyan
    (11, 1, False),  # to blue
    (13, 0, True),  # to magenta
    (6, 2, False),  # and back to red
)


@torch.no_grad()
def flow_to_image(flow: Tensor) -> Tensor:
    """Colours for a field of motions.

    Args:
        flow: (2, H, W) or (N, 2, H, W), float32: how far each pixel goes to the right and down.

    Returns:
        Bytes of shape (3, H, W) or (N, 3, H, W).
    """
    shape = flow.shape
    if flow.dtype != torch.float32:
        raise ValueError(f"Flow should be of dtype torch.float, got {flow.dtype}.")
    if not 3 <= len(shape) <= 4 or shape[-3] != 2:
        raise ValueError(f"Input flow should have shape (2, H, W) or (N, 2, H, W), got {shape}.")
    batch = flow.reshape(-1, *shape[-3:])
    longest = _lengths(batch).max() + torch.finfo(torch.float32).eps
    return _colors(batch / longest).view(*shape[:-3], 3, *shape[-2:])


def _lengths(flow: Tensor) -> Tensor:
    return flow.pow(2).sum(dim=1).sqrt()


def _colors(flow: Tensor) -> Tensor:
    """Colours for motions of length at most one, halfway between the nearest two of the wheel."""
    wheel = _wheel()
    count = len(wheel)
    length = _lengths(flow)
    right, down = flow.unbind(1)
    turn = torch.atan2(-down, -right) / torch.pi
    position = (turn + 1) / 2 * (count - 1)
    before = position.floor().to(torch.int64)
    after = (before + 1) % count
    share = position - before
    channels = []
    for hues in wheel.unbind(1):
        hue = (1 - share) * (hues[before] / 255.0) + share * (hues[after] / 255.0)
        channels.append(torch.floor(255 * (1 - length * (1 - hue))).to(torch.uint8))
    return torch.stack(channels, dim=1)


@cache
def _wheel() -> Tensor:
    """The 55 hues of the wheel, as floats from 0 to 255."""
    hue, hues = [255.0, 0.0, 0.0], []
    for steps, channel, rises in _ARCS:
        for step in range(steps):
            change = 255 * step // steps
            hue[channel] = float(change if rises else 255 - change)
            hues.append(list(hue))
        hue[channel] = 255.0 if rises else 0.0
    return torch.tensor(hues, dtype=torch.float32)
