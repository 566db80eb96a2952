"""pytorch-forecasting: its losses, layers and metrics; tsai: models of series."""

import torch
from pytorch_forecasting.metrics import MAE, MAPE, RMSE, SMAPE, QuantileLoss
from pytorch_forecasting.models.nbeats.sub_modules import (
    NBEATSGenericBlock,
    NBEATSSeasonalBlock,
    NBEATSTrendBlock,
)
from pytorch_forecasting.models.temporal_fusion_transformer.sub_modules import (
    GatedResidualNetwork,
    InterpretableMultiHeadAttention,
)
from showing import gradients, show

torch.manual_seed(0)
a, b = torch.rand(4, 6) + 1, torch.rand(4, 6) + 1
for metric in (MAE(), MAPE(), RMSE(), SMAPE()):
    show(type(metric).__name__, metric(a, b))
show("quantiles", QuantileLoss([0.1, 0.5, 0.9])(torch.randn(4, 6, 3), b))
for block in (
    NBEATSGenericBlock(8, 4, 2, backcast_length=6, forecast_length=3),
    NBEATSTrendBlock(8, 2, 2, backcast_length=6, forecast_length=3),
    NBEATSSeasonalBlock(8, 2, backcast_length=6, forecast_length=3),
):
    out = block(a)
    sum(o.square().mean() for o in out).backward()
    show(type(block).__name__, out, gradients(block))
grn = GatedResidualNetwork(6, 8, 4, dropout=0.0)
show(
    "grn",
    grn(a),
    InterpretableMultiHeadAttention(2, 8, dropout=0.0)(
        torch.randn(2, 5, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    )[0],
)
