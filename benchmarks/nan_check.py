"""What `flambeau.debug.nan_check` costs: steps of training with it and without, by turns.

python benchmarks/nan_check.py             a GPT and ResNet-18
python benchmarks/nan_check.py --rounds 5  more turns; the best of each counts
"""

import argparse
import time

import flambeau as torch
from flambeau import debug, nn
from flambeau.vision.models import resnet18


def gpt():
    """A step of a transformer of 4 layers, 256 wide, 8 texts of 128 tokens."""
    layer = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(1000, 256), nn.TransformerEncoder(layer, 4))
    head = nn.Linear(256, 1000)
    parameters = [*model.parameters(), *head.parameters()]
    tokens = torch.randint(0, 1000, (8, 129))

    def loss():
        logits = head(model(tokens[:, :-1]))
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    return parameters, loss


def resnet():
    """A step of ResNet-18 on 8 pictures of 112 x 112."""
    model, x, y = resnet18(), torch.randn(8, 3, 112, 112), torch.randint(0, 1000, (8,))
    return [*model.parameters()], lambda: nn.functional.cross_entropy(model(x), y)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    for make in (gpt, resnet):
        parameters, loss = make()
        optimizer = torch.optim.SGD(parameters, lr=1e-3)

        def step(loss=loss, optimizer=optimizer):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()

        step()
        with debug.nan_check():
            step()
        plain, checked = [], []
        for _ in range(rounds):
            began = time.perf_counter()
            step()
            plain.append(time.perf_counter() - began)
            with debug.nan_check():
                began = time.perf_counter()
                step()
                checked.append(time.perf_counter() - began)
        a, b = min(plain), min(checked)
        print(f"| {make.__doc__[:-1]} | {a * 1e3:.0f} ms | {b * 1e3:.0f} ms | {b / a - 1:.1%} |")


if __name__ == "__main__":
    main()
