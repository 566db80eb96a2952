"""Transforms of short pieces of a signal: stft and its inverse istft.

Frames are a view of the (padded) signal; a window and one Fourier transform of all frames do the
rest. The inverse adds the frames up where they overlap, and divides by what the windows add up to.
"""

import warnings

from flambeau import _dtype as d
from flambeau import errors
from flambeau.ops.table import OptionalTensor, composite, holds_anywhere, public


def _window(input, window, win_length, n_fft):
    """The window in the middle of n_fft places; ones if there is none."""
    if window is None:
        dtype = input.real.dtype if input.dtype.is_complex else input.dtype
        window = input.new_ones(win_length, dtype=dtype)
    if window.dtype is d.bool_:
        window = window.to(input.real.dtype if input.dtype.is_complex else input.dtype)
    if win_length < n_fft:
        left = (n_fft - win_length) // 2
        window = public("constant_pad_nd")(window, (left, n_fft - win_length - left), 0)
    return window


def _shown(kind, shape, window, options):
    """The call, as PyTorch begins its messages; flags are 0 and 1 there."""
    name = "stft" if kind.startswith("torch") else "istft"
    given = {k: int(v) if isinstance(v, bool) else v for k, v in options.items()}
    given["window"] = "None"
    if window is not None:
        given["window"] = f"torch.{window.dtype.scalar_name}Tensor{{{list(window.shape)}}}"
    listed = ", ".join(f"{k}={v}" for k, v in given.items())
    return f"{name}({kind}[{', '.join(map(str, shape))}], {listed})"


@composite(variants="function method", python=True)
def stft(
    input,
    n_fft: object,
    hop_length: object = None,
    win_length: object = None,
    window: object = None,
    center: object = True,
    pad_mode: object = "reflect",
    normalized: object = False,
    onesided: object = None,
    return_complex: object = None,
    align_to_window: object = None,
):
    """Spectra of overlapping frames of a signal: (batch, frequencies, frames)."""
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft align_to_window should only be set when center = false")
        if not isinstance(pad_mode, str):
            raise TypeError(
                f"pad(): argument 'mode' (position 3) must be str, not {errors.kind_name(pad_mode)}"
            )
        input = _padded(input, n_fft // 2, pad_mode)
    flags = normalized, onesided, return_complex, align_to_window
    return functional_stft(input, n_fft, hop_length, win_length, window, *flags)


@composite(variants="")
def functional_stft(
    input,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: OptionalTensor,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    align_to_window: bool | None,
):
    """stft of a signal that is padded already."""
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length

    def head():
        options = dict(
            n_fft=n_fft, hop_length=hop, win_length=width, window=None, normalized=normalized,
            onesided=onesided, return_complex=return_complex, align_to_window=align_to_window,
        )  # fmt: skip
        return _shown(f"torch.{input.dtype.scalar_name}Tensor", input.shape, window, options)

    if window is None:
        warnings.warn(
            "A window was not provided. A rectangular window will be applied,which is known to "
            "cause spectral leakage. Other windows such as torch.hann_window or torch.hamming_"
            "window are recommended to reduce spectral leakage.To suppress this warning and use a "
            "rectangular window, explicitly set `window=torch.ones(n_fft, device=<device>)`.",
            stacklevel=2,
        )
    wide = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not wide:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will "
            "further require that return_complex=True in a future PyTorch release."
        )
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(head() + " : expected a tensor of floating point or complex values")
    if input.ndim not in (1, 2):
        raise RuntimeError(head() + " : expected a 1D or 2D tensor")
    batched = input.ndim == 2
    signal = input if batched else input.unsqueeze(0)
    _check_frames(head, n_fft, hop, width, window, signal)
    onesided = (not wide) if onesided is None else onesided
    if onesided and wide:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    frames = signal.unfold(1, n_fft, hop)
    if window is not None or width < n_fft:
        frames = frames * _window(input, window, width, n_fft)
    norm = "ortho" if normalized else None
    transform = public("fft_rfft" if onesided else "fft_fft")
    found = transform(frames, dim=-1, norm=norm).transpose(1, 2)
    found = found if batched else found.squeeze(0)
    return found if return_complex is not False else public("view_as_real")(found)


