"""A LightningModule with a Trainer: training, logging, callbacks, checkpoints, testing."""

import logging
import tempfile

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from showing import show
from torch import nn

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Model(L.LightningModule):
    def __init__(self, width=16, lr=0.05):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Linear(4, width), nn.Tanh(), nn.Dropout(0.1), nn.Linear(width, 2)
        )
        self.seen = []

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss, on_epoch=True)
        self.seen.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        out = self.net(x)
        self.log_dict(
            {
                "val_loss": nn.functional.cross_entropy(out, y),
                "val_acc": (out.argmax(1) == y).float().mean(),
            }
        )

    test_step = validation_step

    def predict_step(self, batch, index):
        return self.net(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), self.hparams.lr)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


class Data(L.LightningDataModule):
    def setup(self, stage):
        generator = torch.Generator().manual_seed(3)
        x = torch.randn(64, 4, generator=generator)
        self.data = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())

    def train_dataloader(self):
        return torch.utils.data.DataLoader(self.data, batch_size=16, shuffle=True)

    def val_dataloader(self):
        return torch.utils.data.DataLoader(self.data, batch_size=32)

    test_dataloader = predict_dataloader = val_dataloader


with tempfile.TemporaryDirectory() as folder:
    L.seed_everything(7, verbose=False)
    model = Model()
    saver = ModelCheckpoint(folder, monitor="val_loss", save_top_k=1)
    trainer = L.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=CSVLogger(folder),
        log_every_n_steps=1,
        callbacks=[saver, EarlyStopping("val_loss"), LearningRateMonitor()],
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=0.5,
        accumulate_grad_batches=2,
        default_root_dir=folder,
    )
    data = Data()
    trainer.fit(model, data)
    show("losses", model.seen)
    show("metrics", {k: float(v) for k, v in sorted(trainer.callback_metrics.items())})
    show("test", trainer.test(model, data, verbose=False))
    show("predict", trainer.predict(model, data))
    best = Model.load_from_checkpoint(saver.best_model_path)
    show("best", best.hparams.width, saver.best_model_score, best.net[0].weight)
    resumed = L.Trainer(
        max_epochs=4,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        default_root_dir=folder,
    )
    L.seed_everything(7, verbose=False)
    again = Model()
    resumed.fit(again, data, ckpt_path=saver.best_model_path)
    show("resumed", resumed.global_step, again.seen, again.net[3].weight)
    fabric = L.Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    net = nn.Linear(4, 2)
    net, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), 0.1))
    out = net(torch.ones(3, 4))
    fabric.backward(out.float().square().mean())
    optimizer.step()
    show("fabric", out.dtype, net.weight.shape)
