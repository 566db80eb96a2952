"""Models written the way people publish them: compiled they do the same, most of them whole."""

import math
from dataclasses import dataclass
from functools import partial

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


@dataclass
class GPTConfig:
    block_size: int = 16
    vocab_size: int = 20
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 8
    dropout: float = 0.1
    bias: bool = True


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout
        self.flash = hasattr(F, "scaled_dot_product_attention") and config.bias
        mask = torch.tril(torch.ones(config.block_size, config.block_size))
        self.register_buffer("mask", mask.view(1, 1, config.block_size, config.block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        if self.flash:
            p = self.dropout if self.training else 0
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=p, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        make = partial(nn.LayerNorm, config.n_embd)
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(config.vocab_size, config.n_embd),
            wpe=nn.Embedding(config.block_size, config.n_embd),
            h=nn.ModuleList([nn.ModuleList([make(), CausalSelfAttention(config), make(),
                nn.Sequential(nn.Linear(config.n_embd, 4 * config.n_embd), nn.GELU(),
                              nn.Linear(4 * config.n_embd, config.n_embd))])
                for _ in range(config.n_layer)]),
            ln_f=make(),
        ))  # fmt: skip
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        _, t = idx.size()
        assert t <= self.config.block_size, f"Cannot forward sequence of length {t}"
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for norm1, attention, norm2, mlp in self.transformer.h:
            x = x + attention(norm1(x))
            x = x + mlp(norm2(x))
        x = self.transformer.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        loss = F.cross_entropy(
            logits.view(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-1
        )
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, count, temperature=1.0, top_k=None):
        for _ in range(count):
            logits, _ = self(idx[:, -self.config.block_size :])
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
            idx = torch.cat((idx, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), 1)
        return idx


class LlamaBlock(nn.Module):
    """Rotary positions by complex numbers, and a cache that is written to."""

    def __init__(self, dim=8, heads=2, length=16):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.norm = nn.RMSNorm(dim)
        freqs = 1.0 / (10000.0 ** (torch.arange(0, self.head_dim, 2).float() / self.head_dim))
        angles = torch.outer(torch.arange(length), freqs)
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles))
        self.register_buffer("cache_k", torch.zeros(2, length, heads, self.head_dim))
        self.register_buffer("cache_v", torch.zeros(2, length, heads, self.head_dim))

    @staticmethod
    def rotate(x, freqs):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * freqs[None, :, None, :]).flatten(3).type_as(x)

    def forward(self, x, start_pos: int = 0):
        h = self.norm(x)
        bsz, seqlen, _ = x.shape
        shape = (bsz, seqlen, self.heads, self.head_dim)
        xq, xk, xv = self.wq(h).view(shape), self.wk(h).view(shape), self.wv(h).view(shape)
        freqs = self.freqs_cis[start_pos : start_pos + seqlen]
        xq, xk = self.rotate(xq, freqs), self.rotate(xk, freqs)
        with torch.no_grad():
            self.cache_k[:bsz, start_pos : start_pos + seqlen] = xk
            self.cache_v[:bsz, start_pos : start_pos + seqlen] = xv
        keys = self.cache_k[:bsz, : start_pos + seqlen].transpose(1, 2)
        values = self.cache_v[:bsz, : start_pos + seqlen].transpose(1, 2)
        scores = xq.transpose(1, 2) @ keys.transpose(2, 3) / math.sqrt(self.head_dim)
        out = F.softmax(scores.float(), dim=-1).type_as(xq) @ values
        return x + self.wo(out.transpose(1, 2).contiguous().view(bsz, seqlen, -1))


