"""Networks that benchmarks/gpu.py trains, written for any framework with PyTorch's names (`m`)."""


def gpt2(m, layers=12, heads=12, width=768, words=50304, length=1024):
    """GPT-2 with 124 M parameters."""
    nn, F = m.nn, m.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, steps, _ = x.shape
            parts = self.attend(self.first(x)).split(width, dim=2)
            q, k, v = [t.view(batch, steps, heads, width // heads).transpose(1, 2) for t in parts]
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(y.transpose(1, 2).reshape(batch, steps, width))
            return x + self.narrow(F.gelu(self.widen(self.second(x)), approximate="tanh"))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, words, bias=False)
            self.head.weight = self.words.weight

        def forward(self, tokens):
            places = m.arange(tokens.shape[1], device=tokens.device)
            x = self.words(tokens) + self.places(places)
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return Net()


def resnet50(m):
    """ResNet-50 for 1,000 classes."""
    nn = m.nn

    def convolve(inner, outer, size, stride=1):
        return nn.Conv2d(inner, outer, size, stride, size // 2, bias=False)

    class Bottleneck(nn.Module):
        def __init__(self, inner, width, stride):
            super().__init__()
            outer = 4 * width
            self.one, self.norm1 = convolve(inner, width, 1), nn.BatchNorm2d(width)
            self.two, self.norm2 = convolve(width, width, 3, stride), nn.BatchNorm2d(width)
            self.three, self.norm3 = convolve(width, outer, 1), nn.BatchNorm2d(outer)
            self.relu = nn.ReLU(inplace=True)
            self.aside = None
            if stride != 1 or inner != outer:
                self.aside = nn.Sequential(convolve(inner, outer, 1, stride), nn.BatchNorm2d(outer))

        def forward(self, x):
            y = self.relu(self.norm1(self.one(x)))
            y = self.relu(self.norm2(self.two(y)))
            y = self.norm3(self.three(y))
            return self.relu(y + (x if self.aside is None else self.aside(x)))

    layers = [convolve(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inner = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(count):
            layers.append(Bottleneck(inner, width, stride if k == 0 else 1))
            inner = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 1000))
