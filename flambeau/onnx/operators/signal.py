"""Fourier transforms, windows, and filters of sound."""

import math
from typing import Any

import numpy as np

import flambeau as torch
from flambeau import Tensor
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import dtype_of, number


def as_complex(x: Tensor) -> Tensor:
    """The last dimension holds real and imaginary part, or the real one alone."""
    if x.shape[-1] == 2:
        return torch.view_as_complex(x.contiguous())
    return x[..., 0]


@op("DFT", 20, static=(1, 2))
def dft(
    x: Tensor, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0
) -> Tensor:
    place = -2 if axis is None else int(number(axis))
    return transform(x, length, place, bool(inverse), bool(onesided))


@op("DFT", 17, static=(1,))
def dft_legacy(
    x: Tensor, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    return transform(x, length, axis, bool(inverse), bool(onesided))


def transform(x: Tensor, length: Any, axis: int, inverse: bool, onesided: bool) -> Tensor:
    """Onesided: half of a spectrum for real input, and real numbers for half of a spectrum.

    Sums are made in double precision, so that what cancels is zero.
    """
    place, dtype = axis % x.dim(), x.dtype
    x = x.double()
    count = None if length is None else int(number(length))
    values = as_complex(x)
    if inverse and onesided:
        return torch.fft.irfft(values, count, place).unsqueeze(-1).to(dtype)
    wide = values if values.is_complex() else torch.complex(values, torch.zeros_like(values))
    function = torch.fft.ifft if inverse else torch.fft.fft
    result = function(wide, count, place)
    if onesided:
        result = result.narrow(place, 0, result.shape[place] // 2 + 1)
    return torch.view_as_real(result).to(dtype)


@op("STFT", 17, static=(1, 3))
def stft(
    x: Tensor, step: Any, window: Tensor | None = None, length: Any = None, *, onesided: int = 1
) -> Tensor:
    """Spectra of pieces that follow each other at a distance."""
    size = int(number(length)) if length is not None else window.shape[0]  # type: ignore[union-attr]
    values = as_complex(x) if x.dim() == 3 else x
    frames = values.unfold(-1, size, int(number(step)))
    if window is not None:
        frames = frames * window
    wide = frames if frames.is_complex() else torch.complex(frames, torch.zeros_like(frames))
    result = torch.fft.fft(wide)
    if onesided:
        result = result[..., : size // 2 + 1]
    return torch.view_as_real(result)


def cosine_window(size: Any, periodic: int, dtype: int, *weights: float) -> Tensor:
    """A sum of cosines over one period."""
    count = int(number(size))
    period = count if periodic else count - 1
    angle = torch.arange(count, dtype=torch.float64) * (2 * math.pi / max(1, period))
    total = torch.zeros(count, dtype=torch.float64)
    for k, weight in enumerate(weights):
        total = total + weight * torch.cos(k * angle)
    return total.to(dtype_of(dtype))


@op("HannWindow", 17, static=(0,))
def hann_window(size: Any, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    return cosine_window(size, periodic, output_datatype, 0.5, -0.5)


@op("HammingWindow", 17, static=(0,))
def hamming_window(size: Any, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    return cosine_window(size, periodic, output_datatype, 25 / 46, -21 / 46)


@op("BlackmanWindow", 17, static=(0,))
def blackman_window(size: Any, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    return cosine_window(size, periodic, output_datatype, 0.42, -0.5, 0.08)


@op("MelWeightMatrix", 17, static=(0, 1, 2))
def mel_weight_matrix(
    bins: Any, length: Any, rate: Any, low: Any, high: Any, *, output_datatype: int = 1
) -> Tensor:
    """Triangles over the bins of a spectrum, evenly spaced in mel."""
    count, size, hertz = int(number(bins)), int(number(length)), int(number(rate))

    def mel(frequency: float) -> float:
        return 2595 * math.log10(1 + frequency / 700)

    bottom, top = mel(float(number(low))), mel(float(number(high)))
    edges = bottom + np.arange(count + 2) * (top - bottom) / (count + 2)
    places = np.floor((size + 1) * (700 * (10 ** (edges / 2595) - 1)) / hertz).astype(int)
    matrix = np.zeros([size // 2 + 1, count])
    for k in range(count):
        left, peak, right = places[k : k + 3]
        if peak == left:
            matrix[peak, k] = 1
        else:
            rows = np.arange(left, peak + 1)
            matrix[rows, k] = (rows - left) / (peak - left)
        if right > peak:
            rows = np.arange(peak, right)
            matrix[rows, k] = (right - rows) / (right - peak)
    return torch.from_numpy(matrix).to(dtype_of(output_datatype))
