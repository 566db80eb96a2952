"""tsai: networks for time series."""

import torch
from showing import gradients, show
from tsai.models.FCN import FCN
from tsai.models.InceptionTime import InceptionTime
from tsai.models.MLP import MLP
from tsai.models.PatchTST import PatchTST
from tsai.models.ResNet import ResNet
from tsai.models.RNN import GRU, LSTM
from tsai.models.TCN import TCN
from tsai.models.TST import TST
from tsai.models.XceptionTime import XceptionTime

x = torch.randn(4, 3, 24, generator=torch.Generator().manual_seed(0))
for name, make in {
    "fcn": lambda: FCN(3, 2, layers=[8, 8, 8]),
    "inception": lambda: InceptionTime(3, 2, nf=4, depth=3),
    "resnet": lambda: ResNet(3, 2),
    "lstm": lambda: LSTM(3, 2, hidden_size=8),
    "gru": lambda: GRU(3, 2, hidden_size=8),
    "tcn": lambda: TCN(3, 2, layers=[4, 4]),
    "tst": lambda: TST(3, 2, 24, d_model=8, n_heads=2, d_ff=16, n_layers=1),
    "mlp": lambda: MLP(3, 2, 24, layers=[8, 8], ps=[0.0, 0.0]),
    "xception": lambda: XceptionTime(3, 2, nf=4),
    "patch": lambda: PatchTST(
        3, 2, 24, pred_dim=6, n_layers=1, n_heads=2, d_model=8, d_ff=16, patch_len=6, stride=3
    ),
}.items():
    torch.manual_seed(1)
    net = make().eval()
    out = net(x)
    out.square().mean().backward()
    show(name, out, gradients(net))
