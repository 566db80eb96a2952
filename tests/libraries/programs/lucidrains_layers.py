"""Rotary embeddings, linear attention, reformer, performer, vision transformers, averages."""

import torch
from ema_pytorch import EMA
from linear_attention_transformer import LinearAttentionTransformerLM
from performer_pytorch import PerformerLM
from reformer_pytorch import ReformerLM
from rotary_embedding_torch import RotaryEmbedding
from showing import gradients, show
from vit_pytorch import SimpleViT, ViT
from vit_pytorch.cait import CaiT
from vit_pytorch.cct import CCT
from vit_pytorch.deepvit import DeepViT
from vit_pytorch.mobile_vit import MobileViT
from vit_pytorch.t2t import T2TViT

torch.manual_seed(0)
rotary = RotaryEmbedding(dim=8)
q = torch.randn(1, 2, 6, 16)
show(
    "rotary",
    rotary.rotate_queries_or_keys(q),
    rotary.rotate_queries_and_keys(q, q, seq_dim=-2)[1] if rotary.use_xpos else 0,
)
show("axial", RotaryEmbedding(dim=8, freqs_for="pixel", max_freq=10).get_axial_freqs(3, 4))
tokens = torch.randint(0, 40, (2, 32))
for name, make in {
    "linear": lambda: LinearAttentionTransformerLM(
        num_tokens=40, dim=16, heads=2, depth=1, max_seq_len=32, causal=True
    ),
    "performer": lambda: PerformerLM(
        num_tokens=40, max_seq_len=32, dim=16, depth=1, heads=2, dim_head=8, causal=False
    ),
    "reformer": lambda: ReformerLM(
        num_tokens=40,
        dim=16,
        depth=1,
        heads=2,
        max_seq_len=32,
        bucket_size=4,
        n_hashes=2,
        causal=True,
    ),
}.items():
    torch.manual_seed(1)
    model = make()
    torch.manual_seed(2)
    out = model(tokens)
    out.square().mean().backward()
    show(name, out, gradients(model))
image = torch.randn(2, 3, 32, 32)
common = dict(image_size=32, num_classes=4, dim=16, depth=1, heads=2)
for name, make in {
    "vit": lambda: ViT(patch_size=8, mlp_dim=32, **common),
    "simple": lambda: SimpleViT(patch_size=8, mlp_dim=32, **common),
    "deep": lambda: DeepViT(patch_size=8, mlp_dim=32, **common),
    "cait": lambda: CaiT(patch_size=8, mlp_dim=32, cls_depth=1, layer_dropout=0.0, **common),
    "t2t": lambda: T2TViT(mlp_dim=32, t2t_layers=((7, 4), (3, 2)), **common),
    "cct": lambda: CCT(
        img_size=(32, 32), embedding_dim=16, num_layers=1, num_heads=2, num_classes=4, mlp_ratio=2.0
    ),
    "mobile": lambda: MobileViT(
        (32, 32), [8, 12, 16], [4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 16], 4, patch_size=(1, 1)
    ),
}.items():
    torch.manual_seed(1)
    model = make().eval()
    out = model(image)
    out.square().mean().backward()
    show(name, out, gradients(model))
net = torch.nn.Linear(3, 3)
ema = EMA(net, beta=0.9, update_after_step=0, update_every=1)
for _ in range(3):
    with torch.no_grad():
        net.weight.add_(0.1)
    ema.update()
show("ema", ema.ema_model.weight, net.weight)
