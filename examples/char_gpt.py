"""A small GPT that learns twelve sonnets letter by letter, then writes lines of its own.

The model is the usual one: embeddings of letters and places, blocks of causal attention and a
two-layer network, each behind a LayerNorm, and a last layer that shares its weights with the
embedding. Run `python examples/char_gpt.py`; `--quick` takes a few seconds.
"""

import argparse
import math
import time
from pathlib import Path

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

TEXT = Path(__file__).parent / "data" / "sonnets.txt"


class Block(nn.Module):
    """Look back at earlier letters, then think about what was seen."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )
        self.dropout = nn.Dropout(dropout)

    def attention(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Scores of the next letter at every place."""

    def __init__(self, letters, context, width=128, heads=4, layers=4, dropout=0.1):
        super().__init__()
        self.context = context
        self.letters = nn.Embedding(letters, width)
        self.places = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters, bias=False)
        self.apply(self.initialize)
        self.head.weight = self.letters.weight

    @staticmethod
    def initialize(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.05)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.dropout(self.letters(ids) + self.places(places))
        return self.head(self.norm(self.blocks(x)))

    @torch.no_grad()
    def write(self, ids, count, temperature=0.7):
        """Continue a text by drawing one letter after the other."""
        self.eval()
        for _ in range(count):
            scores = self(ids[:, -self.context :])[:, -1] / temperature
            ids = torch.cat([ids, torch.multinomial(scores.softmax(-1), 1)], dim=1)
        self.train()
        return ids


def batches(ids, context, size):
    """Pieces of the text at random places, and the same pieces one letter on."""
    starts = torch.randint(len(ids) - context - 1, (size,))
    places = starts[:, None] + torch.arange(context + 1)
    pieces = ids[places]
    return pieces[:, :-1], pieces[:, 1:]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--context", type=int, default=64, help="letters that the model sees")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small model and few steps")
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)

    text = TEXT.read_text()
    alphabet = sorted(set(text))
    number = {letter: i for i, letter in enumerate(alphabet)}
    ids = torch.tensor([number[letter] for letter in text])
    steps = 40 if options.quick else options.steps
    size = dict(width=32, heads=2, layers=1) if options.quick else {}
    model = GPT(len(alphabet), options.context, **size)
    weights = sum(p.numel() for p in model.parameters())
    print(f"{len(text)} letters, {len(alphabet)} different; {weights} weights")

    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.1)
    warmup = steps // 10
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / warmup, 0.55 + 0.45 * math.cos(math.pi * step / steps)),
    )
    begin, report = time.perf_counter(), max(1, steps // 10)
    for step in range(1, steps + 1):
        x, y = batches(ids, options.context, options.batch)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step == 1 or step % report == 0:
            seconds = time.perf_counter() - begin
            print(f"step {step:4d}  loss {loss.item():.3f}  {seconds:5.1f} s")

    start = torch.tensor([[number[letter] for letter in "When "]])
    written = model.write(start, 40 if options.quick else 300)[0]
    print("\n" + "".join(alphabet[i] for i in written.tolist()))
    return loss.item()


if __name__ == "__main__":
    main()
