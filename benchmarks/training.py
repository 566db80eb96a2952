"""Training steps and inference of small models, eager, as users write them.

Usage: python benchmarks/training.py [--threads 1,2] [--only PATTERN] [--seconds 2]

`--bits` compares the losses of the first step in place of times.
"""

import sys
from collections.abc import Iterator

from ops import differences
from timing import Case, arguments, run_cases, select

NAMES = "nn, F = torch.nn, torch.nn.functional\n"

MLP = """
class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(784, 256), nn.Linear(256, 10)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        return self.second(self.dropout(F.relu(self.first(x))))

model = MLP()
"""

CONVNET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, 1), nn.Conv2d(32, 64, 3, 1)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = self.dropout1(F.max_pool2d(x, 2)).flatten(1)
        return self.fc2(self.dropout2(F.relu(self.fc1(x))))

model = Net()
"""

RESNET = """
class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.short = nn.Sequential()
        if stride != 1 or inside != outside:
            self.short = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.short(x))

class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        sizes = [64, 64, 128, 256, 512]
        blocks = []
        for k in range(4):
            blocks += [Block(sizes[k], sizes[k + 1], 1 if k == 0 else 2)]
            blocks += [Block(sizes[k + 1], sizes[k + 1], 1)]
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(512, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn1(self.conv1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))

model = ResNet18()
"""

GPT = """
class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))

class GPT(nn.Module):
    def __init__(self, tokens=256, length=128, width=128, heads=4, layers=4):
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, i):
        x = self.tokens(i) + self.places(torch.arange(i.shape[1]))
        return self.head(self.norm(self.layers(x)))

model = GPT()
"""

LSTM = """
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])

model = Classifier()
"""

STEP = """
optimizer.zero_grad()
loss = F.cross_entropy(model(x), y)
loss.backward()
optimizer.step()
out = loss.detach()
"""
TOKENS = STEP.replace("model(x), y", "model(x).flatten(0, 1), y.flatten()")

ADAM = "optimizer = torch.optim.Adam(model.parameters(), 1e-3)\n"
SGD = "optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)\n"
ADAMW = "optimizer = torch.optim.AdamW(model.parameters(), 1e-3)\n"
LABELS = "y = torch.randint(10, ({},))\n"
SEQUENCES = "x = torch.randint(256, (8, 128))\ny = torch.randint(256, (8, 128))\n"


def steps() -> Iterator[Case]:
    def case(name: str, model: str, optimizer: str, data: str, minimum: float, run: str = STEP):
        return Case(name, run, NAMES + model + optimizer + data, minimum)

    digits = "x = torch.randn(64, 784)\n" + LABELS.format(64)
    yield case("MLP 784-256-10, batch 64, SGD", MLP, SGD, digits, 1.5)
    digits = "x = torch.randn(64, 1, 28, 28)\n" + LABELS.format(64)
    yield case("convnet of MNIST, batch 64, Adam", CONVNET, ADAM, digits, 1.2)
    images = "x = torch.randn(8, 3, 32, 32)\n" + LABELS.format(8)
    yield case("ResNet-18, 8x3x32x32, SGD", RESNET, SGD, images, 1.1)
    yield case("GPT 4 layers of 128, 8x128 tokens, AdamW", GPT, ADAMW, SEQUENCES, 1.2, TOKENS)
    signals = "x = torch.randn(32, 50, 64)\n" + LABELS.format(32)
    yield case("LSTM classifier, 32x50x64, Adam", LSTM, ADAM, signals, 1.2)


def inference() -> Iterator[Case]:
    run = "with torch.no_grad():\n    out = model(x)"
    calm = "model.eval()\n"
    for name, model, data in (
        ("MLP", MLP, "x = torch.randn(1, 784)"),
        ("ResNet-18", RESNET, "x = torch.randn(1, 3, 32, 32)"),
        ("GPT", GPT, "x = torch.randint(256, (1, 128))"),
    ):
        yield Case(f"{name}, inference, batch 1", run, NAMES + model + calm + data, 1.2)


FAMILIES = {"steps": list(steps()), "inference": list(inference())}
CASES = [case for family in FAMILIES.values() for case in family]


if __name__ == "__main__":
    parser = arguments("Training steps, flambeau against PyTorch.")
    parser.add_argument("--bits", action="store_true", help="compare losses instead of times")
    options = parser.parse_args()
    chosen = select(CASES, options.only)
    if options.bits:
        lines = differences(chosen)
        print("\n".join(lines) or f"{len(chosen)} results are the same with 1 and 2 threads")
        sys.exit(bool(lines))
    results = list(run_cases(chosen, options.threads, options.seconds))
    met = sum(result.met for result in results)
    print(f"\n{met} of {len(results)} reach the ratio asked for")
