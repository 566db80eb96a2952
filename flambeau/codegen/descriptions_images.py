"""Launch descriptions of resampling and of regions of images (see descriptions.py)."""

from typing import NamedTuple

from flambeau.codegen.descriptions import Word


class Regular(NamedTuple):
    """A table of neighbours at regular places."""

    chunks: Word
    size: Word
    wanted: Word


class Turned(NamedTuple):
    """A table that is turned around."""

    chunks: Word
    outputs: Word
    inputs: Word


class Spread(NamedTuple):
    """A table that is looked at."""

    chunks: Word
    outputs: Word


class Blocks(NamedTuple):
    """A table for registers of outputs."""

    chunks: Word
    outputs: Word
    count: Word  # taps of each


class Resampling(NamedTuple):
    """Planes of rows, or rows of pixels, by tables: where their parts lie."""

    chunks: Word
    rows: Word
    per_chunk: Word
    depth: Word
    height: Word
    width: Word
    in_depth: Word
    in_height: Word
    in_width: Word
    plane: Word  # elements from plane to plane, or from image to image
    line: Word  # elements of scratch per chunk; channels of a pixel
    count: Word  # taps of a column in blocks
    deep_pointers: Word
    deep_indices: Word
    deep_weights: Word
    high_pointers: Word
    high_indices: Word
    high_weights: Word
    wide_pointers: Word  # or bases of blocks
    wide_indices: Word
    wide_weights: Word


class GridSampling(NamedTuple):
    """Places of a grid, or channels of an image; sizes of dimensions that are not there are 1."""

    chunks: Word
    width: Word
    height: Word
    depth: Word
    places: Word  # per batch
    channels: Word
    per_chunk: Word
    parts: Word  # chunks per batch


class Boxes(NamedTuple):
    """Boxes that may cover each other, the best first."""

    chunks: Word
    count: Word
    line: Word  # elements of a line of sides


class Regions(NamedTuple):
    """Bins of regions of images."""

    chunks: Word
    rois: Word
    images: Word
    channels: Word
    height: Word
    width: Word
    rows: Word  # of bins
    columns: Word
    per_chunk: Word
    samples: Word = 0  # of a bin; 0 or less: by size
    scratch: Word = 0  # bytes of a chunk
    bin_stride: Word = 0
    line: Word = 0


REGION_CHANNELS = 4  # that roi_align sums together
