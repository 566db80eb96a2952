"""torch.compile on a GPU does what the program does: tapes, joined kernels, CUDA graphs."""

import copy
import gc
import importlib.util
import pathlib
import sys
import threading

import pytest

import flambeau as torch
from flambeau import cuda
from flambeau.compiler import on_gpus, recording
from flambeau.eager import cuda_sampling, kernels
from flambeau.nn import functional as F

_path = pathlib.Path(__file__).with_name("compiled_programs.py")
_spec = importlib.util.spec_from_file_location("gpu_compiled_programs", _path)
programs = sys.modules[_spec.name] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(programs)

CALLS = 7  # as it is, recorded, one by one, as a graph


def tapes_of(action):
    """What an action gives, and the tapes that were made meanwhile."""
    gc.collect()
    before = {id(o) for o in gc.get_objects() if type(o) is on_gpus.GpuTape}
    result = action()
    found = [o for o in gc.get_objects() if type(o) is on_gpus.GpuTape and id(o) not in before]
    return result, found


def same(a, b):
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    return a.dtype == b.dtype and torch.equal(a, b)


def runs(function, given, calls=CALLS):
    """Results of several calls on copies of arguments, with the arguments as they are then."""
    cuda.manual_seed(7)
    found = []
    for k in range(calls):
        arguments = [x.clone() + k if x.is_floating_point() else x.clone() for x in given]
        result = function(*arguments)
        found.append((result, arguments))
    return found


@pytest.mark.parametrize("name", programs.FUNCTIONS)
def test_results_are_those_of_eager_mode(name):
    torch.manual_seed(1)
    function, *makers = programs.FUNCTIONS[name]
    given = [make() for make in makers]
    compiled = torch.compile(function)
    for one, other in zip(runs(function, given), runs(compiled, given)):
        assert same(one[0], other[0]) and same(one[1], other[1])


@pytest.mark.parametrize("name", ["chain", "normalised", "dropped", "cast", "looked_up", "pooled"])
def test_programs_run_as_graphs(name):
    torch.manual_seed(1)
    function, *makers = programs.FUNCTIONS[name]
    given, compiled = [make() for make in makers], torch.compile(function, fullgraph=True)

    def loop():
        for _ in range(12):
            compiled(*given)

    _, tapes = tapes_of(loop)
    assert len(tapes) == 1 and tapes[0].graphs.hits > 3
    if name == "chain":  # a kernel of all that is pointwise, and the sum
        assert len(tapes[0].tape.launches) == 2


@pytest.mark.parametrize("name", programs.MODELS)
@pytest.mark.parametrize("whole", [True, False])
def test_training(name, whole):
    torch.manual_seed(2)
    make, inputs = programs.MODELS[name]
    plain = make().to("cuda")
    net, x, target = copy.deepcopy(plain), inputs(), programs.classes(4, 8)()

    def losses(net, compiled):
        optimizer = torch.optim.AdamW(net.parameters(), 0.01)
        run = torch.compile(net) if compiled and not whole else net
        step = programs.training(run, optimizer)
        step = torch.compile(step) if compiled and whole else step
        cuda.manual_seed(3)
        return [step(x, target).item() for _ in range(2 * CALLS)]

    expected = losses(plain, False)
    found, tapes = tapes_of(lambda: losses(net, True))
    assert found == expected
    assert all(map(torch.equal, plain.state_dict().values(), net.state_dict().values()))
    assert len(tapes) == 2 and all(t.graphs.hits for t in tapes)


@pytest.mark.parametrize("name, launches", [("residual", 1), ("long_residual", 1), ("attended", 1)])
def test_row_programs_take_neighbours_in(name, launches):
    function, *makers = programs.FUNCTIONS[name]
    given, compiled = [make() for make in makers], torch.compile(function)
    _, tapes = tapes_of(lambda: [compiled(*given) for _ in range(4)])
    (tape,) = tapes
    assert len(tape.tape.launches) == launches


