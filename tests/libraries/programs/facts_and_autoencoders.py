"""PyKEEN and pythae: embeddings of facts, autoencoders."""

import logging
import warnings

import numpy as np
import pykeen.losses
import pykeen.models
import torch
from pykeen.pipeline import pipeline
from pykeen.triples import TriplesFactory
from pythae.models import (
    AE,
    HVAE,
    IWAE,
    VAE,
    VAE_IAF,
    VAMP,
    VQVAE,
    WAE_MMD,
    AEConfig,
    BetaVAE,
    BetaVAEConfig,
    FactorVAE,
    FactorVAEConfig,
    HVAEConfig,
    IWAEConfig,
    VAE_IAF_Config,
    VAEConfig,
    VAMPConfig,
    VQVAEConfig,
    WAE_MMD_Config,
)
from showing import gradients, show

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
rng = np.random.RandomState(0)
triples = [(f"e{a}", f"r{r}", f"e{b}") for a, r, b in rng.randint(0, [8, 3, 8], (60, 3)).tolist()]
factory = TriplesFactory.from_labeled_triples(np.array(triples))
for name in (
    "TransE",
    "DistMult",
    "ComplEx",
    "RotatE",
    "TransH",
    "HolE",
    "RESCAL",
    "ConvE",
    "QuatE",
    "SimplE",
    "PairRE",
):
    torch.manual_seed(1)
    words = {}
    if name == "ConvE":
        words = dict(embedding_dim=16, embedding_width=4, embedding_height=4, output_channels=4)
    elif name == "QuatE":
        words = dict(embedding_dim=4)
    else:
        words = dict(embedding_dim=8)
    model = getattr(pykeen.models, name)(triples_factory=factory, random_seed=1, **words)
    ids = factory.mapped_triples[:6]
    scores = model.score_hrt(ids)
    scores.square().mean().backward()
    show(name, scores, gradients(model), model.score_t(ids[:, :2]))
model = pykeen.models.RGCN(triples_factory=factory, embedding_dim=8, num_layers=2, random_seed=2)
show("RGCN", model.score_hrt(ids))
for kind in ("slcwa", "lcwa"):
    result = pipeline(
        training=factory,
        testing=factory,
        model="TransE" if kind == "slcwa" else "ComplEx",
        model_kwargs=dict(embedding_dim=8),
        training_loop=kind,
        training_kwargs=dict(num_epochs=2, batch_size=16, use_tqdm=False),
        evaluation_kwargs=dict(use_tqdm=False),
        loss="marginranking" if kind == "slcwa" else "crossentropy",
        optimizer_kwargs=dict(lr=0.05),
        random_seed=3,
        device="cpu",
    )
    show(kind, result.losses, result.get_metric("mrr"))

images = torch.rand(8, 1, 4, 4, generator=torch.Generator().manual_seed(0))
for kind, config, words in (
    (AE, AEConfig, {}),
    (VAE, VAEConfig, {}),
    (BetaVAE, BetaVAEConfig, dict(beta=4.0)),
    (FactorVAE, FactorVAEConfig, {}),
    (IWAE, IWAEConfig, dict(number_samples=3)),
    (WAE_MMD, WAE_MMD_Config, {}),
    (VAMP, VAMPConfig, dict(number_components=4)),
    (VAE_IAF, VAE_IAF_Config, dict(n_made_blocks=2, hidden_size=8)),
    (HVAE, HVAEConfig, dict(n_lf=2)),
    (VQVAE, VQVAEConfig, dict(num_embeddings=6)),
):
    torch.manual_seed(4)
    model = kind(config(input_dim=(1, 4, 4), latent_dim=3, **words))
    out = model({"data": images})
    out.loss.backward()
    show("pythae " + kind.__name__, out.loss, gradients(model))
