"""A word-level language model: an LSTM learns which word follows, and its perplexity falls.

The text is cut into as many columns as the batch has rows; the state of the LSTM goes on from one
piece of the columns to the next and gradients stop at the border (truncated backpropagation).
Run `python examples/word_lstm.py`; `--quick` takes a few seconds.
"""

import argparse
import math
import re
from pathlib import Path

import flambeau as torch
from flambeau import nn

TEXT = Path(__file__).parent / "data" / "sonnets.txt"


class Vocabulary:
    """Words by number; rare ones share a number."""

    def __init__(self, words, least=2):
        counts = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        self.words = ["<rare>", *sorted(word for word, n in counts.items() if n >= least)]
        self.numbers = {word: i for i, word in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def encode(self, words):
        return torch.tensor([self.numbers.get(word, 0) for word in words])


class Model(nn.Module):
    """Embedding, LSTM and scores of the next word, with dropout between them."""

    def __init__(self, words, width, layers, dropout):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers, dropout=dropout if layers > 1 else 0)
        self.dropout = nn.Dropout(dropout)
        self.scores = nn.Linear(width, words)
        self.scores.weight = self.embedding.weight
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

    def forward(self, ids, state=None):
        x, state = self.lstm(self.dropout(self.embedding(ids)), state)
        return self.scores(self.dropout(x)), state


def columns(ids, count):
    """(length, count): the text in columns."""
    length = len(ids) // count
    return ids[: length * count].view(count, length).t().contiguous()


def pieces(data, length):
    """Inputs and targets, piece by piece down the columns."""
    for start in range(0, len(data) - 1, length):
        end = min(start + length, len(data) - 1)
        yield data[start:end], data[start + 1 : end + 1].reshape(-1)


def evaluate(model, data, length, loss_of):
    """The mean loss per word."""
    model.eval()
    total = words = 0
    state = None
    with torch.no_grad():
        for x, y in pieces(data, length):
            scores, state = model(x, state)
            total += loss_of(scores.flatten(0, 1), y).item() * len(y)
            words += len(y)
    model.train()
    return total / words


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--length", type=int, default=16, help="words between two steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small model, few epochs")
    options = parser.parse_args(arguments)
    if options.quick:
        options.epochs, options.width, options.layers = 4, 32, 1
    torch.manual_seed(options.seed)

    words = re.findall(r"[a-z'-]+|[.,:;?!]|\n", TEXT.read_text().lower())
    border = int(0.9 * len(words))
    vocabulary = Vocabulary(words[:border])
    training = columns(vocabulary.encode(words[:border]), 8)
    validation = columns(vocabulary.encode(words[border:]), 4)
    print(f"{len(words)} words, {len(vocabulary)} different")

    model = Model(len(vocabulary), options.width, options.layers, options.dropout)
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    for epoch in range(1, options.epochs + 1):
        state, total, count = None, 0.0, 0
        for x, y in pieces(training, options.length):
            if state is not None:
                state = tuple(part.detach() for part in state)
            scores, state = model(x, state)
            loss = loss_of(scores.flatten(0, 1), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            total, count = total + loss.item(), count + 1
        valid = evaluate(model, validation, options.length, loss_of)
        schedule.step(valid)
        print(
            f"epoch {epoch:2d}  training perplexity {math.exp(total / count):7.1f}  "
            f"validation {math.exp(valid):7.1f}  rate {schedule.get_last_lr()[0]:g}"
        )
    return math.exp(total / count)


if __name__ == "__main__":
    main()
