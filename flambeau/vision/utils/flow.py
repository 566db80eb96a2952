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
    if flow.dtype != torch.float32:
        raise ValueError(f"Flow should be of dtype torch.float, got {flow.dtype}.")
    shape = flow.shape
    if flow.ndim == 3:
        flow = flow[None]
    if flow.ndim != 4 or flow.shape[1] != 2:
        raise ValueError(f"Input flow should have shape (2, H, W) or (N, 2, H, W), got {shape}.")
    longest = torch.sum(flow.pow(2), dim=1).sqrt().max()
    image = _colors(flow / (longest + torch.finfo(flow.dtype).eps))
    return image[0] if len(shape) == 3 else image


def _colors(flow: Tensor) -> Tensor:
    """Colours for motions of length at most one, halfway between the nearest two of the wheel."""
    wheel = _wheel()
    count = len(wheel)
    length = torch.sum(flow.pow(2), dim=1).sqrt()
    turn = torch.atan2(-flow[:, 1], -flow[:, 0]) / torch.pi
    position = (turn + 1) / 2 * (count - 1)
    before = torch.floor(position).to(torch.long)
    after = torch.where(before + 1 == count, 0, before + 1)
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
