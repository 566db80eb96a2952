"""torchinfo: tables of models."""

from showing import show
from torch import nn
from torchinfo import summary

net = nn.Sequential(
    nn.Conv2d(1, 4, 3, padding=1),
    nn.BatchNorm2d(4),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(64, 3),
)
table = summary(
    net,
    (2, 1, 8, 8),
    verbose=0,
    col_names=("input_size", "output_size", "num_params", "kernel_size", "mult_adds"),
)
for index, line in enumerate(str(table).splitlines()):
    show(f"line {index}", line)
table = summary(nn.LSTM(4, 8, 2, bidirectional=True), (5, 2, 4), verbose=0)
show("lstm", table.total_params, table.total_mult_adds, table.total_output_bytes)
table = summary(nn.TransformerEncoderLayer(16, 2, 32), (5, 2, 16), verbose=0, depth=3)
show("transformer", table.total_params, table.total_mult_adds)
