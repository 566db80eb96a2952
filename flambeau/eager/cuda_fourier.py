"""Fourier transforms on GPUs by cuFFT: how tensors are described to it, and copied where it asks.

A plan of the library takes up to three dimensions at once, whose strides are multiples of one
another, and a batch with one stride. Other batches are walked through, or the tensor is copied.
Where there is no library, or it refuses, eager/fourier.py goes its own way.
"""

from itertools import pairwise
from math import prod

from flambeau._layout import collapse, dense_layout, make_layout, ordered_strides
from flambeau._tensor import empty_like_layout
from flambeau.eager import kernels
from flambeau.eager.copying import copy_into
from flambeau.eager.fourier import complete
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, dense_like, has_work
from flambeau.ops.table import public as function
from flambeau.runtime import cufft

TOGETHER = 3  # dimensions of one plan
FEW = 4  # calls that are no worse than copies
LARGE = 1 << 18  # elements of a transform beside which a call costs little


class Transforms:
    """What a GPU does for Fourier transforms. Results are new tensors, or None."""

    def __init__(self, runtime):
        self.runtime, self.is_started = runtime, False
        self.plans = Plans(self._plan, by_default=False)

    def library(self):
        """The library, loaded when it is first asked for; None without it."""
        if not self.is_started:
            self.use(cufft.start(self.runtime))
        return self._library

    def use(self, library):
        """Let a library (or None) do it from now on."""
        self._library, self.is_started = library, True
        self.plans.clear()
        if library is not None:
            self.kernel = kernels.python_kernel("cufft", library, self.runtime)

    # -- transforms --------------------------------------------------------------------------------
    def c2c(self, input, dims, scale, forward):
        """Complex numbers along dims."""
        layout = input._layout
        dims = tuple([k for k in dims if layout.sizes[k] > 1])
        if not dims or not has_work(layout) or self.library() is None:
            return None
        to, at = dense_like(layout), layout
        ways = []
        while dims:
            dims, group = dims[:-TOGETHER], dims[-TOGETHER:]
            ways.append(self.plans["c2c", at, to, group])
            at = to
        if None in ways:
            return None
        out, source = empty_like_layout(to), input
        for way in ways:
            way.run(out, source, cufft.FORWARD if forward else cufft.BACKWARD)
            source = out
        return _scaled(out, scale)

    def r2c(self, input, dims, scale, onesided):
        """Real numbers along dims; of the last one the first half remains if onesided."""
        layout, last = input._layout, dims[-1]
        n, dtype = layout.sizes[last], layout.dtype.to_complex()
        if n == 1 or not has_work(layout) or self.library() is None:
            return None
        if not onesided and len(dims) > 1:
            return self.c2c(input.detach().to(dtype), dims, scale, True)
        dims = tuple([k for k in dims[:-1] if layout.sizes[k] > 1])
        dims, group = dims[: 1 - TOGETHER], (*dims[1 - TOGETHER :], last)
        out = empty_like_layout(_resized(layout, last, n // 2 + 1 if onesided else n, dtype))
        half = out if onesided else function("narrow")(out, last, 0, n // 2 + 1)
        way = self.plans["r2c", layout, half._layout, group]
        if way is None:
            return None
        way.run(half, input)
        if dims:
            return self.c2c(out, dims, scale, True)
        if not onesided and n > 2:
            complete(out, last)
        return _scaled(out, scale)

    def c2r(self, input, dims, scale, n):
        """Real numbers, n along the last of dims, from half of their transform."""
        layout, last = input._layout, dims[-1]
        out = _resized(layout, last, n, layout.dtype.to_real())
        if n == 1 or not (has_work(layout) and has_work(out)) or self.library() is None:
            return None
        dims = tuple([k for k in dims[:-1] if layout.sizes[k] > 1])
        dims, group = dims[: 1 - TOGETHER], (*dims[1 - TOGETHER :], last)
        half = dense_like(layout)
        way = self.plans["c2r", half, out, group]
        if way is None:
            return None
        # what becomes real is lost, so the library is given a copy
        source = self.c2c(input, dims, 1.0, False) if dims else _copied(input, half)
        if source is None:
            return None
        found = empty_like_layout(out)
        way.run(found, source)
        return _scaled(found, scale)

    # -- plans -------------------------------------------------------------------------------------
    def _plan(self, key):
        """How a tensor of one layout is transformed into another along dims; None if it is not."""
        kind, layout, out, dims = key
        sizes = (out if kind == "c2r" else layout).sizes
        code = (out if kind == "r2c" else layout).dtype.code
        if kind == "c2c":  # any order will do, and of real numbers any but the last
            dims = tuple(sorted(dims, key=lambda k: -layout.strides[k]))
        else:
            dims = *sorted(dims[:-1], key=lambda k: -layout.strides[k]), dims[-1]
        order = *[k for k in range(layout.ndim) if k not in dims], *dims
        dense = dense_layout(layout.sizes, layout.dtype, layout.device)
        moved, moved_out = (_ordered(side, order) for side in (layout, out))
        for source, target in ((layout, out), (dense, out), (moved, out), (moved, moved_out)):
            calls = _calls(source, target, dims, sizes)
            if calls is None:
                continue
            facts, places = calls
            try:
                number = self._library.number(cufft.TYPES[kind][code], *facts)
            except cufft.Refused:
                return None
            return Way(self.kernel, number, places, layout, source, out, target)
        return None


class Way:
    """A transform from one layout to another, with copies before and after where they are needed.

    places: pairs of bytes to be added to the addresses of result and input, one for each call.
    """

    def __init__(self, kernel, number, places, given, source, wanted, target):
        self.kernel, self.number, self.places = kernel, number, places
        self.source, self.is_copied = source, given is not source
        self.target = None if wanted is target else target
        self.aligned = _pair(source)

    def run(self, out, source, *direction):
        if self.is_copied or address(source) % self.aligned:
            source = _copied(source, self.source)
        found = out if self.target is None else empty_like_layout(self.target)
        to, at = address(found), address(source)
        for there, here in self.places:
            self.kernel(b"", self.number, to + there, at + here, *direction)
        if found is not out:
            copy_into(out, found)


def _calls(source, target, dims, sizes):
    """((sizes, input, result, count) of a plan, places of calls), or None if that will not do."""
    inside, inside_out = _nested(source, dims), _nested(target, dims)
    if inside is None or inside_out is None:
        return None
    others = [k for k in range(source.ndim) if k not in dims]
    others.sort(key=lambda k: -source.strides[k])
    walks = [[side.strides[k] for k in others] for side in (source, target)]
    counts, walks = collapse([sizes[k] for k in others], walks)
    batch = sorted(zip(counts, *walks))
    count, apart, apart_out = batch.pop() if batch else (1, 1, 1)
    if apart <= 0 or apart_out <= 0:
        return None
    places = [(0, 0)]
    for size, step, step_out in batch:
        step, step_out = step * source.itemsize, step_out * target.itemsize
        if step % _pair(source) or step_out % _pair(target):
            return None
        places = [(a + k * step_out, b + k * step) for a, b in places for k in range(size)]
    wanted = tuple([sizes[k] for k in dims])
    if len(places) > FEW and count * prod(wanted) < LARGE:
        return None
    sides = cufft.Side(*inside, apart), cufft.Side(*inside_out, apart_out)
    return (wanted, *sides, count), places


def _nested(layout, dims):
    """(sizes of the memory that dims are part of, step) as the library counts; None if they are
    not part of such memory.
    """
    sizes, strides = ([side[k] for k in dims] for side in (layout.sizes, layout.strides))
    if strides[-1] <= 0:
        return None
    embed = [sizes[0]]
    for (outer, inner), size in zip(pairwise(strides), sizes[1:]):
        if outer % inner or outer // inner < size:
            return None
        embed.append(outer // inner)
    return tuple(embed), strides[-1]


def _pair(layout):
    """Bytes of a complex number: addresses are multiples of them, those of real numbers as well."""
    return 2 * layout.dtype.to_real().itemsize


def _resized(layout, dim, n, dtype):
    """A dense layout with another size along one dimension."""
    sizes = *layout.sizes[:dim], n, *layout.sizes[dim + 1 :]
    return dense_layout(sizes, dtype, layout.device)


def _ordered(layout, order):
    """A dense layout of the same shape whose dimensions lie in an order."""
    strides = ordered_strides(layout.shape, order)
    return make_layout(layout.shape, strides, layout.dtype, layout.device)


def _copied(t, layout):
    out = empty_like_layout(layout)
    copy_into(out, t)
    return out


def _scaled(t, scale):
    return t if scale == 1.0 else function("mul")(t, scale, out=t)
