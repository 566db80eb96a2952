"""torcheval, ptflops, torchview, torchviz, torch-lr-finder: scores, operations, graphs, rates."""

import warnings

import torch
from ptflops import get_model_complexity_info
from showing import show
from torch import nn
from torch_lr_finder import LRFinder
from torcheval.metrics import (
    BinaryAUPRC,
    BinaryAUROC,
    BinaryConfusionMatrix,
    MeanSquaredError,
    MulticlassAccuracy,
    MulticlassAUROC,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
    Perplexity,
    R2Score,
    Throughput,
)
from torchview import draw_graph
from torchviz import make_dot

warnings.simplefilter("ignore")
torch.manual_seed(0)
classes, labels = torch.randn(9, 3), torch.randint(0, 3, (9,))
scores, truths = torch.rand(12), torch.randint(0, 2, (12,))
for metric, given, wanted in [
    (MulticlassAccuracy(), classes, labels),
    (MulticlassF1Score(num_classes=3, average="macro"), classes, labels),
    (MulticlassAUROC(num_classes=3), classes, labels),
    (MulticlassConfusionMatrix(3), classes, labels),
    (BinaryAUROC(), scores, truths),
    (BinaryAUPRC(), scores, truths),
    (BinaryConfusionMatrix(), scores, truths),
    (MeanSquaredError(), scores, truths.float()),
    (R2Score(), scores, truths.float()),
    (Perplexity(), torch.randn(2, 3, 4), torch.randint(0, 4, (2, 3))),
]:
    half = len(given) // 2
    metric.update(given[:half], wanted[:half])
    metric.update(given[half:], wanted[half:])
    show(type(metric).__name__, metric.compute())
speed = Throughput()
speed.update(64, 2.0)
show("Throughput", speed.compute())


def network():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 2),
    )


for backend in ("pytorch", "aten"):
    found = get_model_complexity_info(
        network(), (3, 8, 8), as_strings=False, print_per_layer_stat=False, backend=backend
    )
    show("ptflops", backend, *found)

graph = draw_graph(network().eval(), input_size=(1, 3, 8, 8), expand_nested=True).visual_graph
rows = [line.strip() for line in graph.source.splitlines() if "<TD" in line or "->" in line]
show("torchview", len(graph.body), *rows)

net = network()
source = make_dot(net(torch.randn(1, 3, 8, 8)).mean(), params=dict(net.named_parameters())).source
show("torchviz", source.count("->"), sorted(p for p in source.split() if "Backward" in p))

data = torch.utils.data.TensorDataset(torch.randn(16, 3, 8, 8), torch.randint(0, 2, (16,)))
finder = LRFinder(net, torch.optim.SGD(net.parameters(), lr=1e-4), nn.CrossEntropyLoss(), "cpu")
finder.range_test(torch.utils.data.DataLoader(data, batch_size=4), end_lr=1, num_iter=10)
show("rates", *finder.history["lr"])
show("losses", *finder.history["loss"])
finder.reset()
