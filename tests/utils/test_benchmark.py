"""torch.utils.benchmark: statistics and tables by recorded texts, timers by a clock of our own."""

import pytest

import flambeau
from flambeau.utils import benchmark, collect_env


def measured(raw, number=100, package=benchmark, **words):
    task = package.TaskSpec(words.pop("stmt", "x + y"), words.pop("setup", "pass"), **words)
    return package.Measurement(number, raw, task)


def batched(package=benchmark):
    found = []
    for threads in (1, 4):
        for size in ("[1, 1]", "[64, 64]"):
            for name, factor in (("mul/sum", 1), ("bmm", 3.3)):
                step = 1e-4 * factor * (1 + len(size) * 0.7)
                times = [step * (1 + 0.01 * k) for k in range(8)]
                words = {"label": "Batched dot", "sub_label": size, "description": name}
                found.append(measured(times, package=package, num_threads=threads, **words))
    return found


TEXTS = {
    "plain": """[---------- Batched dot ----------]
                |  mul/sum  |  bmm·
1 threads: ------------------------
      [1, 1]    |    5.4    |  17.8
      [64, 64]  |    6.8    |  22.5
4 threads: ------------------------
      [1, 1]    |    5.4    |  17.8
      [64, 64]  |    6.8    |  22.5

Times are in microseconds (us).
""",
    "trimmed": """[--------- Batched dot ----------]
                |  mul/sum  |  bmm
1 threads: -----------------------
      [1, 1]    |    5.4    |   18
      [64, 64]  |    6.8    |   23
4 threads: -----------------------
      [1, 1]    |    5.4    |   18
      [64, 64]  |    6.8    |   23

Times are in microseconds (us).
""",
    "envs": """[---------------- A ----------------]
           |        d1        |   d2·
1 threads: --------------------------
  (E1)  s  |  2750.0 (! 64%)  |······
  (E2)  s  |                  |  10.0

Times are in microseconds (us).
(! XX%) Measurement has high variance, where XX is the IQR / median * 100.
""",
    "measurement": """L: S
D
setup:
  a = 1
  b = 2

  Median: 11.50 us
  IQR:    10.75 us (10.75 to 21.50)
  4 measurements, 100 runs per measurement, 4 threads
  WARNING: Interquartile range is 93.5% of the median measurement.
           This suggests significant environmental influence.""",
    "single": """stmt:
  a
  b

  10.00 us
  1 measurement, 100 runs , 1 thread""",
}


def said(name, package):
    if name in ("measurement", "single"):
        spread = [1e-3, 1.1e-3, 1.2e-3, 5e-3]
        words = {"label": "L", "sub_label": "S", "description": "D", "num_threads": 4}
        setup = {"setup": "a = 1\nb = 2"}
        found = measured(spread, package=package, **words, **setup)
        if name == "single":
            found = measured([1e-3], package=package, stmt="a\nb")
        return repr(found).partition("\n")[2]
    if name == "envs":
        times = [0.1 * (1 + 0.5 * k) for k in range(8)]
        words = {"package": package, "label": "A", "sub_label": "s"}
        one = measured(times, description="d1", env="E1", **words)
        table = package.Compare([one, measured([1e-3] * 3, description="d2", env="E2", **words)])
        table.highlight_warnings()
    else:
        table = package.Compare(batched(package))
        if name == "trimmed":
            table.trim_significant_figures()
    return str(table)


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_as_recorded(name):
    assert said(name, benchmark) == TEXTS[name].replace("·", " ")


@pytest.mark.oracle
@pytest.mark.parametrize("name", TEXTS)
def test_recorded_texts_are_those_of_pytorch(name):
    package = pytest.importorskip("torch.utils.benchmark")
    assert said(name, package) == TEXTS[name].replace("·", " ")


@pytest.mark.parametrize(
    "factor, shade",
    list(zip((1, 1.1, 1.9, 3, 5), ("[92m|[1m", "[34m|[1m", "", "[2m|[91m", "[31m|[1m"))),
)
def test_colours_say_how_far_from_the_best(factor, shade):
    one = measured([1e-3] * 4, description="a", sub_label="p")
    other = measured([factor * 1e-3] * 4, description="a", sub_label="q")
    table = benchmark.Compare([one, other])
    table.colorize()
    cell = f"{factor * 10:.1f}"
    shade = "".join(f"\033{part}" for part in shade.split("|") if part)
    last = str(table).splitlines()[4]
    assert last == f"      q  |  {shade}{cell}" + ("\033[0m\033[0m" if shade else "")