def test_arguments_may_share_memory_that_is_only_read():
    """As the words of a text and the same words one further do."""
    torch.manual_seed(4)
    table, text = torch.nn.Embedding(11, 4).to("cuda"), programs.classes(11, 9)()
    plain = copy.deepcopy(table)

    def losses(net, compiled):
        step = programs.training(lambda x: net(x), torch.optim.SGD(net.parameters(), 0.1))
        step = torch.compile(step, fullgraph=True) if compiled else step
        given = text[:-1], text[1:] % 4
        shared = text % 4
        found = [step(text[:-1], given[1]).item() for _ in range(5)]
        return found + [step(shared[:-1], shared[1:]).item() for _ in range(6)]

    found, tapes = tapes_of(lambda: losses(table, True))
    assert found == losses(plain, False)
    assert len(tapes) >= 2 and sum(t.graphs.hits for t in tapes) > 2


def test_two_results_are_alive_before_their_gradients():
    w = torch.randn(5, 5, device="cuda", requires_grad=True)

    def f(x):
        return (x @ w).tanh() * x

    compiled = torch.compile(f)
    for k in range(CALLS):
        x, y = torch.randn(5, 5, device="cuda"), torch.randn(5, 5, device="cuda")
        expected = torch.autograd.grad((f(x) * f(y)).sum(), w)[0]
        a, b = compiled(x), compiled(y)
        assert torch.equal(torch.autograd.grad((a * b).sum(), w)[0], expected), k


def test_other_streams():
    compiled, x = torch.compile(programs.chain), torch.randn(6, 5, device="cuda")
    expected = programs.chain(x, x)
    side = cuda.Stream()
    for k in range(10):
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side if k % 2 else cuda.default_stream()):
            found = compiled(x, x)
        cuda.synchronize()
        assert same(found, expected)


def test_inside_of_a_graph_that_is_captured():
    compiled, x = torch.compile(programs.dropped), torch.randn(6, 5, device="cuda")
    for _ in range(4):
        compiled(x)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y = compiled(x)
    cuda.manual_seed(5)
    graph.replay()
    first = y.clone()
    graph.replay()
    assert not torch.equal(first, y)
    cuda.manual_seed(5)
    assert torch.equal(programs.dropped(x), first)


def test_errors_of_kernels_are_told():
    def f(places, table):
        return F.embedding(places, table) * 2

    compiled, table = torch.compile(f), torch.randn(4, 3, device="cuda")
    good, bad = torch.tensor([1, 2], device="cuda"), torch.tensor([1, 9], device="cuda")
    for _ in range(4):
        compiled(good, table)
    with pytest.raises(IndexError, match="index out of range"):
        compiled(bad, table).cpu()
    assert torch.equal(compiled(good, table), f(good, table))


