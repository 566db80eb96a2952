"""Several GPUs in one process, on two devices that are really the host."""

import os
import subprocess
import sys

import pytest

from flambeau import nn

PROGRAM = """
import flambeau as torch
from flambeau import nn
from flambeau.cuda import comm

assert torch.cuda.device_count() == 2
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).cuda().eval()
x = torch.randn(7, 4)
model = nn.DataParallel(net)
assert model.device_ids == [0, 1] and model.output_device == 0
alone, y = net(x.cuda()), model(x)
assert y.device == alone.device and torch.allclose(y, alone, atol=1e-6)
wanted = torch.autograd.grad(alone.square().sum(), list(net.parameters()))
y.square().sum().backward()
assert all(torch.allclose(p.grad, g, atol=1e-5) for p, g in zip(net.parameters(), wanted))
assert model(x[:1]).shape == (1, 3)  # less samples than devices
assert nn.parallel.data_parallel(net, x, [0, 1], "cpu").device.type == "cpu"
with torch.no_grad():
    assert not model(x).requires_grad

replicas = nn.parallel.replicate(net, [0, 1])
assert [r[0].weight.device.index for r in replicas] == [0, 1] and not list(replicas[1].parameters())
assert replicas[1][1].running_mean.device.index == 1
assert not nn.parallel.replicate(net, [1], detach=True)[0][0].weight.requires_grad

class Both(nn.Module):
    def forward(self, pair, scale):
        a, b = pair
        return {"sum": (a + b) * scale, "other": [b]}

found = nn.DataParallel(Both())((x, x), scale=2)
assert torch.equal(found["sum"].cpu(), 4 * x) and torch.equal(found["other"][0].cpu(), x)
try:
    nn.DataParallel(nn.Linear(4, 3).cuda())(torch.randn(4, 5))
except RuntimeError as error:
    assert "Caught RuntimeError in replica 0 on device 0." in str(error), error
else:
    raise AssertionError("sizes that do not fit")

pieces = comm.scatter(torch.arange(5.0), [0, 1])
assert [p.tolist() for p in pieces] == [[0, 1, 2], [3, 4]] and pieces[1].device.index == 1
assert comm.scatter(torch.arange(5.0), [0, 1], [1, 4])[0].tolist() == [0]
joined = comm.gather(pieces, destination=1)
assert joined.device.index == 1 and joined.tolist() == [0, 1, 2, 3, 4]
w = torch.ones(2, device="cuda:0", requires_grad=True)
a, b = comm.broadcast(w, [0, 1])
((a * 2).sum() + (b * 3).sum().to("cuda:0")).backward()
assert w.grad.tolist() == [5, 5]
total = comm.reduce_add([w.detach(), b.detach()], 1)
assert total.device.index == 1 and total.tolist() == [2, 2]
assert comm.broadcast_coalesced([w, w], [0, 1])[1][0].device.index == 1
assert comm.reduce_add_coalesced([[w, w], [b, b]], 0)[1].tolist() == [2, 2]
print("done")
"""


def test_a_batch_is_split_over_devices():
    environment = {**os.environ, "FLAMBEAU_CUDA": "emulated:2", "PYTHONPATH": os.getcwd()}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )
    assert found.stdout.strip() == "done", found.stderr


def test_without_gpus_modules_run_side_by_side():
    import flambeau

    modules = [nn.Linear(2, 2), nn.Linear(2, 2)]
    inputs = [flambeau.ones(2), flambeau.zeros(2)]
    found = nn.parallel.parallel_apply(modules, inputs)
    assert all(flambeau.equal(y, m(x)) for y, m, x in zip(found, modules, inputs))
    assert nn.parallel.gather(found, "cpu").shape == (4,)
    with pytest.raises(AssertionError, match="is not equal to the number of inputs"):
        nn.parallel.parallel_apply(modules, inputs[:1])
