"""What programs ask of devices that are not there: the answers of a PyTorch built without them."""

import pytest

import flambeau

ASKED = """
cuda.is_available() cuda.device_count() cuda.is_initialized() cuda.is_bf16_supported()
cuda.manual_seed(1) cuda.manual_seed_all(1) cuda.seed() cuda.empty_cache() cuda.memory_allocated()
cuda.max_memory_allocated() cuda.memory_reserved() cuda.memory_stats() cuda.get_rng_state_all()
cuda.get_arch_list() cuda.synchronize() cuda.current_device() cuda.get_device_name(0)
cuda.get_device_properties(0) cuda.current_stream() cuda.Stream() cuda.FloatTensor(2)
cuda.set_device('cpu') cuda.initial_seed() accelerator.is_available() accelerator.device_count()
accelerator.current_accelerator() accelerator.synchronize() accelerator.set_device_index(0)
accelerator.current_device_index() mps.is_available() mps.device_count() mps.manual_seed(3)
mps.synchronize() mps.empty_cache() xpu.is_available() xpu.device_count() xpu.synchronize()
backends.mps.is_available() backends.mps.is_built() backends.cuda.is_built()
backends.cudnn.is_available() backends.cudnn.version() backends.cudnn.enabled
backends.cudnn.benchmark backends.cudnn.deterministic backends.cudnn.allow_tf32
backends.cuda.matmul.allow_tf32 backends.cuda.flash_sdp_enabled() compiler.is_compiling()
backends.mha.get_fastpath_enabled() version.cuda version.hip
""".split()


def answer(package, question):
    try:
        return repr(eval(f"package.{question}", {"package": package}))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.oracle
@pytest.mark.parametrize("question", ASKED)
def test_answers_are_those_of_pytorch(question):
    torch = pytest.importorskip("torch")
    assert answer(flambeau, question) == answer(torch, question)


@pytest.mark.parametrize("question", ASKED)
def test_every_question_has_an_answer(question):
    assert not answer(flambeau, question).startswith(("AttributeError", "ModuleNotFoundError"))


def test_switches_are_kept():
    import flambeau.backends.cudnn as cudnn

    with cudnn.flags(benchmark=True):
        assert flambeau.backends.cudnn.benchmark
    assert not cudnn.benchmark
    with pytest.raises(AttributeError, match="no switch"):
        cudnn.benchmrak = True


def test_compile_does_what_the_function_does():
    def double(x):
        return 2 * x

    assert flambeau.compile(double)(flambeau.ones(1)).item() == 2
    assert flambeau.compile(double, disable=True) is double
    assert flambeau.compile(mode="max-autotune")(double)(flambeau.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="Either mode or options"):
        flambeau.compile(double, mode="default", options={})


def test_the_capability_of_the_processor_has_pytorchs_name():
    assert flambeau.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
