"""Attention on GPUs, by cuDNN: plans for eager/attention.py.

`takes` says whether the library does a call; the others run on plain ops (ops/attention.py). A mask
is added to the scores and has the dtype of queries; what is dropped follows from a seed and an
offset, two words in memory of the GPU, so nothing here is as large as all scores.
"""

import math

from flambeau import _dtype as d
from flambeau._layout import dense_layout
from flambeau._tensor import empty_like_layout, make_tensor
from flambeau.eager import cuda_sampling, kernels
from flambeau.eager.attention import ALIGNED, preserved
from flambeau.eager.planned import constant, idle
from flambeau.eager.rows import address, has_work
from flambeau.runtime import cudnn
from flambeau.runtime.switches import switches

CODES = "f16", "bf16"
WIDTHS = 128  # elements of a head
STEP = 8  # what those are a multiple of
MANY = 256  # calls whose graphs are kept
DRAWN = 16  # by how much a call moves the generator's offset on


class Attention:
    """What a GPU does for attention."""

    def __init__(self, runtime):
        self.runtime = runtime
        self.kernels: dict = {}  # by layouts and options
        self.calls: dict = {}  # what they call, by the addresses of their definitions

    def takes(self, query, key, value, mask, dropped, causal):
        """Does the library do this, forward and backward? mask: its shape, or None."""
        if query.ndim != 4 or query.dtype.code not in CODES:
            return False
        widths = query.sizes[3], value.sizes[3]
        if max(widths) > WIDTHS or widths[0] % STEP or widths[1] % STEP:
            return False
        if not (query.numel and key.numel and value.numel) or self.runtime.cudnn() is None:
            return False
        if mask is not None:
            mask = self.mask(mask, query, key)
        keep = query if dropped else None
        try:
            plan = self.forward(query, key, value, mask, keep, causal)
            self.calls[plan[2].__self__].probe()
            if dropped:  # nobody else could find the same elements again
                out = preserved(query)
                plan = self._back(query, key, value, out, out, mask, keep, causal)
                self.calls[plan[3].__self__].probe()
        except cudnn.Refused:
            return False
        return True

    def seed(self, device):
        """A seed and an offset in memory of the GPU, as two words."""
        return cuda_sampling.seed_words(device, DRAWN)

    def mask(self, shape, query, key):
        """The layout of a mask of a shape as the library wants it: batches and heads may be one."""
        shape = (*(1,) * (4 - len(shape)), *shape)
        full = (*shape[:2], query.sizes[2], key.sizes[2])
        return dense_layout(full, query.dtype, query.device)

    def forward(self, query, key, value, mask, keep, causal, logged=True):
        """The plan of a call."""
        fitted = query, key, value = _readable(query), _readable(key), _readable(value)
        out, logs = _results(query, key, value)
        if not has_work(out):
            return *idle(out, logs), *fitted, None
        options = mask, keep is not None, causal, logged
        run = self._known(Forward, query, key, value, out, *options)
        return out, logs, run, b"", *fitted, None

    def backward(self, query, key, value, out, grad, mask, keep, causal):
        """The plan of its gradients; without a kernel where the library has none."""
        found = self._back(query, key, value, out, grad, mask, keep, causal)
        try:
            call = self.calls.get(getattr(found[3], "__self__", None))
            if call is not None:
                call.probe()
        except cudnn.Refused:
            return *found[:3], None, *found[4:]
        return found

    def side_by_side(self, query, key, value, out, logs, grad, mask, keep, causal, scale, kept):
        """Gradients of parts of one tensor as parts of one tensor, which is the gradient of that.

        None where queries, keys and values are no such parts, or the library does not do this.
        """
        if not _are_parts(query, key, value) or _readable(grad._layout) is not grad._layout:
            return None
        like, (batch, heads, length, width) = query._layout, query._layout.sizes
        given = [t._layout for t in (query, key, value, out, grad)]
        added = None if mask is None else mask._layout
        run = self._known(Backward, *given, like, like, like, added, keep is not None, causal)
        try:
            self.calls[run.__self__].probe()
        except cudnn.Refused:
            return None
        sizes = batch, length, 3, heads, width
        whole = empty_like_layout(dense_layout(sizes, like.dtype, like.device))
        step = heads * width * like.itemsize
        found = [make_tensor(like, whole._storage, k * step) for k in range(3)]
        places = [address(t) for t in (*found, query, key, value, out, logs, grad)]
        more = [0 if t is None else address(t) for t in (mask, keep)]
        run(b"", *places, *more, 0, scale, kept)
        return found

    def _back(self, query, key, value, out, grad, mask, keep, causal):
        fitted = query, key, value, grad = [_readable(t) for t in (query, key, value, grad)]
        results = [preserved(t) for t in (query, key, value)]
        if not has_work(grad) or not key.numel:
            return *constant(0, results), *fitted, None
        layouts = query, key, value, out, grad, *results
        run = self._known(Backward, *layouts, mask, keep is not None, causal)
        return *results, run, b"", *fitted, None

    def _known(self, kind, *facts):
        """The kernel of a call, made once: `takes` builds what calls will run."""
        found = self.kernels.get((kind, *facts))
        if found is None:
            if len(self.kernels) > MANY:
                self.kernels.clear()
                self.calls.clear()
            call = kind(self.runtime, *facts)
            name = "cudnn_attention" if kind is Forward else "cudnn_attention_backward"
            found = kernels.python_kernel(name, call, self.runtime)
            self.kernels[kind, *facts] = found
            self.calls[found.__self__] = call
        return found


