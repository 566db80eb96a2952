"""safetensors, the hub's mixin, datasets, tensorboardX, MLflow, optuna, hydra: what is kept."""

import tempfile

import datasets
import mlflow
import optuna
import torch
from huggingface_hub import PyTorchModelHubMixin, split_torch_state_dict_into_shards
from hydra.utils import instantiate
from omegaconf import OmegaConf
from safetensors.torch import load_file, load_model, safe_open, save_file, save_model
from showing import show
from tensorboardX import SummaryWriter
from torch import nn

folder = tempfile.mkdtemp()
torch.manual_seed(0)


class Net(nn.Module, PyTorchModelHubMixin, repo_url="none", tags=["small"]):
    """Two layers that share a weight."""

    def __init__(self, width: int = 4, bias: bool = True):
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, width, bias=bias)
        self.last.weight = self.first.weight

    def forward(self, x):
        return self.last(self.first(x).relu())


net, x = Net(width=6, bias=False), torch.randn(3, 6)
net.save_pretrained(folder + "/hub")
again = Net.from_pretrained(folder + "/hub")
show("hub", net(x), again(x), again.last.bias is None, again.last.weight is again.first.weight)
save_model(net, folder + "/net.safetensors")
print(load_model(again, folder + "/net.safetensors"))
kinds = [
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.bool,
    torch.float8_e4m3fn,
    torch.complex64,
]
save_file({str(k): x.mul(2).to(k) for k in kinds}, folder + "/kinds.safetensors", {"a": "b"})
loaded = load_file(folder + "/kinds.safetensors")
show("kinds", {k: v if v.is_complex() else v.float() for k, v in loaded.items()})
with safe_open(folder + "/kinds.safetensors", "pt") as file:
    show("slices", file.metadata(), file.keys(), file.get_slice("torch.float16")[1:, :2])
split = split_torch_state_dict_into_shards(net.state_dict(), max_shard_size=100)
show("shards", split.is_sharded, sorted(split.tensor_to_filename))
table = datasets.Dataset.from_dict(
    {"x": x.tolist(), "n": [1, 2, 3], "s": ["a", "b", "c"]}
).with_format("torch")
show("rows", table[0]["x"], table["n"][:], table[1]["s"], table[:2]["x"].dtype)
mapped = table.map(lambda row: {"y": net(row["x"]).detach()})
loader = torch.utils.data.DataLoader(mapped, batch_size=2)
show("batches", [batch["y"] for batch in loader])
with SummaryWriter(folder + "/board") as writer:
    writer.add_scalar("loss", torch.tensor(1.5), 0)
    writer.add_histogram("weights", net.first.weight, 0)
    writer.add_image("image", torch.rand(3, 4, 4), 0)
    writer.add_embedding(x, metadata=["a", "b", "c"])
mlflow.set_tracking_uri(f"sqlite:///{folder}/runs.db")
with mlflow.start_run():
    mlflow.log_metric("loss", net(x).sum().item())


def objective(trial):
    torch.manual_seed(0)
    layer = nn.Linear(6, trial.suggest_int("width", 1, 4))
    optimizer = torch.optim.SGD(layer.parameters(), trial.suggest_float("rate", 1e-3, 1, log=True))
    for step in range(3):
        loss = (layer(x).sum(1) - x[:, 0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        trial.report(loss.item(), step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return loss.item()


optuna.logging.disable_default_handler()
study = optuna.create_study(
    sampler=optuna.samplers.TPESampler(seed=1), pruner=optuna.pruners.MedianPruner()
)
study.optimize(objective, n_trials=8)
show("optuna", study.best_value, study.best_params, [t.state.name for t in study.trials])
said = OmegaConf.create(
    {
        "model": {"_target_": "torch.nn.Linear", "in_features": 6, "out_features": 2},
        "optimizer": {"_target_": "torch.optim.Adam", "_partial_": True, "lr": "${rate}"},
        "rate": 0.5,
    }
)
layer = instantiate(said.model)
optimizer = instantiate(said.optimizer)(layer.parameters())
layer(x).square().sum().backward()
optimizer.step()
show("hydra", layer.weight, type(optimizer).__name__)
