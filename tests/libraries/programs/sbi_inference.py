"""sbi: neural posterior estimation of a small simulator."""

import logging
import warnings

import torch
from sbi.inference import NLE, NPE
from sbi.utils import BoxUniform
from showing import show

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
prior = BoxUniform(-2 * torch.ones(2), 2 * torch.ones(2))
for kind, options in (
    (NPE, dict(density_estimator="maf")),
    (NPE, dict(density_estimator="mdn")),
    (NLE, dict(density_estimator="maf")),
):
    torch.manual_seed(0)
    theta = prior.sample((60,))
    x = theta + 0.1 * torch.randn(60, 2)
    inference = kind(prior, show_progress_bars=False, **options)
    estimator = inference.append_simulations(theta, x).train(
        max_num_epochs=3, training_batch_size=20
    )
    posterior = inference.build_posterior(estimator)
    if kind is NPE:
        show(
            kind.__name__ + str(options),
            posterior.log_prob(theta[:3], x=x[0]),
            posterior.sample((3,), x=x[0], show_progress_bars=False).shape,
        )
    else:
        show(
            kind.__name__,
            inference.summary["training_loss"]
            if "training_loss" in inference.summary
            else inference.summary["best_validation_loss"],
        )
