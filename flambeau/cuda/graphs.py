"""CUDA graphs: work that is recorded once and run many times."""

import gc
from collections.abc import Callable
from typing import Any

from flambeau import random as _random
from flambeau._tensor import Tensor
from flambeau.cuda._devices import devices, part
from flambeau.cuda.memory import empty_cache
from flambeau.cuda.streams import Stream, StreamContext, synchronize

_recording: list = []  # graphs that are being recorded


def is_current_stream_capturing() -> bool:
    """Is a graph being recorded?"""
    return bool(_recording)


def graph_pool_handle() -> tuple:
    """A name for memory that several graphs share."""
    from flambeau.runtime.cuda_graphs import new_pool

    return new_pool()


class CUDAGraph:
    """Work that is recorded once and run again with `replay`."""

    def __init__(self, keep_graph: bool = False) -> None:
        if devices() is None:
            raise RuntimeError("torch.cuda.CUDAGraph requires CUDA support")
        self._found: Any = None
        self._generators: list = []
        self._pool: tuple | None = None

    def register_generator_state(self, generator: Any) -> None:
        """Numbers of another generator, too, are drawn anew in each run."""
        self._generators.append(generator)

    def capture_begin(self, pool: tuple | None = None, capture_error_mode: str = "global") -> None:
        """Record from now on; work goes to the current stream, which must not be the default."""
        from flambeau.runtime.cuda_graphs import MODES, Recording, new_pool

        if capture_error_mode not in MODES:
            raise RuntimeError(
                "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got "
                + capture_error_mode
            )
        if self._found is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, "
                "create a new instance."
            )
        runtime = part()
        if not runtime.stream:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, "
                "it's ok to replay them on the default stream.)"
            )
        self._pool = new_pool() if pool is None else pool
        generators = [_random.cuda_generator(runtime.index), *self._generators]
        self._found = Recording(runtime, self._pool, generators)
        self._found.begin(capture_error_mode)
        _recording.append(self)

    def capture_end(self) -> None:
        """Stop recording."""
        _recording.remove(self)
        self._found.end()

    def replay(self) -> None:
        """Run what was recorded, on the current stream."""
        if self._found is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self._found.play()

    def reset(self) -> None:
        """Forget what was recorded, and its memory."""
        found, self._found = self._found, None
        if found is not None:
            found.runtime.synchronize()
            found.free()
            if self._pool is not None:
                found.runtime.allocator.forget(self._pool)

    def pool(self) -> tuple:
        """The name of this graph's memory, for others to share."""
        if self._pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool

    def enable_debug_mode(self) -> None:
        """Nothing more is kept than always."""

    def debug_dump(self, debug_path: str) -> None:
        """Not written here."""


class graph:
    """`with torch.cuda.graph(g):` records work into a graph."""

    default_capture_stream: Stream | None = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: tuple | None = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        if devices() is None:
            raise RuntimeError("torch.cuda.graph requires CUDA support")
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        self.pool, self.mode, self.cuda_graph = pool, capture_error_mode, cuda_graph
        self.capture_stream, self.stream_ctx = stream, StreamContext(stream)

    def __enter__(self) -> None:
        synchronize()
        gc.collect()
        empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.mode)
        except BaseException:
            self.stream_ctx.__exit__()
            raise

    def __exit__(self, *error: Any) -> None:
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(*error)


# -- callables -------------------------------------------------------------------------------------


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: tuple | None = None,
) -> Any:
    """Functions or modules that run as graphs, forward and backward.

    Args:
        callables: a function or module, or a tuple of them.
        sample_args: tensors of the shapes that later calls have, per callable.
    """
    single = not isinstance(callables, tuple)
    if single:
        callables, sample_args = (callables,), (sample_args,)
    pool = graph_pool_handle() if pool is None else pool
    made = tuple(
        _graphed(function, tuple(args), num_warmup_iters, allow_unused_input, pool)
        for function, args in zip(callables, sample_args)
    )
    return made[0] if single else made


def _as_tuple(found: Any) -> tuple:
    return found if isinstance(found, tuple) else (found,)


def _graphed(
    function: Any, args: tuple, warmups: int, allow_unused: bool, pool: tuple
) -> Callable | Any:
    from flambeau import autograd, nn

    is_module = isinstance(function, nn.Module)
    parameters = tuple(function.parameters()) if is_module else ()
    inputs = tuple(t for t in (*args, *parameters) if t.requires_grad)

    def gradients(outputs: tuple, given: tuple) -> tuple:
        wanted = tuple(o for o in outputs if o.requires_grad)
        return autograd.grad(wanted, inputs, given, allow_unused=allow_unused)

    side = Stream()
    with StreamContext(side):
        for _ in range(warmups):
            outputs = _as_tuple(function(*args))
            if inputs:
                gradients(outputs, tuple(o.new_ones(o.shape) for o in outputs if o.requires_grad))
    synchronize()
    forward, backward = CUDAGraph(), CUDAGraph()
    with graph(forward, pool=pool):
        found = function(*args)
    outputs = _as_tuple(found)
    given = tuple(o.new_empty(o.shape) for o in outputs if o.requires_grad)
    static: tuple = ()
    if inputs:
        with graph(backward, pool=pool):
            static = gradients(outputs, given)
    by_input = dict(zip(map(id, inputs), static))

    class Graphed(autograd.Function):
        @staticmethod
        def forward(ctx: Any, *values: Tensor) -> Any:
            for target, value in zip(args, values):
                if target.data_ptr() != value.data_ptr():
                    target.detach().copy_(value)
            forward.replay()
            results = tuple(o.detach() for o in outputs)
            return results if isinstance(found, tuple) else results[0]

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Any:
            wanted = [g for g, o in zip(grads, outputs) if o.requires_grad]
            for target, value in zip(given, wanted):
                target.copy_(value)
            backward.replay()
            results = [by_input.get(id(t)) for t in (*args, *parameters)]
            return tuple(None if r is None else r.detach().clone() for r in results)

    def run(*values: Tensor) -> Any:
        return Graphed.apply(*values, *parameters)

    if not is_module:
        return run
    plain, was_training = function.forward, function.training

    def graphed_forward(*values: Tensor) -> Any:
        return run(*values) if function.training == was_training else plain(*values)

    function.forward = graphed_forward
    return function