class UNet(nn.Module):
    def __init__(self, widths=(4, 8)):
        super().__init__()
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        before = 1
        for width in widths:
            self.downs.append(self.double(before, width))
            before = width
        for width in reversed(widths):
            self.ups.append(nn.ConvTranspose2d(width * 2, width, kernel_size=2, stride=2))
            self.ups.append(self.double(width * 2, width))
        self.pool = nn.MaxPool2d(2, 2)
        self.bottleneck = self.double(widths[-1], widths[-1] * 2)
        self.final = nn.Conv2d(widths[0], 1, 1)

    @staticmethod
    def double(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b),
                             nn.ReLU(inplace=True))  # fmt: skip

    def forward(self, x):
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
            x = self.pool(x)
        x = self.bottleneck(x)
        skips = skips[::-1]
        for idx in range(0, len(self.ups), 2):
            x = self.ups[idx](x)
            skip = skips[idx // 2]
            if x.shape != skip.shape:
                x = F.interpolate(x, size=skip.shape[2:])
            x = self.ups[idx + 1](torch.cat((skip, x), dim=1))
        return self.final(x)


class VectorQuantizer(nn.Module):
    """Nearest codes, with gradients that pass straight through."""

    def __init__(self, codes=6, dim=4, decay=0.9):
        super().__init__()
        self.embedding, self.decay = nn.Embedding(codes, dim), decay
        self.register_buffer("cluster_size", torch.zeros(codes))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        w = self.embedding.weight
        distances = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ w.t() + w.pow(2).sum(1)
        codes = distances.argmin(1)
        if self.training:
            counts = F.one_hot(codes, w.shape[0]).sum(0)
            self.cluster_size.mul_(self.decay).add_(counts, alpha=1 - self.decay)
        quantized = self.embedding(codes).view_as(x)
        loss = F.mse_loss(quantized.detach(), x) + F.mse_loss(quantized, x.detach())
        return x + (quantized - x).detach(), loss, codes


class Mixture(nn.Module):
    """Experts that see only what is sent to them: sizes depend on data."""

    def __init__(self, dim=4, experts=3):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList([nn.Linear(dim, dim) for _ in range(experts)])

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            rows, places = torch.where(chosen == k)
            if rows.numel() == 0:
                continue
            out = out.index_add(0, rows, weights[rows, places, None] * expert(x[rows]))
        return out


class Seq2Seq(nn.Module):
    def __init__(self, words=9, dim=6):
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.encoder, self.decoder = nn.GRU(dim, dim, batch_first=True), nn.GRUCell(dim, dim)
        self.out, self.words = nn.Linear(dim, words), words

    def forward(self, source, target, forcing=True):
        _, state = self.encoder(self.embed(source))
        hidden, token, outputs = state[0], target[:, 0], []
        for t in range(1, target.shape[1]):
            hidden = self.decoder(self.embed(token), hidden)
            scores = self.out(hidden)
            outputs.append(scores)
            token = target[:, t] if forcing else scores.argmax(-1)
        return torch.stack(outputs, dim=1)


IDS = torch.arange(24).reshape(2, 12) % 20
PICTURES = (torch.arange(2 * 10 * 10.0).reshape(2, 1, 10, 10) * 0.1).sin()
ROWS = (torch.arange(20.0).reshape(5, 4) * 0.7).cos()
WORDS = torch.arange(10).reshape(2, 5) % 9
# name: (model, arguments of the calls, is it one graph)
MODELS = {
    "gpt": (lambda: GPT(GPTConfig()), [(IDS, IDS), (IDS[:, :5], IDS[:, :5]), (IDS,)], True),
    "gpt without flash": (lambda: GPT(GPTConfig(bias=False)), [(IDS, IDS), (IDS[:1],)], True),
    "llama": (LlamaBlock, [(torch.ones(2, 3, 8),), (torch.ones(2, 1, 8), 3)], True),
    "unet": (UNet, [(PICTURES,), (PICTURES[:, :, :8, :8],)], True),
    "quantizer": (VectorQuantizer, [(ROWS,), (ROWS[:3],)], True),
    "mixture": (Mixture, [(ROWS,), (ROWS * 2,)], False),
    "seq2seq": (Seq2Seq, [(WORDS, WORDS), (WORDS, WORDS[:, :3], False)], True),
}  # fmt: skip


def leaves(value):
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [value] if isinstance(value, torch.Tensor) else []


def outcome(name, compile):
    """Results, gradients and buffers after some calls, in training and in evaluation."""
    torch.manual_seed(0)
    make, calls, _ = MODELS[name]
    model = make()
    run, found = compile(model), []
    for training in (True, False, True):
        model.train(training)
        for args in calls:
            results = leaves(run(*args))
            loss = sum(r.sum() for r in results if r.is_floating_point())
            loss.backward()
            found += results
    found += [p.grad for p in model.parameters() if p.grad is not None]
    return [*found, *model.buffers(), torch.get_rng_state()]


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    whole = MODELS[name][2]
    wanted = outcome(name, lambda model: model)
    found = outcome(name, lambda m: torch.compile(m, backend="eager", fullgraph=whole))
    assert len(found) == len(wanted) and all(map(torch.equal, found, wanted))
    native = outcome(name, torch.compile)
    for a, b in zip(native, wanted):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-4)


def test_texts_are_written_the_same():
    model = GPT(GPTConfig()).eval()
    made = torch.compile(model)
    for top_k in (None, 3):
        torch.manual_seed(1)
        wanted = model.generate(IDS[:1, :3], 6, top_k=top_k)
        torch.manual_seed(1)
        assert torch.equal(made.generate(IDS[:1, :3], 6, top_k=top_k), wanted)
        torch.manual_seed(1)
        compiled = torch.compile(model.generate)
        assert torch.equal(compiled(IDS[:1, :3], 6, top_k=top_k), wanted)
