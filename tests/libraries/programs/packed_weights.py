"""compressed-tensors and pytorch-lightning: weights of few bits, packed; a Trainer."""

import tempfile

import pytorch_lightning as pl
import torch
from compressed_tensors.compressors import pack_to_int32, unpack_from_int32
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import dequantize, fake_quantize, quantize
from compressed_tensors.quantization.utils import calculate_qparams
from showing import show
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
weight = torch.randn(8, 16)
for bits in (4, 8):
    args = QuantizationArgs(num_bits=bits, symmetric=True, strategy="channel")
    low, high = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    scale, zero = calculate_qparams(low, high, args)
    made = quantize(weight, scale, zero, args, dtype=torch.int8)
    packed = pack_to_int32(made, bits)
    again = unpack_from_int32(packed, bits, made.shape)
    show(f"{bits} bits", scale, made, packed, torch.equal(again, made))
    show("back", dequantize(made, scale, zero, args), fake_quantize(weight, scale, zero, args))
args = QuantizationArgs(num_bits=8, type="float", strategy="tensor")
scale, zero = calculate_qparams(weight.min(), weight.max(), args)
show("float8", scale, fake_quantize(weight, scale, zero, args))


class Line(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    def training_step(self, batch, index):
        loss = F.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("seen", F.mse_loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        made = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return [made], [torch.optim.lr_scheduler.StepLR(made, 1, 0.5)]


pl.seed_everything(1)
x = torch.randn(24, 3)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), 8)
with tempfile.TemporaryDirectory() as folder:
    best = pl.callbacks.ModelCheckpoint(folder, monitor="seen")
    trainer = pl.Trainer(
        max_epochs=3, logger=False, callbacks=[best], enable_progress_bar=False,
        enable_model_summary=False, accelerator="cpu", default_root_dir=folder,
    )  # fmt: skip
    model = Line()
    trainer.fit(model, data, data)
    show("fit", trainer.callback_metrics, trainer.global_step, list(model.parameters()))
    show("kept", list(Line.load_from_checkpoint(best.best_model_path).parameters()))
