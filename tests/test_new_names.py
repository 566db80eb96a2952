"""Names that PyTorch's programs ask for now and then do what PyTorch's do."""

import pytest

import flambeau
from flambeau import __future__ as future
from flambeau.utils.module_tracker import ModuleTracker


def test_tensors_exchange_what_they_are():
    a, b = flambeau.ones(2, requires_grad=True), flambeau.zeros(3)
    names = id(a), id(b)
    flambeau.utils.swap_tensors(a, b)
    assert a.tolist() == [0, 0, 0] and not a.requires_grad
    assert b.tolist() == [1, 1] and b.requires_grad and names == (id(a), id(b))


@pytest.mark.parametrize("word", ["overwrite", "swap"])
def test_conversions_make_new_parameters_if_asked(word):
    setter = getattr(future, f"set_{word}_module_params_on_conversion")
    layer = flambeau.nn.Linear(2, 1)
    before = layer.weight
    layer(flambeau.ones(1, 2)).sum().backward()
    setter(True)
    try:
        layer.double()
    finally:
        setter(False)
    assert layer.weight.dtype is flambeau.float64 and layer.weight.grad.dtype is flambeau.float64
    assert (layer.weight is before) == (word == "swap")


def test_the_tracker_knows_the_modules_that_run():
    seen = []

    class Layer(flambeau.nn.Linear):
        def forward(self, x):
            seen.append(set(tracker.parents))
            return super().forward(x)

    model = flambeau.nn.Sequential(Layer(2, 2), Layer(2, 1))
    with ModuleTracker() as tracker:
        out = model(flambeau.ones(1, 2, requires_grad=True))
        assert not tracker.is_bw
        out.sum().backward()
        assert not tracker.is_bw
    assert seen == [{"Global", "Sequential", f"Sequential.{k}"} for k in (0, 1)]
    assert tracker.parents == {"Global"}


def test_tensors_lie_in_files(tmp_path):
    path = str(tmp_path / "numbers")
    flambeau.from_file(path, shared=True, size=3).fill_(2.5)
    private = flambeau.from_file(path, shared=False, size=3, dtype=flambeau.float32)
    private.add_(1)
    assert private.tolist() == [3.5] * 3
    assert flambeau.from_file(path, size=3).tolist() == [2.5] * 3
    with pytest.raises(RuntimeError, match="is smaller than the required mapping size"):
        flambeau.from_file(path, size=99)


def test_one_number_says_how_deterministic_kernels_must_be():
    flambeau.set_deterministic_debug_mode("warn")
    try:
        assert flambeau.get_deterministic_debug_mode() == 1
        assert flambeau.is_deterministic_algorithms_warn_only_enabled()
    finally:
        flambeau.set_deterministic_debug_mode(0)
    assert not flambeau.are_deterministic_algorithms_enabled()
    with pytest.raises(RuntimeError, match="expected one of `default`, `warn`, `error`"):
        flambeau.set_deterministic_debug_mode("loud")


def test_the_default_backend_of_compile_can_be_chosen():
    calls = []

    def backend(graph, inputs):
        calls.append(len(inputs))
        return graph.forward

    flambeau.compiler.set_default_backend(backend)
    try:
        assert flambeau.compile(lambda x: x + 1)(flambeau.ones(2)).tolist() == [2, 2]
    finally:
        flambeau.compiler.set_default_backend("inductor")
    assert calls == [1]


def test_flags_of_devices_that_are_not_here():
    x = flambeau.ones(2)
    assert not any((x.is_ipu, x.is_maia, x.is_mtia, x.is_vulkan, x.is_xla, x.is_distributed()))
    with pytest.raises(AssertionError, match="Torch not compiled with XPU enabled"):
        x.xpu()
    with flambeau.cpu.stream(flambeau.cpu.Stream()) as _:
        assert flambeau.cpu.current_stream().record_event().query()


def test_quantized_modules_may_be_imported_first():
    import subprocess
    import sys

    code = "import flambeau.ao.nn.intrinsic.quantized; import flambeau.ao.nn.quantized"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_switches_that_change_nothing():
    with flambeau.autograd.set_multithreading_enabled(False):
        x = flambeau.ones(2, requires_grad=True)
        (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]

    @flambeau.autograd.set_multithreading_enabled(True)
    def twice(a):
        return a * 2

    assert twice(2) == 4


def test_hooks_that_files_will_not_have_are_told():
    x = flambeau.ones(2, requires_grad=True)
    x.register_hook(flambeau.utils.hooks.unserializable_hook(lambda g: g))
    flambeau.utils.hooks.warn_if_has_hooks(x)
    x.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="on tensor will not be serialized"):
        flambeau.utils.hooks.warn_if_has_hooks(x)


def test_modules_of_objects_are_set():
    kind = type("Kind", (), {})
    flambeau.utils.set_module(kind, "somewhere.else")
    assert kind.__module__ == "somewhere.else"
    with pytest.raises(TypeError, match="The mod argument should be a string"):
        flambeau.utils.set_module(kind, 3)


def test_a_tracker_tells_backward_until_it_ends():
    module, seen = flambeau.nn.Linear(2, 2), []
    with ModuleTracker() as tracker:
        out = module(flambeau.ones(2))
        out.register_hook(lambda _: seen.append(tracker.is_bw))
        out.sum().backward()
        assert not tracker.is_bw and tracker.parents == {"Global"}
    assert seen == [True]