def test_functions_of_python_can_be_kernels():
    told = []
    kernel = kernels.python_kernel("told", lambda *words: told.append(words))
    assert kernel(b"", 3, 4) is None and told == [(b"", 3, 4)]
    fails = kernels.python_kernel("fails", lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        fails()


def test_settings_of_products_are_looked_at():
    x = torch.randn(8, 8, device="cuda")
    compiled = torch.compile(lambda x: x @ x)
    _, tapes = tapes_of(lambda: [compiled(x) for _ in range(6)])
    made = sum(t.graphs.made for t in tapes)
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        for _ in range(4):
            compiled(x)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    assert sum(t.graphs.made for t in tapes) > made


def test_seeds_for_libraries_are_drawn_anew():
    device = torch.device("cuda", 0)
    run = recording.Recording([], device)
    cuda.manual_seed(11)
    words = run.run(lambda: cuda_sampling.seed_words(device, 16) + 0)
    place, tape = run.find(words), run.tape(list(range(len(run.fresh))), {})
    for k in range(3):
        outs = [torch.empty(2, dtype=torch.int64, device=device) for _ in run.fresh]
        assert tape.replay(*outs, tape.gpu.arena.memory) is None
        assert outs[place.base].tolist() == [11, 16 * k]
    cuda.manual_seed(-3)
    assert cuda_sampling.seed_words(device, 16).tolist() == [-3, 0]


def test_several_threads():
    compiled, wrong = torch.compile(programs.normalised), []

    def work(seed):
        x = torch.randn(6, 5, device="cuda")
        expected = programs.normalised(x)
        cuda.synchronize()  # before another stream reads it
        with cuda.stream(cuda.Stream() if seed % 2 else cuda.default_stream()):
            for _ in range(15):
                found = compiled(x)
                cuda.synchronize()
                wrong.extend([seed] if not torch.equal(found, expected) else [])

    for _ in range(4):
        compiled(torch.randn(6, 5, device="cuda"))
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_cannot_be_captured_is_launched(monkeypatch):
    def refuse(*given):
        raise RuntimeError("CUDA error: operation not permitted")

    monkeypatch.setattr(on_gpus, "TapeGraph", refuse)
    compiled, x = torch.compile(programs.normalised), torch.randn(6, 5, device="cuda")
    results, tapes = tapes_of(lambda: [compiled(x) for _ in range(8)])
    assert all(torch.equal(r, programs.normalised(x)) for r in results)
    assert len(tapes) == 1 and not tapes[0].graphs.graphs


def test_results_that_are_kept():
    torch.manual_seed(2)
    plain = programs.Mlp().to("cuda")
    net, x, target = copy.deepcopy(plain), programs.drawn(8, 12)(), programs.classes(4, 8)()

    def losses(net, compiled):
        step = programs.training(net, torch.optim.SGD(net.parameters(), 0.1))
        step = torch.compile(step) if compiled else step
        cuda.manual_seed(3)
        return [step(x, target) for _ in range(30)]

    expected = losses(plain, False)
    found, tapes = tapes_of(lambda: losses(net, True))
    assert same(found, expected) and len({loss.data_ptr() for loss in found}) == 30
    assert len(tapes) == 2 and all(t.graphs.hits > 8 for t in tapes)


def deep(x, weights):
    """Results that the way back needs, of which some are results of the program, too."""
    kept = []
    for w in weights:
        x = F.layer_norm(x, (x.shape[-1],), w).tanh()
        kept.append(x)
    return x.square().sum(), kept[1]


def gradients_of(function, x, weights, twice=False):
    loss, middle = function(x, weights)
    found = []
    if twice:
        found += torch.autograd.grad(loss + middle.sum(), weights, retain_graph=True)
    found += torch.autograd.grad(loss + middle.sum(), weights)
    return [middle, *found]


def peak_of(action):
    """Bytes that it takes at most."""
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    action()
    return cuda.max_memory_allocated() - before


def test_temporaries_lie_in_memory_that_is_not_needed_any_more():
    """Nor does that spoil results, or the way back for who goes there again."""
    torch.manual_seed(5)
    x = torch.randn(1100, 256, device="cuda")
    weights = [torch.randn(256, device="cuda").requires_grad_() for _ in range(6)]
    compiled = torch.compile(deep)
    for twice in (False, True):
        expected = gradients_of(deep, x, weights, twice)
        for _ in range(CALLS):
            assert same(expected, gradients_of(compiled, x, weights, twice))


def test_compiled_programs_take_no_more_memory():
    torch.manual_seed(6)
    x = torch.randn(1100, 256, device="cuda")
    weights = [torch.randn(256, device="cuda").requires_grad_() for _ in range(6)]
    plain = peak_of(lambda: gradients_of(deep, x, weights))
    compiled = torch.compile(deep)
    # as it is, recorded, one by one, as a graph
    assert all(peak_of(lambda: gradients_of(compiled, x, weights)) <= 1.1 * plain for _ in range(5))
