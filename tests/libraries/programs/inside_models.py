"""nnsight, TransformerLens and sae-lens: looking into models, and changing what passes there."""

import torch
from nnsight import NNsight
from sae_lens import StandardSAE, StandardSAEConfig
from showing import gradients, show
from torch import nn
from transformer_lens import HookedTransformer, HookedTransformerConfig

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
seen = NNsight(net)
x = torch.randn(3, 4)
with seen.trace(x):
    hidden = seen[1].output.save()
    seen[1].output[:, 0] = 0
    out = seen[2].output.save()
show("nnsight", hidden, out)
config = HookedTransformerConfig(
    n_layers=2,
    d_model=16,
    n_ctx=12,
    d_head=4,
    n_heads=4,
    d_mlp=32,
    d_vocab=20,
    act_fn="gelu",
    seed=3,
    device="cpu",
    attn_only=False,
    normalization_type="LNPre",
)
model = HookedTransformer(config)
draw = torch.Generator().manual_seed(4)
for p in model.parameters():
    p.data = 0.2 * torch.randn(p.shape, generator=draw)
words = torch.randint(0, 20, (2, 9), generator=draw)
logits, cache = model.run_with_cache(words)
show("logits", logits, len(cache), cache["pattern", 0], cache["resid_post", -1])
loss = model(words, return_type="loss")
loss.backward()
show("loss", loss, gradients(model))
show(
    "ablated",
    model.run_with_hooks(
        words,
        fwd_hooks=[("blocks.0.attn.hook_z", lambda z, hook: z * (torch.arange(4) > 0)[:, None])],
    ),
)
parts, names = cache.decompose_resid(return_labels=True)
show("parts", parts, names)
show(
    "generated",
    model.generate(
        words,
        max_new_tokens=3,
        do_sample=False,
        stop_at_eos=False,
        use_past_kv_cache=False,
        verbose=False,
    ),
)
show("circuit", model.OV.AB, model.QK.eigenvalues.abs())
sparse = StandardSAE(StandardSAEConfig(d_in=16, d_sae=32, dtype="float32", device="cpu"))
for p in sparse.parameters():
    p.data = 0.2 * torch.randn(p.shape, generator=draw)
show("sparse", sparse.encode(cache["resid_post", 0]), sparse(cache["resid_post", 0]))
