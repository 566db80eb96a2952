"""d3rlpy and Chronos: agents that learn from records; a forecaster of time series, untrained."""

import d3rlpy
import numpy as np
import torch
from chronos.chronos_bolt import ChronosBoltModelForForecasting
from d3rlpy.dataset import MDPDataset
from showing import gradients, show
from transformers import T5Config

torch.manual_seed(0)
np.random.seed(0)
d3rlpy.seed(0)
COUNT = 60
records = MDPDataset(
    np.random.randn(COUNT, 3).astype("float32"),
    np.random.uniform(-1, 1, (COUNT, 2)).astype("float32"),
    np.random.randn(COUNT).astype("float32"),
    (np.arange(COUNT) % 20 == 19).astype("float32"),
)
algorithms = d3rlpy.algos
for config in (
    algorithms.CQLConfig,
    algorithms.TD3PlusBCConfig,
    algorithms.IQLConfig,
    algorithms.BCConfig,
    algorithms.SACConfig,
    algorithms.AWACConfig,
):
    agent = config(batch_size=8).create(device=False)
    history = agent.fit(
        records,
        n_steps=4,
        n_steps_per_epoch=4,
        show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    )
    losses = {k: v for k, v in history[0][1].items() if "loss" in k}
    show(config.__name__, losses, agent.predict(np.ones((1, 3), "float32")))

torch.manual_seed(0)
patches = dict(
    context_length=64,
    prediction_length=8,
    input_patch_size=8,
    input_patch_stride=8,
    quantiles=[0.1, 0.5, 0.9],
    use_reg_token=True,
)
config = T5Config(
    vocab_size=2,
    d_model=32,
    d_kv=8,
    d_ff=48,
    num_layers=2,
    num_heads=4,
    decoder_start_token_id=0,
    pad_token_id=0,
    chronos_config=patches,
)
config.reg_token_id = 1
model = ChronosBoltModelForForecasting(config).eval()
result = model(context=torch.randn(2, 40), target=torch.randn(2, 8))
result.loss.backward()
show("chronos", result.loss, result.quantile_preds, gradients(model))
