"""Drawing on a GPU: kernels that are called as the host's are, with a generator of the device.

PyTorch's numbers depend on how many threads draw: as many groups of 256 as there are elements, but
at most as many as the GPU holds at once. Kernels: `codegen/gpu/philox.py`.
"""

import math
import struct

from flambeau import _device
from flambeau import _dtype as d
from flambeau._layout import make_layout
from flambeau._tensor import empty_like_layout, make_tensor
from flambeau.eager.methods import function
from flambeau.random import CudaGenerator, Generator, cuda_generator, default_generator
from flambeau.storage import borrowed_storage

THREADS = 256
LINE = 16  # bytes that a thread of dropout takes at once
_pack = struct.Struct("<7q").pack
_FILLS = {"normal_pairs": "normal"}
_WORD = (1 << 32) - 1


def kernel(name, facts, device):
    """What draws: called as the host's kernel of the name is."""
    runtime = device.runtime
    if name == "random":
        code, wide = facts
        run = runtime.kernel("random", "philox:build_random", code, bool(wide))
        return _filling(runtime, device, run, 2 if wide else 4)
    if name == "bernoulli_from":
        return _coins(device, runtime.kernel(name, "philox:build_bernoulli_from", *facts))
    kind, code = facts if name == "fill" else (name, *facts)
    kind = _FILLS.get(kind, kind)
    run = runtime.kernel(kind, "philox:build_fill", kind, code)
    return _filling(runtime, device, run, 2 if code == "f64" else 4)


def groups_for(runtime, count):
    """Groups of threads that PyTorch would start."""
    return min((count + THREADS - 1) // THREADS, most_groups(runtime))


def most_groups(runtime):
    found = runtime.facts.get("groups")
    if found is None:
        ask = runtime.driver.attribute
        each = ask(runtime.index, "MAX_THREADS_PER_MULTIPROCESSOR") // THREADS
        found = runtime.facts["groups"] = each * ask(runtime.index, "MULTIPROCESSOR_COUNT")
    return found


def _own(generator, device):
    """The generator to draw from; the host's default stands for the device's."""
    if type(generator) is CudaGenerator:
        return generator
    if generator is None or generator == default_generator.pointer:
        return cuda_generator(device.index)
    raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")


def _described(generator, count, groups, increment):
    seed, offset, state = generator.advance(increment)
    return _pack(1, count, seed & _WORD, seed >> 32, offset, state, groups)


def _filling(runtime, device, run, each):
    def fill(generator, out, count, a=0.0, b=0.0):
        groups = groups_for(runtime, count)
        increment = ((count - 1) // (THREADS * groups * each) + 1) * 4
        run(_described(_own(generator, device), count, groups, increment), out, a, b)

    return fill


def _coins(device, run):
    def toss(generator, out, p, count):
        groups = (count + 4 * THREADS - 1) // (4 * THREADS)
        run(_described(_own(generator, device), count, groups, 12), out, p)

    return toss


def dropout(layout, kind, masked):
    """Called as the host's kernel of dropout is."""
    device, runtime = layout.device, layout.device.runtime
    count, each = layout.numel, LINE // layout.itemsize
    while each > 1 and count % each:
        each //= 2
    run = runtime.kernel("dropout", "philox:build_dropout", layout.dtype.code, each, masked)
    groups = groups_for(runtime, count)
    increment = ((count - 1) // (THREADS * groups * 4) + 1) * 4

    def toss(generator, out, mask, input, count, keep, factor, shift, share):
        factor = 1 / keep if kind == "plain" else factor
        words = _described(_own(generator, device), count, groups, increment)
        run(words, out, mask, input, keep, factor)

    return toss


def seed_words(device, increment):
    """Seed and offset as two words in memory of the device, for libraries that draw by themselves.

    While a graph is recorded they are not known yet: they are copied when it runs.
    """
    seed, offset, place = cuda_generator(device.index).advance(increment)
    layout = make_layout((2,), (1,), d.int64, device)
    out = empty_like_layout(layout)
    if place:
        out.copy_(make_tensor(layout, borrowed_storage(place, layout.nbytes, None), 0))
        out[1:].add_(offset)
        return out
    for k, value in enumerate((seed, offset)):
        out[k : k + 1].fill_(value if value < 1 << 63 else value - (1 << 64))
    return out


def first_uniforms(out, distributions, samples, generator):
    """A number for each sample, as multinomial draws them: a thread each, in groups of 128."""
    device, columns = out.device, (samples + 127) // 128 * 128
    run = device.runtime.kernel("uniform", "philox:build_first", out.dtype.code)
    scratch = out.new_empty((distributions, columns))
    count = scratch.numel()
    groups = (count + THREADS - 1) // THREADS
    run(_described(_own(generator, device), count, groups, 4), scratch.data_ptr())
    out.copy_(scratch[:, :samples])


def draw_categories(out, weights, samples, generator):
    """With replacement: numbers find their places among the sums of the weights."""
    rows = weights.reshape(-1, weights.shape[-1])
    if not bool(((rows >= 0) & (rows < math.inf)).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    computed = rows if rows.dtype is d.float64 else rows.float()
    sums = (computed / computed.sum(-1, keepdim=True)).cumsum(-1)
    numbers = computed.new_empty((rows.shape[0], samples))
    first_uniforms(numbers, rows.shape[0], samples, generator)
    found = function("searchsorted")(sums, numbers).clamp_(max=rows.shape[-1] - 1)
    out.copy_(found.view(out.shape))


def fill_permutation(out, n, generator):
    """0 .. n - 1 in the order of random keys, of as many bits as make equal keys rare."""
    if n == 0:
        return

    bits = math.ceil(math.log2(n - (6 * n * n + 1) / (12 * math.log(0.9))))
    dtype = d.int32 if bits <= 32 else d.int64
    keys = out.new_empty((n,), dtype=dtype)
    least, most = d.iinfo(dtype).min, d.iinfo(dtype).max
    keys.random_(least, most, generator=generator)
    if bits < d.iinfo(dtype).bits:
        keys = keys & ((1 << bits) - 1)
    order = function("sort")(keys, stable=True)[1]
    _own(generator, out.device).advance((n + 3) // 4 * 4)
    out.copy_(order)


def on_host(generator, device, draw):
    """What is drawn on the host and copied: draw(generator) from one that follows this one."""
    seed, offset, _ = _own(generator, device).advance(4)
    follower = Generator().manual_seed((seed + 0x9E3779B97F4A7C15 * (offset + 1)) & ((1 << 64) - 1))
    return draw(follower).to(device)


def is_cuda(device):
    return device is not _device.cpu and device.type == "cuda"
