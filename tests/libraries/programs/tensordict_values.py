"""TensorDict: batches of named tensors, nesting, stacking, modules."""

import torch
from showing import show
from tensordict import TensorDict, lazy_stack, tensorclass
from tensordict.nn import TensorDictModule, TensorDictSequential

torch.manual_seed(0)
data = TensorDict({"a": torch.randn(3, 4), "b": {"c": torch.arange(6).view(3, 2)}}, batch_size=[3])
show("items", data["a"], data["b", "c"], sorted(map(str, data.keys(True, True))))
show("indexed", data[1]["a"], data[:2]["b", "c"], data.batch_size)
show(
    "arithmetic",
    (data["a"] * 2).sum(),
    data.apply(lambda t: t.float().mean(-1), batch_size=[3])["a"],
)
stacked = torch.stack([data, data.clone()], 0)
show("stacked", stacked["a"], stacked.shape, torch.cat([data, data], 0)["a"].shape)
show("reshaped", data.reshape(3, 1)["a"], data.unsqueeze(0).shape, data.expand(2, 3)["a"].shape)
show(
    "split", [part["a"] for part in data.split(2, 0)], [part["a"].shape for part in data.unbind(0)]
)
show("flat", sorted(data.flatten_keys(".").keys()), data.to(torch.float64)["a"].dtype)
net = TensorDictSequential(
    TensorDictModule(torch.nn.Linear(4, 5), in_keys=["a"], out_keys=["hidden"]),
    TensorDictModule(torch.nn.Linear(5, 2), in_keys=["hidden"], out_keys=["out"]),
)
out = net(data)
out["out"].square().mean().backward()
show("module", out["out"], net[0].module.weight.grad)
params = TensorDict.from_module(net)
show("params", sorted(map(str, params.keys(True, True))))
with params.apply(torch.zeros_like).to_module(net):
    show("replaced", net(data)["out"])


@tensorclass
class Pair:
    x: torch.Tensor
    y: torch.Tensor


pair = Pair(torch.randn(2, 3), torch.zeros(2, 1), batch_size=[2])
show("class", pair[0].x, torch.stack([pair, pair]).y.shape)
show("lazy", lazy_stack([data, data])["a"].shape)
data.lock_()
try:
    data["z"] = torch.zeros(3)
except RuntimeError as error:
    show("locked", type(error).__name__)
