"""geoopt: manifolds and optimizers on them."""

import geoopt
import torch
from showing import show

torch.manual_seed(0)
for manifold, shape in (
    (geoopt.Sphere(), (4, 3)),
    (geoopt.PoincareBall(), (4, 3)),
    (geoopt.Lorentz(), (4, 3)),
    (geoopt.EuclideanStiefel(), (5, 3)),
    (geoopt.SymmetricPositiveDefinite(), (3, 3)),
    (geoopt.BirkhoffPolytope(), (3, 3)),
    (geoopt.Euclidean(1), (4, 3)),
):
    torch.manual_seed(1)
    start = torch.randn(shape) * 0.3
    point = manifold.projx(start.abs() + 0.1 if "Birkhoff" in type(manifold).__name__ else start)
    if "Symmetric" in type(manifold).__name__:
        point = torch.eye(3) + 0.1 * (start + start.T)
    vector = manifold.proju(point, torch.randn(shape) * 0.1)
    moved = manifold.retr(point, vector)
    show(type(manifold).__name__, point, vector, moved)
    p = geoopt.ManifoldParameter(point.clone(), manifold=manifold)
    target = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    for kind in (geoopt.optim.RiemannianSGD, geoopt.optim.RiemannianAdam):
        optimizer = kind([p], lr=0.05)
        for _ in range(3):
            optimizer.zero_grad()
            loss = (p - target).square().sum()
            loss.backward()
            optimizer.step()
        show(kind.__name__, loss, p)
ball = geoopt.PoincareBall(c=0.7)
a, b = ball.expmap0(torch.randn(3, 2)), ball.expmap0(torch.randn(3, 2))
show(
    "ball",
    ball.dist(a, b),
    ball.mobius_add(a, b),
    ball.logmap(a, b),
    ball.transp(a, b, torch.ones(3, 2)),
)
