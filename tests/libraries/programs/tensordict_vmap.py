"""Functions of `torch.vmap` over TensorDicts: dimensions, nesting, chunks, modules, gradients."""

import torch
from showing import show
from tensordict import LazyStackedTensorDict, TensorDict, tensorclass
from tensordict.nn import TensorDictModule

torch.manual_seed(0)
data = TensorDict({"a": torch.randn(3, 4), "b": {"c": torch.arange(6).view(3, 2)}}, batch_size=[3])
wide = TensorDict({"a": torch.arange(24.0).view(3, 4, 2)}, batch_size=[3, 4])


def shown(label, found):
    """A line for all that a TensorDict holds, and its batch size."""
    show(label, found.batch_size, *[found[k] for k in sorted(found.keys(True, True), key=str)])


show("sums", torch.vmap(lambda t: t["a"].sum() + t["b", "c"].sum())(data))
shown("more", torch.vmap(lambda t: t + 1)(data))
shown("written", torch.vmap(lambda t: t.set("d", t["a"] * 2))(data))
shown("chosen", torch.vmap(lambda t: t.select("a"), in_dims=(0,), out_dims=(0,))(data))
shown("turned", torch.vmap(lambda t: t + 1, in_dims=1)(wide))
shown("and back", torch.vmap(lambda t: t + 1, in_dims=(1,), out_dims=(1,))(wide))
shown("chunks", torch.vmap(lambda t: t + 1, chunk_size=2)(data))
show("nested", torch.vmap(torch.vmap(lambda t: t["a"].sum()))(wide))
show("with a tensor", torch.vmap(lambda t, x: t["a"] * x, in_dims=(-1, None))(wide, torch.ones(2)))
lazy = LazyStackedTensorDict(data[0].clone(), data[1].clone(), stack_dim=0)
show("lazy", torch.vmap(lambda t: t["a"].sum())(lazy))

net = torch.nn.Linear(4, 2)
layer = TensorDictModule(net, in_keys=["a"], out_keys=["o"])


def many(module):
    """Three times the parameters, each another multiple."""
    params = TensorDict.from_module(module)
    return params.apply(lambda p: torch.stack([p.detach() * k for k in (1, 2, 3)]), batch_size=[3])


def called(params, x):
    with params.to_module(net):
        return net(x)


def filled(params, t):
    with params.to_module(layer):
        return layer(t)


shown("layer", torch.vmap(layer)(data))
show("ensemble", torch.vmap(called, (0, None))(many(net), data["a"]))
shown("layers on all", torch.vmap(filled, (0, None))(many(layer), data))
shown("layers on each", torch.vmap(filled)(many(layer), data))
loss = torch.func.grad(lambda p: called(p, data["a"]).square().sum())
shown("gradients", torch.vmap(loss)(many(net)))


@tensorclass
class Pair:
    x: torch.Tensor
    y: torch.Tensor


pair = Pair(torch.ones(3, 2), torch.arange(3.0), batch_size=[3])
show("class", torch.vmap(lambda p: p.x * p.y)(pair))
for dims in ((None,), (5,), ("x",)):
    try:
        torch.vmap(lambda t: t, in_dims=dims)(wide)
    except ValueError as error:
        show("refused", " ".join(str(error).split()))
