"""Quantized models against PyTorch's, and against our own floats.

Usage: python benchmarks/quantized.py [--threads 1,2] [--only PATTERN] [--seconds 1] [--floats]

`--floats` compares our quantized models with our float ones in place of PyTorch's quantized ones.
"""

import sys
import warnings
from collections.abc import Iterator

from timing import Case, arguments, main, prepare, timed_loop

DYNAMIC = """
import importlib
quantization = importlib.import_module(torch.__name__ + ".ao.quantization")
torch.backends.quantized.engine = "fbgemm"
model = {model}
floats = model.eval()
model = quantization.quantize_dynamic(model)
x = {x}
torch.set_grad_enabled(False)
"""

RESNET = """
import importlib
nn = torch.nn
quantization = importlib.import_module(torch.__name__ + ".ao.quantization")
graphs = importlib.import_module(torch.__name__ + ".ao.quantization.quantize_fx")
torch.backends.quantized.engine = "fbgemm"


class Block(nn.Module):
    def __init__(self, inside, outside, step):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, step, 1, bias=False)
        self.bn1, self.relu1 = nn.BatchNorm2d(outside), nn.ReLU()
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2, self.relu2 = nn.BatchNorm2d(outside), nn.ReLU()
        self.short = None
        if step > 1:
            self.short = nn.Sequential(
                nn.Conv2d(inside, outside, 1, step, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(y + (x if self.short is None else self.short(x)))


def resnet18():
    sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1),
             (256, 512, 2), (512, 512, 1)]
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1), *[Block(*size) for size in sizes], nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(512, 1000),
    )


torch.set_grad_enabled(False)
x = torch.randn(1, 3, 224, 224)
floats = resnet18().eval()
model = graphs.prepare_fx(floats, quantization.get_default_qconfig_mapping("fbgemm"), (x,))
model(x)
model = graphs.convert_fx(model)
"""

GPT = """
nn = torch.nn
torch.set_grad_enabled(False)
floats = nn.Sequential(*[
    layer for _ in range(4)
    for layer in (nn.Linear(1024, 3072), nn.Linear(3072, 1024), nn.Linear(1024, 4096), nn.GELU(),
                  nn.Linear(4096, 1024))
], nn.Linear(1024, 32000))
from flambeau.quantization.weight_only import quantize_weights
model = quantize_weights(floats, {bits}, 64)
x = torch.randn(1, 1024)
"""


def cases() -> Iterator[Case]:
    linear = "torch.nn.Sequential(torch.nn.Linear(1024, 1024))"
    for batch in (16, 1):
        setup = DYNAMIC.format(model=linear, x=f"torch.randn({batch}, 1024)")
        yield Case(f"dynamic linear 1024, batch {batch}", "model(x)", setup)
    lstm = "torch.nn.Sequential(torch.nn.LSTM(256, 512))"
    setup = DYNAMIC.format(model=lstm, x="torch.randn(35, 8, 256)")
    yield Case("dynamic LSTM 256-512, 35 steps, batch 8", "model[0](x)", setup)
    yield Case("ResNet-18, 224, batch 1", "model(x)", RESNET)


def against_floats(threads: int, seconds: float) -> None:
    """Our float models against our quantized ones."""
    import flambeau

    for bits in (4, 8):
        all_cases.append(
            Case(f"GPT layers, weights of {bits} bits", "model(x)", GPT.format(bits=bits))
        )
    flambeau.set_num_threads(threads)
    for case in all_cases:
        names = prepare(case, flambeau)
        loops = [
            timed_loop(Case("", case.run.replace("model", word)), names)
            for word in ("floats", "model")
        ]
        count = max(1, int(seconds / 20 / max(loops[0](1), 1e-6)))
        best = [min(loop(count) for _ in range(7)) / count for loop in loops]
        print(f"{threads} {case.name}: {best[0] * 1e6:.0f} us, {best[1] * 1e6:.0f} us, "
              f"{best[0] / best[1]:.2f}")  # fmt: skip


all_cases = list(cases())
if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if "--floats" in sys.argv:
        sys.argv.remove("--floats")
        options = arguments(__doc__).parse_args()
        for threads in map(int, str(options.threads).strip("[]").split(",")):
            against_floats(threads, options.seconds)
    else:
        main(__doc__, all_cases)
