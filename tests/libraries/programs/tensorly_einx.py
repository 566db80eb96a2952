"""tensorly with its PyTorch backend, einx, torchode, KAN."""

import einx
import tensorly as tl
import torch
import torchode
from showing import show
from tensorly.decomposition import parafac, tensor_train, tucker

torch.manual_seed(0)
tl.set_backend("pytorch")
x = torch.rand(4, 5, 6)
cp = parafac(x, 2, init="svd", n_iter_max=10)
show("parafac", tl.cp_to_tensor(cp))
show("tucker", tl.tucker_to_tensor(tucker(x, [2, 2, 2], n_iter_max=5)))
show("train", tl.tt_to_tensor(tensor_train(x, [1, 2, 2, 1])))
show(
    "unfolded",
    tl.unfold(x, 1),
    tl.tenalg.khatri_rao([x[0], x[1]]),
    tl.tenalg.mode_dot(x, torch.rand(3, 4), 0),
)
show(
    "einx",
    einx.sum("a [b] c", x),
    einx.dot("a b c, c d -> a b d", x, torch.rand(6, 2)),
    einx.softmax("a b [c]", x),
    einx.mean("a (b s) c -> a b c", x, s=5),
    einx.get_at("[n] c, p -> p c", x[0], torch.tensor([0, 2])),
)
term = torchode.ODETerm(lambda t, y: -0.5 * y)
step = torchode.Dopri5(term=term)
solver = torchode.AutoDiffAdjoint(step, torchode.IntegralController(1e-6, 1e-4, term=term))
times = torch.linspace(0, 2, 5).repeat(3, 1)
solved = solver.solve(torchode.InitialValueProblem(y0=torch.rand(3, 2), t_eval=times))
show("torchode", solved.ys, solved.status.tolist())
