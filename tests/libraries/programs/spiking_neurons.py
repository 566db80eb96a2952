"""snnTorch and Norse: neurons that spike, over time, trained by surrogates."""

import norse.torch as norse
import snntorch as snn
import torch
from showing import gradients, show
from snntorch import functional as sf
from snntorch import spikegen, surrogate, utils
from torch import nn

torch.manual_seed(0)
data = torch.rand(4, 6)
show("rate", spikegen.rate(data, num_steps=5))
show("latency", spikegen.latency(data, num_steps=5, normalize=True, linear=True))
show("delta", spikegen.delta(torch.rand(6, 3), threshold=0.2))
labels = torch.tensor([0, 2, 1, 2])
for name, make in {
    "leaky": lambda: snn.Leaky(beta=0.9, spike_grad=surrogate.fast_sigmoid(), init_hidden=True),
    "learned": lambda: snn.Leaky(
        beta=torch.rand(8), learn_beta=True, spike_grad=surrogate.atan(), init_hidden=True
    ),
    "synaptic": lambda: snn.Synaptic(alpha=0.8, beta=0.9, init_hidden=True),
    "alpha": lambda: snn.Alpha(alpha=0.8, beta=0.6, init_hidden=True),
    "lapicque": lambda: snn.Lapicque(beta=0.8, init_hidden=True),
    "recurrent": lambda: snn.RLeaky(beta=0.9, linear_features=8, init_hidden=True),
    "r synaptic": lambda: snn.RSynaptic(alpha=0.8, beta=0.9, linear_features=8, init_hidden=True),
}.items():
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Linear(6, 8),
        make(),
        nn.Linear(8, 3),
        snn.Leaky(beta=0.7, init_hidden=True, output=True, reset_mechanism="zero"),
    )
    utils.reset(net)
    spikes, voltages = zip(*(net(3 * data) for _ in range(5)))
    spikes, voltages = torch.stack(spikes), torch.stack(voltages)
    loss = sf.ce_rate_loss()(spikes, labels) + sf.ce_max_membrane_loss()(voltages, labels)
    loss.backward()
    show(name, spikes, voltages, loss, gradients(net), sf.accuracy_rate(spikes, labels))
show("mse count", sf.mse_count_loss(0.8, 0.2)(spikes, labels), sf.l1_rate_sparsity()(spikes))
torch.manual_seed(2)
lstm = snn.SLSTM(6, 8)
synapse, memory = lstm.init_slstm()
for _ in range(3):
    out, synapse, memory = lstm(data, synapse, memory)
show("slstm", out, synapse, memory)

torch.manual_seed(4)
cell = norse.LIFCell(norse.LIFParameters(alpha=torch.tensor(100.0)))
state, drive = None, torch.rand(3, 5, 6) * 5
drive.requires_grad_()
spikes = []
for step in drive:
    out, state = cell(step, state)
    spikes.append(out)
loss = torch.stack(spikes).sum() + state.v.square().sum()
loss.backward()
show("norse", torch.stack(spikes), state.v, state.i, drive.grad)
net = norse.SequentialState(nn.Linear(6, 8), norse.LIFRecurrent(8, 8), nn.Linear(8, 3), norse.LI())
out, state = net(torch.rand(5, 2, 6))
out.square().sum().backward()
show("norse net", out, gradients(net))
show("izhikevich", norse.Izhikevich(norse.tonic_spiking)(torch.rand(5, 4))[0])
show("encoders", norse.PoissonEncoder(5)(data), norse.ConstantCurrentLIFEncoder(5)(2 * data))
show("population", norse.PopulationEncoder(4)(data))
