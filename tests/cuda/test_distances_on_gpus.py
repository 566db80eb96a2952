"""Distances of pairs of rows on a GPU are the host's, both ways."""

import pytest

import flambeau as torch

SIZES = [((5, 3), (7, 3)), ((40, 33), (70, 33)), ((2, 33, 40), (2, 20, 40))]
APART = "donot_use_mm_for_euclid_dist"


def gradients(distances, *tensors):
    """Results, and gradients under weights that tell them apart."""
    given = [t.detach().clone().requires_grad_() for t in tensors]
    found = distances(*given)
    weights = torch.arange(found.numel(), device=found.device).reshape(found.shape)
    return [found, *torch.autograd.grad((found * weights).sum(), given)]


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_distances(p, sizes):
    torch.manual_seed(0)
    x, y = (torch.randn(*shape, dtype=torch.float64) for shape in sizes)
    ways = [lambda a, b: torch.cdist(a, b, p, compute_mode=APART)]
    pairs = [(x, y)]
    if x.ndim == 2:
        ways.append(lambda a: torch.pdist(a, p))
        pairs.append((y,))
    for way, given in zip(ways, pairs):
        host, gpu = (gradients(way, *[t.to(place) for t in given]) for place in ("cpu", "cuda"))
        for a, b in zip(host, gpu):
            assert torch.allclose(a, b.cpu(), rtol=1e-9, atol=1e-9)
