"""Resizing and sampling of images."""

from typing import Any

import numpy as np

from flambeau.onnx.building import Value
from flambeau.onnx.translations.table import translates


def resized(g: Any, x: Value, out: Any, mode: str, rule: str, scales: Any, **options: Any) -> Value:
    """Sizes where they are known; factors where only these are."""
    target = list(out.shape[2:])
    if all(isinstance(size, int) for size in target):
        batch, channels = g.sizes(x)[:2]
        sizes = g.ints([batch, channels, *target])
        where, factors = sizes, None
    else:
        if not scales or any(scale is None for scale in scales):
            raise NotImplementedError("resizing to sizes that may change, without factors")
        factors = g.constant(np.array([1.0, 1.0, *map(float, scales)], dtype=np.float32))
        where = None
    return g.op(
        "Resize", x, None, factors, where, mode=mode, coordinate_transformation_mode=rule, **options
    )


def factors_of(rest: Any, rank: int) -> Any:
    """The last arguments are factors, one by one or in a list."""
    if rest and isinstance(rest[-1], (list, tuple)):
        return list(rest[-1])
    return [value for value in rest if isinstance(value, float)][-rank:]


def nearest(rule: str) -> Any:
    def write(g: Any, x: Value, sizes: Any, *rest: Any, out: Any) -> Value:
        how = "floor" if rule == "asymmetric" else "round_prefer_ceil"
        scales = factors_of(rest, x.rank - 2)
        return resized(g, x, out, "nearest", rule, scales, nearest_mode=how)

    return write


def smooth(mode: str) -> Any:
    def write(g: Any, x: Value, sizes: Any, align_corners: bool, *rest: Any, out: Any) -> Value:
        rule = "align_corners" if align_corners else "half_pixel"
        options = {"cubic_coeff_a": -0.75} if mode == "cubic" else {}
        return resized(g, x, out, mode, rule, factors_of(rest, x.rank - 2), **options)

    return write


for _rank, _linear in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    translates(f"upsample_nearest{_rank}d")(nearest("asymmetric"))
    translates(f"_upsample_nearest_exact{_rank}d")(nearest("half_pixel"))
    translates(f"upsample_{_linear}{_rank}d")(smooth("linear"))
translates("upsample_bicubic2d")(smooth("cubic"))


@translates("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    g: Any, x: Value, grid: Value, mode: int, padding: int, align_corners: bool, *, out: Any
) -> Value:
    new = g.opset >= 20
    modes = ["linear", "nearest", "cubic"] if new else ["bilinear", "nearest", "bicubic"]
    return g.op(
        "GridSample",
        x,
        grid,
        mode=modes[mode],
        padding_mode=["zeros", "border", "reflection"][padding],
        align_corners=int(align_corners),
    )
