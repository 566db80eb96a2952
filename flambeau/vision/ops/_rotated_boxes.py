"""Overlaps of boxes with angles.

The intersection of two convex quadrilaterals is convex; its corners are corners of one inside the
other and crossings of sides. They are found for all pairs at once, put in order around their
centre, and give an area.
"""

import flambeau
from flambeau import Tensor

_EPS = 1e-6  # of the sides: touching counts as inside


def _corners(boxes: Tensor) -> Tensor:
    """The four corners, in order around the box: (..., 4, 2)."""
    centre, size = boxes[..., :2], boxes[..., 2:4] / 2
    radians = boxes[..., 4] * flambeau.pi / 180.0
    cos, sin = flambeau.cos(radians), flambeau.sin(radians)
    # counter-clockwise as seen, since y grows downwards
    across = size[..., :1] * flambeau.stack([cos, -sin], -1)
    down = size[..., 1:] * flambeau.stack([sin, cos], -1)
    turns = [-across - down, across - down, across + down, down - across]
    return centre[..., None, :] + flambeau.stack(turns, -2)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _inside(points: Tensor, corners: Tensor) -> Tensor:
    """Which points (..., P, 2) lie in the box of these corners (..., 4, 2)."""
    origin = corners[..., None, 0, :]
    across, down = corners[..., None, 1, :] - origin, corners[..., None, 3, :] - origin
    away = points - origin
    found = None
    for side in (across, down):
        length = (side * side).sum(-1)
        along = (away * side).sum(-1)
        within = (along >= -_EPS * length) & (along <= (1 + _EPS) * length)
        found = within if found is None else found & within
    assert found is not None
    return found


def _crossings(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Points where sides of one meet sides of the other (..., 16, 2), and whether they do."""
    side_a, side_b = a.roll(-1, -2) - a, b.roll(-1, -2) - b
    u, v = side_a[..., :, None, :], side_b[..., None, :, :]
    away = b[..., None, :, :] - a[..., :, None, :]
    turn = _cross(u, v)
    parallel = turn.abs() <= 1e-14
    turn = flambeau.where(parallel, flambeau.ones_like(turn), turn)
    s, t = _cross(away, v) / turn, _cross(away, u) / turn
    meets = ~parallel & (s >= 0) & (s <= 1) & (t >= 0) & (t <= 1)
    points = a[..., :, None, :] + s[..., None] * u
    return points.flatten(-3, -2), meets.flatten(-2)


def _area(points: Tensor, valid: Tensor) -> Tensor:
    """The area around those of the points that are valid, which are corners of a convex shape."""
    some = valid[..., None].to(points.dtype)
    centre = (points * some).sum(-2, keepdim=True) / some.sum(-2, keepdim=True).clamp(min=1)
    away = flambeau.where(valid[..., None], points - centre, flambeau.zeros_like(points))
    angle = flambeau.atan2(away[..., 1], away[..., 0])
    # what is not valid is a double of the first corner, and adds nothing
    first = flambeau.where(valid, angle, angle.new_full((), 4.0)).argmin(-1, keepdim=True)
    index = first[..., None].expand(*first.shape, 2)
    away = flambeau.where(valid[..., None], away, away.gather(-2, index))
    angle = flambeau.where(valid, angle, angle.gather(-1, first))
    order = angle.argsort(-1)
    ring = away.gather(-2, order[..., None].expand(away.shape))
    area = 0.5 * _cross(ring, ring.roll(-1, -2)).sum(-1).abs()
    return flambeau.where(valid.sum(-1) > 2, area, flambeau.zeros_like(area))


def rotated_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Intersection over union of every box (N, 5) with every other (M, 5): centre, size, degrees.

    Computed in float64, which the comparison of nearly parallel sides needs.
    """
    if not boxes1.is_floating_point():
        boxes1, boxes2 = boxes1.float(), boxes2.float()
    dtype = boxes1.dtype
    first, second = boxes1.detach().double(), boxes2.detach().double()
    area1, area2 = first[..., 2] * first[..., 3], second[..., 2] * second[..., 3]
    # far from the origin digits are lost, so each pair is moved there
    middle = (first[..., :, None, :2] + second[..., None, :, :2]) / 2
    count = first.shape[-2], second.shape[-2]
    one = first[..., :, None, :].expand(*middle.shape[:-1], 5)
    two = second[..., None, :, :].expand(*middle.shape[:-1], 5)
    a = _corners(flambeau.cat([one[..., :2] - middle, one[..., 2:]], -1))
    b = _corners(flambeau.cat([two[..., :2] - middle, two[..., 2:]], -1))
    if 0 in count:
        return boxes1.new_zeros(middle.shape[:-1])
    crossings, meets = _crossings(a, b)
    points = flambeau.cat([a, b, crossings], -2)
    common = _area(points, flambeau.cat([_inside(a, b), _inside(b, a), meets], -1))
    union = area1[..., :, None] + area2[..., None, :] - common
    tiny = (area1[..., :, None] < 1e-14) | (area2[..., None, :] < 1e-14)
    return flambeau.where(tiny, flambeau.zeros_like(common), common / union).to(dtype)
