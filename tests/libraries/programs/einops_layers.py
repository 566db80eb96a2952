"""Einops: rearranging, reducing, packing, layers, einsum."""

import torch
from einops import asnumpy, einsum, pack, parse_shape, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from showing import gradients, show

torch.manual_seed(0)
x = torch.randn(2, 3, 4, 6, requires_grad=True)
show("rearranged", rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3))
show("reduced", reduce(x, "b c (h p) w -> b c h", "max", p=2), reduce(x, "b ... -> b", "prod"))
show("repeated", repeat(x[0, 0], "h w -> h (w k)", k=2), parse_shape(x, "b c _ w"))
packed, shapes = pack([x[0], x[1, :2]], "* h w")
show("packed", packed, shapes, unpack(packed, shapes, "* h w"))
show("einsum", einsum(x, torch.randn(3, 5), "b c h w, c d -> b d h w"))
show("listed", rearrange([x[0], x[1]], "k c h w -> c (k h) w"), asnumpy(x.detach()).shape)
net = torch.nn.Sequential(
    Rearrange("b c h w -> b (h w) c"),
    EinMix("b t c -> b t d", "c d", "d", c=3, d=4),
    torch.nn.ReLU(),
    Reduce("b t d -> b d", "mean"),
)
net(x).square().sum().backward()
show("layers", net(x), gradients(net), x.grad)
try:
    rearrange(x, "a b c -> c b a")
except Exception as error:
    show("error", type(error).__name__)