class Graphs:
    """Graphs of one call by scale and share of what is kept, which are numbers inside of them."""

    def __init__(self, runtime, query, mask, dropped, causal):
        self.width = query.sizes[3]
        self.runtime, self.mask, self.dropped, self.causal = runtime, mask, dropped, causal
        self.works: dict = {}

    def probe(self):
        """Refused if the library does not do this."""
        self._work(1 / math.sqrt(self.width), 1.25 if self.dropped else 1.0)

    def _work(self, scale, kept):
        key = scale, kept, switches.convolving
        found = self.works.get(key)
        if found is None:
            _, _, _, tries = switches.convolving
            found = self.works[key] = self._graph(scale, kept).built(tries=tries)
        return found

    def _described(self, graph, scale, kept, first):
        """Options of the operation; tensors that they need are numbered from first."""
        options = {"attn_scale": scale, "name": "attention"}
        if self.causal:
            options |= {"use_causal_mask": True}
        if self.mask is not None:
            options["bias"] = graph.given(first, self.mask.sizes, self.mask.strides)
            first += 1
        if self.dropped:
            seed = graph.given(first, (1,) * 4, (1,) * 4, "i64")
            offset = graph.given(first + 1, (1,) * 4, (1,) * 4, "i64")
            options["dropout"] = 1.0 - 1.0 / kept, seed, offset
        return options

    def _more(self, mask, keep):
        """Addresses of tensors that options need."""
        found = (mask,) if self.mask is not None else ()
        return (*found, keep, keep + 8) if self.dropped else found


class Forward(Graphs):
    """Called as kernels are: results are tensors 1 and 2, then queries, keys, values."""

    def __init__(self, runtime, query, key, value, out, mask, dropped, causal, logged):
        super().__init__(runtime, query, mask, dropped, causal)
        self.layouts, self.logged = (query, key, value, out), logged

    def __call__(self, _, out, logs, query, key, value, mask, keep, room, scale, kept):
        work, results = self._work(scale, kept), (out, logs) if self.logged else (out,)
        work(b"", *results, query, key, value, *self._more(mask, keep))

    def _graph(self, scale, kept):
        query, key, value, out = self.layouts
        graph = self.runtime.cudnn().graph(query.dtype.code)
        given = [graph.given(k + 3, *_facts(t)) for k, t in enumerate((query, key, value))]
        options = self._described(graph, scale, kept, 6)
        found, logs = graph.inner.sdpa(*given, generate_stats=self.logged, **options)
        graph.wanted(found, 1, *_facts(out))
        if self.logged:
            graph.wanted(logs, 2, *_logs(query), "f32")
        return graph


class Backward(Graphs):
    """Called as kernels are: gradients are tensors 1 to 3, then all that forward saw and gave."""

    def __init__(self, runtime, query, key, value, out, grad, dq, dk, dv, mask, dropped, causal):
        super().__init__(runtime, query, mask, dropped, causal)
        self.given, self.results = (query, key, value, out, grad), (dq, dk, dv)

    def __call__(
        self, _, dq, dk, dv, query, key, value, out, logs, grad, mask, keep, room, scale, kept
    ):
        work = self._work(scale, kept)
        work(b"", dq, dk, dv, query, key, value, out, grad, logs, *self._more(mask, keep))

    def _graph(self, scale, kept):
        query = self.given[0]
        graph = self.runtime.cudnn().graph(query.dtype.code)
        given = [graph.given(k + 4, *_facts(t)) for k, t in enumerate(self.given)]
        logs = graph.given(9, *_logs(query), "f32")
        options = self._described(graph, scale, kept, 10)
        options["use_deterministic_algorithm"] = switches.repeats()
        found = graph.inner.sdpa_backward(*given, logs, **options)
        for k, (tensor, layout) in enumerate(zip(found, self.results)):
            graph.wanted(tensor, k + 1, *_facts(layout))
        return graph


def _are_parts(query, key, value):
    """Is each position of a tensor a query, a key and a value of all heads, one after another?"""
    layout, storage = query._layout, query._storage
    if key._layout is not layout or value._layout is not layout:
        return False
    if key._storage is not storage or value._storage is not storage or not layout.numel:
        return False
    _, heads, length, width = layout.sizes
    row, step = 3 * heads * width, heads * width * layout.itemsize
    starts = key._offset - query._offset, value._offset - key._offset
    return layout.strides == (length * row, width, row, 1) and starts == (step, step)


def _facts(layout):
    return layout.sizes, layout.strides


def _logs(query):
    """Sizes and strides of the logarithms of sums of exponentials."""
    batch, heads, length, _ = query.sizes
    return (batch, heads, length, 1), (heads * length, length, 1, 1)


def _results(query, key, value):
    batch, heads, length, width = query.sizes
    out = preserved(query)
    if value.sizes[3] != width:
        out = dense_layout((batch, heads, length, value.sizes[3]), query.dtype, query.device)
    return out, dense_layout((batch, heads, length), d.float32, query.device)


def _readable(layout):
    """The layout itself if the library can read it, else that of a copy."""
    item = layout.itemsize
    *outer, last = layout.strides
    if last == 1 and not any(s * item % ALIGNED or s == 0 for s in outer):
        return layout
    return dense_layout(layout.sizes, layout.dtype, layout.device)
