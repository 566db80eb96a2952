"""Whisper, demucs, mambapy, thinc, torchcrf: small ones with random weights."""

import numpy
import torch
import whisper
from demucs.hdemucs import HDemucs
from mambapy.mamba import Mamba, MambaConfig
from showing import gradients, show
from thinc.api import Adam, PyTorchWrapper
from torch import nn
from torchcrf import CRF

torch.manual_seed(0)
sound = 0.1 * torch.randn(16000)
mel = whisper.log_mel_spectrogram(sound, n_mels=80)
show("mel", mel, whisper.pad_or_trim(sound, 9000))
sizes = whisper.model.ModelDimensions(
    n_mels=80, n_audio_ctx=50, n_audio_state=16, n_audio_head=2, n_audio_layer=2,
    n_vocab=51864, n_text_ctx=16, n_text_state=16, n_text_head=2, n_text_layer=2,
)  # fmt: skip
model = whisper.model.Whisper(sizes)
for p in model.parameters():
    p.data = 0.1 * torch.randn(p.shape)
words = torch.randint(0, 1000, (1, 5))
logits = model(mel[None], words)
logits.square().mean().backward()
show("whisper", logits, gradients(model))
found = whisper.decode(model, mel, whisper.DecodingOptions(fp16=False, language="en", sample_len=4))
show("decoded", found.tokens, found.avg_logprob, found.no_speech_prob)
beams = whisper.DecodingOptions(fp16=False, language="en", sample_len=4, beam_size=2)
show("beams", whisper.decode(model, mel, beams).tokens)
torch.manual_seed(1)
apart = HDemucs(["a", "b"], audio_channels=1, channels=4, depth=3, nfft=256, hybrid=True, cac=True)
out = apart(0.1 * torch.randn(1, 1, 4096))
out.square().mean().backward()
show("demucs", out, gradients(apart))
torch.manual_seed(2)
for kind in (True, False):
    mamba = Mamba(MambaConfig(d_model=8, n_layers=2, d_state=4, pscan=kind))
    x = torch.randn(2, 6, 8)
    out = mamba(x)
    out.square().mean().backward()
    show("mamba", kind, out, gradients(mamba))
caches = [(None, torch.zeros(2, 16, 3)) for _ in range(2)]
step, caches = mamba.step(x[:, 0], caches)
show("step", step)
torch.manual_seed(3)
crf = CRF(4, batch_first=True)
scores, tags = torch.randn(2, 5, 4, requires_grad=True), torch.randint(0, 4, (2, 5))
mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.bool)
loss = -crf(scores, tags, mask=mask, reduction="mean")
loss.backward()
show("crf", loss, scores.grad, gradients(crf), crf.decode(scores, mask=mask))
torch.manual_seed(4)
wrapped = PyTorchWrapper(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)))
a = numpy.random.default_rng(0).normal(size=(12, 6)).astype("float32")
wrapped.initialize(X=a)
optimizer = Adam(0.01)
for _ in range(3):
    guess, back = wrapped.begin_update(a)
    back(guess - a[:, :2])
    wrapped.finish_update(optimizer)
show("thinc", wrapped.predict(a))
again = PyTorchWrapper(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)))
again.from_bytes(wrapped.to_bytes())
show("bytes", again.predict(a))
