"""TorchANI and chemprop: energies and forces of atoms, properties of graphs."""

import logging

import numpy as np
import torch
import torchani
from chemprop import data, featurizers, models, nn
from lightning import pytorch as pl
from showing import gradients, show

torch.manual_seed(0)
computer = torchani.AEVComputer.from_constants(
    radial_cutoff=5.2,
    angular_cutoff=3.5,
    radial_eta=16.0,
    radial_shifts=[0.9, 1.7, 2.5, 3.3],
    angular_eta=8.0,
    angular_zeta=32.0,
    angular_shifts=[0.9, 2.2],
    sections=[0.2, 1.0, 1.8, 2.6],
    num_species=3,
)
species = torch.tensor([[1, 0, 0, 0, 0], [2, 0, 0, -1, -1]])
METHANE = (
    (0.03, 0.006, 0.01),
    (-0.8, 0.4, -0.3),
    (-0.7, -0.8, 0.2),
    (0.5, 0.5, 0.8),
    (0.7, -0.2, -0.9),
)
WATER = (0.0, 0.0, 0.1), (0.0, 0.76, -0.47), (0.0, -0.76, -0.47), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
places = torch.tensor([METHANE, WATER], requires_grad=True)
vectors = computer(species, places)
show("aev", vectors, torch.autograd.grad(vectors.square().sum(), places, retain_graph=True)[0])
make = torchani.nn.AtomicNetwork
networks = torchani.nn.ANINetworks(
    {
        symbol: make((computer.out_dim, 8, 4, 1), activation="celu", bias=True)
        for symbol in ("H", "C", "O")
    }
)
found = networks(species, vectors)
forces = -torch.autograd.grad(found.sum(), places, retain_graph=True)[0]
show("ani", found, forces)

smiles = ["CCO", "c1ccccc1O", "CC(=O)N", "C#N", "OCC(O)CO", "ClCCl"]
targets = np.linspace(-1, 1, 6)[:, None]
points = [data.MoleculeDatapoint.from_smi(s, t) for s, t in zip(smiles, targets)]
dataset = data.MoleculeDataset(points, featurizers.SimpleMoleculeMolGraphFeaturizer())
loader = data.build_dataloader(dataset, batch_size=6, shuffle=False)
(graphs, *_, goal, weights, less, more), *_ = list(loader)
show("graph", graphs.V, graphs.E, graphs.edge_index.sum(), graphs.batch)
for passing in (nn.BondMessagePassing, nn.AtomMessagePassing):
    for aggregation in (nn.MeanAggregation, nn.NormAggregation, nn.AttentiveAggregation):
        torch.manual_seed(2)
        words = dict(output_size=16) if aggregation is nn.AttentiveAggregation else {}
        model = models.MPNN(
            passing(d_h=16, depth=3),
            aggregation(**words),
            nn.RegressionFFN(input_dim=16, hidden_dim=8),
            batch_norm=True,
        )
        out = model(graphs)
        (out - goal).square().mean().backward()
        show(f"{passing.__name__} {aggregation.__name__}", out, gradients(model))
for head in (nn.MveFFN, nn.EvidentialFFN, nn.BinaryClassificationFFN):
    torch.manual_seed(3)
    model = models.MPNN(nn.BondMessagePassing(d_h=16), nn.MeanAggregation(), head(input_dim=16))
    show(head.__name__, model(graphs))
torch.manual_seed(4)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
model = models.MPNN(
    nn.BondMessagePassing(d_h=16), nn.MeanAggregation(), nn.RegressionFFN(input_dim=16)
)
trainer = pl.Trainer(
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    accelerator="cpu",
)
trainer.fit(model, loader)
show("trained", trainer.callback_metrics["train_loss"], torch.cat(trainer.predict(model, loader)))