def test_units_and_figures():
    assert [benchmark.select_unit(t)[0] for t in (3e-9, 9.9e-7, 1e-6, 1e-3, 0.5, 1, 1e5)] == [
        *("ns", "ns", "us", "ms", "ms", "s", "s")
    ]
    assert [benchmark.trim_sigfig(x, n) for x, n in ((1234.567, 3), (99999, 1), (-12.34, 2))] == [
        *(1230.0, 100000.0, -12.0)
    ]
    merged = benchmark.Measurement.merge([measured([1e-3]), measured([3e-3])])
    assert len(merged) == 1 and merged[0].times == pytest.approx([1e-5, 3e-5])


def ticking(per_run):
    """A clock by which each run of `tick()` takes so many seconds."""
    now = [0.0]

    def tick():
        now[0] += per_run

    return {"timer": lambda: now[0], "globals": {"tick": tick}}


def test_timers_count_runs():
    timer = benchmark.Timer("tick()", label="L", **ticking(1e-4))
    found = timer.timeit(30)
    assert found.median == pytest.approx(1e-4) and found.number_per_run == 30
    assert found.task_spec.label == "L"
    blocked = timer.blocked_autorange(min_run_time=0.05)
    assert sum(blocked.raw_times) >= 0.05 and blocked.median == pytest.approx(1e-4)
    adaptive = timer.adaptive_autorange(min_run_time=0.01, max_run_time=1)
    assert len(adaptive.raw_times) > 3 and adaptive.meets_confidence()


@pytest.mark.parametrize(
    "words, kind, text",
    [
        ({"stmt": 5}, ValueError, "Currently only a `str` stmt is supported."),
        ({"language": "zz"}, ValueError, "Invalid language `zz`."),
        ({"global_setup": "a"}, ValueError, "global_setup is C.. only, got `a`."),
    ],
)
def test_timers_refuse(words, kind, text):
    with pytest.raises(kind, match=text):
        benchmark.Timer(**words)


def test_threads_are_those_of_the_task():
    seen, before = [], flambeau.get_num_threads()
    names = {"look": lambda: seen.append(flambeau.get_num_threads())}
    benchmark.Timer("look()", globals=names, num_threads=2).timeit(1)
    assert set(seen) == {2} and flambeau.get_num_threads() == before


def test_fuzzed_inputs_satisfy_what_is_asked():
    parameter, tensor = benchmark.FuzzedParameter, benchmark.FuzzedTensor
    parameters = [
        parameter("n", 2, 8, distribution="uniform"),
        parameter("m", 4, 64, distribution="loguniform"),
        parameter("k", distribution={benchmark.ParameterAlias("n"): 0.5, 1: 0.5}),
    ]
    tensors = [
        tensor("x", ("n", "m"), min_elements=20, max_elements=300),
        tensor("y", ("k", "n"), steps=(1, 2), probability_contiguous=0),
    ]
    fuzzer = benchmark.Fuzzer(parameters, tensors, [lambda params: params["n"] > 3], seed=1)
    for found, known, params in fuzzer.take(20):
        n, m, k = params["n"], params["m"], params["k"]
        assert 3 < n <= 8 and 4 <= m <= 64 and k in (1, n)
        assert found["x"].shape == (n, m) and 20 <= n * m <= 300
        assert found["y"].shape == (k, n) and known["y"]["numel"] == k * n
        assert known["x"]["is_contiguous"] == found["x"].is_contiguous()
    assert 0 < fuzzer.rejection_rate < 1
    again = [params for _, _, params in fuzzer.take(20)]
    assert again == [params for _, _, params in fuzzer.take(20)]
    with pytest.raises(AssertionError, match="Unknown distribution: zz"):
        parameter("k", 1, 2, distribution="zz")


def test_fuzzed_sparse_tensors_have_their_density():
    parameters = [benchmark.FuzzedParameter("n", 4, 9, distribution="uniform")]
    parameters.append(benchmark.FuzzedParameter("d", 0.2, 0.8, distribution="uniform"))
    sparse = benchmark.FuzzedSparseTensor("x", ("n", "n"), density="d")
    for found, known, params in benchmark.Fuzzer(parameters, [sparse], seed=3).take(3):
        assert found["x"].layout is flambeau.sparse_coo
        assert known["x"]["density"] == pytest.approx(params["d"], abs=1 / 16)


def test_reports_say_what_is_installed():
    text = collect_env.get_pretty_env_info()
    assert f"flambeau {flambeau.__version__}" in text and "[pip3] numpy==" in text
    assert text.startswith("PyTorch version: 2.13")
