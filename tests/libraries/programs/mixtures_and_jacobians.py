"""pomegranate, torchjd, TorchOpt: distributions as modules, several losses, pure optimizers."""

import pomegranate.distributions as pd
import torch
import torchopt
from pomegranate.bayes_classifier import BayesClassifier
from pomegranate.gmm import GeneralMixtureModel
from pomegranate.hmm import DenseHMM
from pomegranate.markov_chain import MarkovChain
from showing import show
from torch import nn
from torch.nn import functional as F
from torchjd import aggregation
from torchjd.autojac import backward, jac_to_grad

torch.manual_seed(0)
data = torch.cat([torch.randn(30, 2), torch.randn(30, 2) * 0.5 + 3])
normal = pd.Normal(covariance_type="diag").fit(data)
show("normal", normal.means, normal.covs, normal.log_probability(data))
show("gamma", pd.Gamma().fit(data.abs()).shapes, pd.Exponential().fit(data.abs()).scales)
model = GeneralMixtureModel([pd.Normal([0.0, 0.0], [1.0, 1.0], covariance_type="diag"),
                             pd.Normal([2.0, 2.0], [1.0, 1.0], covariance_type="diag")],
                            max_iter=5)  # fmt: skip
model.fit(data)
show("mixture", model.priors, model.predict_proba(data), model.log_probability(data))
labels = torch.arange(60) // 30
found = BayesClassifier([pd.Normal(covariance_type="diag") for _ in range(2)]).fit(data, labels)
show("bayes", found.predict_proba(data), found.predict(data))
steps = torch.randint(0, 3, (10, 7, 1))
chain = MarkovChain(k=1).fit(steps)
show("chain", chain.log_probability(steps))
states = [pd.Categorical([[0.7, 0.2, 0.1]]), pd.Categorical([[0.1, 0.2, 0.7]])]
hidden = DenseHMM(states, edges=[[0.8, 0.2], [0.3, 0.7]], starts=[0.5, 0.5], ends=[0.1, 0.1],
                  max_iter=3)  # fmt: skip
show("viterbi", hidden.viterbi(steps), hidden.predict_proba(steps), hidden.log_probability(steps))
hidden.fit(steps)
show("baum", hidden.edges, hidden.log_probability(steps))

torch.manual_seed(1)
for name in ("MGDA", "PCGrad", "AlignedMTL", "Mean", "Sum", "IMTLG", "Random", "GradDrop"):
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    out = net(torch.randn(4, 3))
    backward([out[:, 0].square().mean(), (out[:, 1] - 1).square().mean()], inputs=net.parameters())
    jac_to_grad(net.parameters(), getattr(aggregation, name)())
    show(name, [p.grad for p in net.parameters()])

torch.manual_seed(3)
net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
x, y = torch.randn(6, 3), torch.randn(6, 2)
for name in ("adam", "adamw", "sgd", "rmsprop", "adagrad", "adamax", "radam", "adadelta"):
    parameters = tuple(p.detach().clone().requires_grad_() for p in net.parameters())
    names = [n for n, _ in net.named_parameters()]
    optimizer = getattr(torchopt, name)(lr=0.05)
    state = optimizer.init(parameters)
    for _ in range(3):
        out = torch.func.functional_call(net, dict(zip(names, parameters)), (x,))
        loss = F.mse_loss(out, y)
        grads = torch.autograd.grad(loss, parameters)
        updates, state = optimizer.update(grads, state, params=parameters, inplace=False)
        parameters = torchopt.apply_updates(parameters, updates, inplace=False)
    show(name, loss, parameters)
net = nn.Linear(3, 2)
inner = torchopt.MetaAdam(net, lr=0.1)
scale = torch.tensor(0.5, requires_grad=True)
for _ in range(3):
    inner.step(scale * F.mse_loss(net(x), y))
F.mse_loss(net(x), y).backward()
show("meta", scale.grad, net(x))