def _padded(input, margin, mode):
    """A signal with so much on both sides, whatever its number of dimensions."""
    three = input.reshape((1,) * (3 - input.ndim) + tuple(input.shape))
    found = public("pad")(three, (margin, margin), mode)
    return found.reshape(found.shape[found.ndim - input.ndim :])


def _check_frames(head, n_fft, hop, width, window, signal):
    length = signal.shape[1]
    if n_fft <= 0 or n_fft > length:
        raise RuntimeError(head() + f" : expected 0 < n_fft < {length}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(head() + f" : expected hop_length > 0, but got hop_length={hop}")
    if width <= 0 or width > n_fft:
        raise RuntimeError(
            head() + f" : expected 0 < win_length <= n_fft, but got win_length={width}"
        )
    if window is not None and (window.ndim != 1 or window.shape[0] != width):
        raise RuntimeError(
            f"{head()} : expected a 1D window tensor of size equal to win_length={width}, but got "
            f"window with size {list(window.shape)}"
        )


def _overlapped(frames, hop, length):
    """Frames (batch, frame, place) added up where they overlap: (batch, length)."""
    count, width = frames.shape[1], frames.shape[2]
    start = public("arange")(count, device=frames.device) * hop
    place = (start.unsqueeze(1) + public("arange")(width, device=frames.device)).reshape(-1)
    total = frames.new_zeros((frames.shape[0], length))
    return total.index_add(1, place, frames.reshape(frames.shape[0], -1))


@composite(variants="function method")
def istft(
    input,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: OptionalTensor = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
):
    """The signal whose short-time spectra are given."""
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    options = dict(
        n_fft=n_fft, hop_length=hop, win_length=width, window=None, center=center,
        normalized=normalized, onesided=onesided, length=length, return_complex=return_complex,
    )  # fmt: skip
    head = _shown(f"CPU{input.dtype.scalar_name}Type", input.shape, window, options)
    if window is None:
        warnings.warn(
            "A window was not provided. A rectangular window will be applied.Please provide the "
            "same window used by stft to make the inversion lossless.To suppress this warning and "
            "use a rectangular window, explicitly set `window=torch.ones(n_fft, device=<device>)`.",
            stacklevel=2,
        )
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if input.ndim < 2:  # complex numbers are pairs there, from the end
        raise errors.dimension_out_of_range(-2 - input.ndim, input.ndim + 1)
    if input.ndim > 3:
        raise RuntimeError(
            head + f" : expected a tensor with 3 or 4 dimensions, but got {input.ndim + 1}"
        )
    spectra = input if input.ndim == 3 else input.unsqueeze(0)
    onesided = spectra.shape[1] != n_fft if onesided is None else onesided
    bins = n_fft // 2 + 1 if onesided else n_fft
    if spectra.shape[1] != bins:
        raise RuntimeError(
            head + " : expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match n_fft / 2 + 1 when onesided=True, but got {spectra.shape[1]}"
        )
    if not 0 < hop <= width:
        raise RuntimeError(head + " : expected 0 < hop_length <= win_length")
    if not 0 < width <= n_fft:
        raise RuntimeError(head + " : expected 0 < win_length <= n_fft")
    weights = _window(spectra, window, width, n_fft)
    frames = spectra.transpose(1, 2)
    norm = "ortho" if normalized else None
    if return_complex:
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        frames = public("fft_ifft")(frames, dim=-1, norm=norm)
    else:  # of spectra with two sides, the second is taken to be the mirror image of the first
        half = frames if onesided else frames[..., : n_fft // 2 + 1]
        frames = public("fft_irfft")(half, n=n_fft, dim=-1, norm=norm)
    whole = n_fft + hop * (frames.shape[1] - 1)
    signal = _overlapped(frames * weights, hop, whole)
    squares = (weights * weights).expand(1, frames.shape[1], n_fft)
    cover = _overlapped(squares, hop, whole)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - (n_fft // 2 if center else 0)
    kept = min(end, whole)
    signal, cover = signal[:, start:kept], cover[:, start:kept]
    if holds_anywhere(cover.abs() <= 1e-11):
        raise RuntimeError(head + " window overlap add min: 1")
    signal = signal / cover
    if end > whole:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings.",
            stacklevel=2,
        )
        signal = public("constant_pad_nd")(signal, (0, end - whole), 0)
    return signal if input.ndim == 3 else signal.squeeze(0)
