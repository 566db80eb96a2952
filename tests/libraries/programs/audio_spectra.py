"""nnAudio: spectrograms as layers."""

import torch
from nnAudio import features
from showing import gradients, show

torch.manual_seed(0)
x = torch.randn(2, 4000)
for name, make in {
    "stft": lambda: features.STFT(
        n_fft=256, hop_length=128, output_format="Magnitude", verbose=False, trainable=True
    ),
    "mel": lambda: features.MelSpectrogram(
        sr=8000, n_fft=256, n_mels=20, hop_length=128, verbose=False, trainable_mel=True
    ),
    "mfcc": lambda: features.MFCC(
        sr=8000, n_mfcc=10, n_fft=256, n_mels=20, hop_length=128, verbose=False
    ),
    "cqt": lambda: features.CQT1992v2(sr=8000, hop_length=256, fmin=220, n_bins=24, verbose=False),
    "gammatone": lambda: features.Gammatonegram(
        sr=8000, n_fft=256, n_bins=16, hop_length=128, verbose=False
    ),
}.items():
    layer = make()
    out = layer(x)
    show(name, out)
    if any(p.requires_grad for p in layer.parameters()):
        out.mean().backward()
        show(name + " grad", gradients(layer))
stft = features.STFT(n_fft=256, hop_length=64, output_format="Complex", verbose=False, iSTFT=True)
show("inverse", stft.inverse(stft(x), length=4000)[:, 200:-200])
