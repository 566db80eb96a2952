"""TorchRL: value estimates, modules and distributions of agents."""

import warnings

import torch
from showing import gradients, show
from tensordict import TensorDict
from torch import nn

warnings.simplefilter("ignore")
from torchrl.modules import (  # noqa: E402
    MLP,
    LSTMModule,
    NoisyLinear,
    NormalParamExtractor,
    TanhNormal,
)
from torchrl.objectives.value.functional import (  # noqa: E402
    generalized_advantage_estimate,
    td_lambda_return_estimate,
)

torch.manual_seed(0)
value, after = torch.randn(2, 5, 1), torch.randn(2, 5, 1)
reward = torch.randn(2, 5, 1)
done = torch.zeros(2, 5, 1, dtype=torch.bool)
done[0, 2] = True
show("gae", generalized_advantage_estimate(0.95, 0.9, value, after, reward, done))
show("lambda", td_lambda_return_estimate(0.95, 0.9, after, reward, done))

torch.manual_seed(1)
net = nn.Sequential(MLP(in_features=3, out_features=4, num_cells=[8, 8]), NormalParamExtractor())
seen = torch.randn(5, 3)
place, scale = net(seen)
found = TanhNormal(place, scale, low=-2.0, high=1.0)
action = found.rsample()
(found.log_prob(action.detach()).sum() + action.square().sum()).backward()
show("actor", place, scale, action, found.log_prob(action), gradients(net))
cell = LSTMModule(input_size=3, hidden_size=6, in_key="seen", out_key="out")
states = {f"recurrent_state_{k}": torch.zeros(2, 4, 1, 6) for k in "hc"}
start = torch.zeros(2, 4, 1).bool()
data = TensorDict({"seen": torch.randn(2, 4, 3), "is_init": start, **states}, [2, 4])
show("lstm", cell.set_recurrent_mode(True)(data)["out"])
noisy = NoisyLinear(3, 4)
show("noisy", noisy(seen), noisy.weight_sigma)
