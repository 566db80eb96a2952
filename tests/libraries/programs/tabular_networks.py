"""rtdl_num_embeddings, tabm, pycox with torchtuples, torchsurv: tables and times."""

import numpy as np
import torch
import torchtuples as tt
from pycox.models import PMF, CoxPH, CoxTime, DeepHitSingle, LogisticHazard, PCHazard
from pycox.models.cox_time import MLPVanillaCoxTime
from rtdl_num_embeddings import (
    LinearEmbeddings,
    LinearReLUEmbeddings,
    PeriodicEmbeddings,
    PiecewiseLinearEmbeddings,
    PiecewiseLinearEncoding,
    compute_bins,
)
from showing import gradients, show
from tabm import EnsembleView, LinearBatchEnsemble, TabM
from torch import nn
from torchsurv.loss import cox, weibull
from torchsurv.metrics.auc import Auc
from torchsurv.metrics.brier_score import BrierScore
from torchsurv.metrics.cindex import ConcordanceIndex
from torchsurv.stats.kaplan_meier import KaplanMeierEstimator

torch.manual_seed(0)
x = torch.randn(40, 3)
bins = compute_bins(x, n_bins=6)
show("bins", bins)
show(
    "tree bins",
    compute_bins(x, y=x[:, 0] > 0, regression=False, tree_kwargs={"min_samples_leaf": 4}, n_bins=4),
)
for name, layer in {
    "linear": LinearEmbeddings(3, 4),
    "relu": LinearReLUEmbeddings(3, 4),
    "periodic": PeriodicEmbeddings(3, 4, lite=False),
    "lite": PeriodicEmbeddings(3, 4, lite=True),
    "piecewise": PiecewiseLinearEmbeddings(bins, 4, activation=False, version="B"),
    "old": PiecewiseLinearEmbeddings(bins, 4, activation=True, version="A"),
}.items():
    out = layer(x)
    out.square().sum().backward()
    show("embedding " + name, out, gradients(layer))
show("encoding", PiecewiseLinearEncoding(bins)(x))
for kind in ("tabm", "tabm-mini", "tabm-packed"):
    torch.manual_seed(1)
    model = TabM.make(
        n_num_features=3,
        cat_cardinalities=[3, 2],
        d_out=2,
        arch_type=kind,
        k=4,
        n_blocks=2,
        d_block=8,
        dropout=0.1,
        num_embeddings=PiecewiseLinearEmbeddings(bins, 4, activation=False, version="B"),
    )
    codes = torch.stack([torch.arange(40) % 3, torch.arange(40) % 2], 1)
    out = model(x, codes)
    (out - x[:, None, :2]).square().mean().backward()
    show(kind, out, gradients(model))
show("views", LinearBatchEnsemble(3, 5, k=4, scaling_init="normal")(EnsembleView(k=4)(x)))

rng = np.random.RandomState(0)
features = rng.randn(64, 3).astype("float32")
durations = rng.exponential(2 + features[:, 0] ** 2).astype("float32") + 0.01
events = (rng.rand(64) > 0.3).astype("float32")
tt.tuplefy(features, durations)
for kind in (LogisticHazard, PMF, DeepHitSingle, PCHazard):
    np.random.seed(1)
    torch.manual_seed(1)
    cuts = kind.label_transform(5)
    target = cuts.fit_transform(durations, events)
    net = tt.practical.MLPVanilla(3, [8, 8], cuts.out_features, batch_norm=True, dropout=0.1)
    model = kind(net, tt.optim.Adam(0.02), duration_index=cuts.cuts)
    log = model.fit(features, target, batch_size=16, epochs=3, verbose=False)
    survival = model.predict_surv_df(features[:5])
    show(kind.__name__, log.to_pandas().values, survival.values)
for kind in (CoxPH, CoxTime):
    np.random.seed(2)
    torch.manual_seed(2)
    target = (durations, events)
    if kind is CoxTime:
        cuts = CoxTime.label_transform()
        target = cuts.fit_transform(*target)
        net = MLPVanillaCoxTime(3, [8], batch_norm=False)
        model = CoxTime(net, tt.optim.AdamWR(0.01), labtrans=cuts)
    else:
        model = CoxPH(tt.practical.MLPVanilla(3, [8], 1, output_bias=False), tt.optim.SGD(0.05))
    log = model.fit(
        features,
        target,
        16,
        2,
        [tt.callbacks.EarlyStopping()],
        verbose=False,
        val_data=(features, target),
    )
    model.compute_baseline_hazards()
    show(kind.__name__, log.to_pandas().values, model.predict_surv_df(features[:4]).values[::8])

torch.manual_seed(3)
time, event = torch.from_numpy(durations), torch.from_numpy(events).bool()
net = nn.Linear(3, 1)
risk = net(torch.from_numpy(features))
ties = (time * 2).ceil()
for method in ("efron", "breslow"):
    show("cox " + method, cox.neg_partial_log_likelihood(risk, event, ties, ties_method=method))
cox.neg_partial_log_likelihood(risk, event, time).backward()
show("cox", gradients(net))
two = nn.Linear(3, 2)(torch.from_numpy(features))
show("weibull", weibull.neg_log_likelihood_weibull(two, event, time))
survival = weibull.survival_function_weibull(two, time)
show("survival", survival)
index = ConcordanceIndex()
show(
    "cindex",
    index(risk.detach().squeeze(), event, time),
    index.p_value(method="noether", alternative="two_sided"),
)
show("interval", index.confidence_interval(method="noether"))
auc = Auc()
show("auc", auc(risk.detach().squeeze(), event, time, new_time=torch.tensor([1.0, 2.0, 3.0])))
brier = BrierScore()
show("brier", brier(survival.detach(), event, time), brier.integral())
kaplan = KaplanMeierEstimator()
kaplan(event, time)
show("kaplan", kaplan.predict(torch.tensor([0.5, 1.0, 2.0])))
