"""Random numbers of GPUs: Philox against plain Python, PyTorch's known numbers, states, errors."""

import math
import os
import shutil
import subprocess

import pytest

import flambeau
from flambeau.codegen import llvm_gpu, target
from flambeau.codegen.gpu import philox as builders
from flambeau.eager.cuda_sampling import THREADS, most_groups

WORD = (1 << 32) - 1


def philox(call, thread, seed):
    """The four words of a draw, written down once more."""
    x, y, z, w = call & WORD, call >> 32, thread, 0
    key, upper = seed & WORD, seed >> 32
    for turn in range(10):
        if turn:
            key, upper = (key + 0x9E3779B9) & WORD, (upper + 0xBB67AE85) & WORD
        first, second = x * 0xD2511F53, z * 0xCD9E8D57
        x, y, z, w = (
            (second >> 32) ^ y ^ key,
            second & WORD,
            (first >> 32) ^ w ^ upper,
            first & WORD,
        )
    return x, y, z, w


def places(count, each=4):
    """(thread, call, word) of every element of a fill."""
    runtime = flambeau.device("cuda").runtime
    threads = THREADS * min((count + THREADS - 1) // THREADS, most_groups(runtime))
    return [(i % threads, i // threads // each, i // threads % each) for i in range(count)]


def float32(value):
    return flambeau.tensor(value, dtype=flambeau.float64).float().item()


def test_known_words():
    assert philox(0, 0, 0) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)


@pytest.mark.parametrize("count", [1, 5, 1000, 40000])
@pytest.mark.parametrize("seed", [0, 7, (5 << 32) + 3])
def test_uniform_numbers_are_those_of_the_threads(count, seed):
    flambeau.manual_seed(seed)
    flambeau.rand(1, device="cuda")  # the offset is 4 from now on
    found, where = flambeau.rand(count, device="cuda").tolist(), places(count)
    for k in range(0, count, max(count // 50, 1)):
        thread, call, word = where[k]
        wanted = float32((philox(1 + call, thread, seed)[word] + 0.5) * 2.0**-32)
        assert found[k] == pytest.approx(wanted if wanted < 1 else 0, rel=1e-6), k


# What PyTorch gives for torch.manual_seed(0) on any GPU, as programs all over the world print it.
KNOWN = {
    "rand": [0.3990, 0.5167, 0.0249, 0.9401, 0.9459, 0.7967, 0.4150],
    "randn": [-0.9247, -0.4253, -2.6438, 0.1452, -0.1209],
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_numbers(name):
    flambeau.manual_seed(0)
    found = getattr(flambeau, name)(len(KNOWN[name]), device="cuda").tolist()
    assert found == pytest.approx(KNOWN[name], abs=6e-5)


DRAWS = {
    "normal_": ((1.0, 2.0), lambda x: (x.mean() - 1, 0.1)),
    "uniform_": ((-1.0, 3.0), lambda x: (x.mean() - 1, 0.1)),
    "exponential_": ((2.0,), lambda x: (x.mean() - 0.5, 0.05)),
    "cauchy_": ((1.0, 1.0), lambda x: (x.median() - 1, 0.1)),
    "log_normal_": ((0.0, 0.5), lambda x: (x.log().mean(), 0.05)),
    "geometric_": ((0.25,), lambda x: (x.mean() - 4, 0.3)),
    "bernoulli_": ((0.3,), lambda x: (x.mean() - 0.3, 0.05)),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_distributions(name, dtype):
    arguments, distance = DRAWS[name]
    flambeau.manual_seed(1)
    x = flambeau.empty(10000, device="cuda", dtype=getattr(flambeau, dtype))
    getattr(x, name)(*arguments)
    found, most = distance(x.double().cpu())
    assert abs(found.item()) < most


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float32", "bool"])
def test_integers(dtype):
    dtype = getattr(flambeau, dtype)
    x = flambeau.randint(0, 2, (1000,), device="cuda", dtype=dtype)
    assert sorted(set(x.cpu().double().tolist())) == [0, 1]
    wide = flambeau.randint(-(2**61), 2**61, (100,), device="cuda")
    assert wide.abs().max().item() > 2**55


@pytest.mark.parametrize("n", [0, 1, 10, 5000])
def test_permutations(n):
    found = flambeau.randperm(n, device="cuda")
    assert sorted(found.tolist()) == list(range(n))


def test_choices():
    weights = flambeau.tensor([[0.0, 1.0, 3.0], [1.0, 0.0, 0.0]], device="cuda")
    found = flambeau.multinomial(weights, 1000, replacement=True).cpu()
    assert set(found[1].tolist()) == {0} and set(found[0].tolist()) == {1, 2}
    assert abs((found[0] == 2).float().mean().item() - 0.75) < 0.06
    assert sorted(flambeau.multinomial(weights[0], 2).tolist()) == [1, 2]


@pytest.mark.parametrize("shape", [(7,), (10,), (4096,), (64, 64)])
def test_dropout(shape):
    flambeau.manual_seed(3)
    x = flambeau.ones(shape, device="cuda", requires_grad=True)
    y = flambeau.nn.functional.dropout(x, 0.25)
    y.sum().backward()
    assert flambeau.equal(x.grad, y.detach())
    assert set(y.tolist() if len(shape) == 1 else y.flatten().tolist()) <= {0, float32(1 / 0.75)}
    flambeau.manual_seed(3)
    assert flambeau.equal(flambeau.nn.functional.dropout(x, 0.25), y)


def test_states():
    g = flambeau.Generator("cuda").manual_seed(5)
    assert (g.device.type, g.initial_seed(), g.get_offset()) == ("cuda", 5, 0)
    flambeau.rand(3, device="cuda", generator=g)
    state = g.get_state()
    assert state.tolist() == [5, *[0] * 7, 4, *[0] * 7]  # seed and offset, as PyTorch saves them
    before = flambeau.randn(5, device="cuda", generator=g)
    g.set_state(state)
    assert flambeau.equal(before, flambeau.randn(5, device="cuda", generator=g))
    saved = flambeau.cuda.get_rng_state()
    one = flambeau.rand(4, device="cuda")
    flambeau.cuda.set_rng_state(saved)
    assert flambeau.equal(one, flambeau.rand(4, device="cuda"))
    with flambeau.random.fork_rng():
        flambeau.rand(9, device="cuda")
    flambeau.cuda.set_rng_state(saved)
    assert flambeau.equal(one, flambeau.rand(4, device="cuda"))


def test_generators_of_other_devices_are_refused():
    for place, other in (("cuda", "cpu"), ("cpu", "cuda")):
        with pytest.raises(RuntimeError, match=f"Expected a '{place}' device type for generator"):
            flambeau.rand(2, device=place, generator=flambeau.Generator(other))


def test_normal_numbers_are_box_and_mullers():
    flambeau.manual_seed(11)
    found = flambeau.randn(600, device="cuda").tolist()
    for k in (0, 3, 599):
        thread, call, word = places(600)[k]
        words = philox(call, thread, 11)
        a, b = words[word // 2 * 2 : word // 2 * 2 + 2]
        length = math.sqrt(-2 * math.log((a + 0.5) / 2**32))
        angle = (b + 0.5) / 2**32 * 2 * math.pi
        assert found[k] == pytest.approx((math.sin, math.cos)[word % 2](angle) * length, abs=1e-4)


KERNELS = [
    ("fill", "uniform", "f32"),
    ("fill", "normal", "f32"),
    ("fill", "normal", "f64"),
    ("fill", "log_normal", "bf16"),
    ("fill", "exponential", "f16"),
    ("fill", "cauchy", "f32"),
    ("fill", "geometric", "i64"),
    ("fill", "bernoulli", "bool"),
    ("random", "i64", True),
    ("random", "f16", False),
    ("bernoulli_from", "f32", "f32"),
    ("dropout", "f16", 8, True),
    ("dropout", "f32", 1, False),
    ("first", "f32"),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: "-".join(map(str, k)))
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_kernels_assemble(kernel, architecture, tmp_path):
    name, *key = kernel
    with target.building_for(llvm_gpu.ptx_target):
        text = getattr(builders, f"build_{name}")(*key)
    ptx = llvm_gpu.ptx(text.partition(llvm_gpu.SPLIT)[0], architecture)
    assert ".entry kernel" in ptx and ".extern" not in ptx
    if shutil.which("ptxas"):
        (tmp_path / "kernel.ptx").write_text(ptx)
        command = ["ptxas", f"-arch={architecture}", tmp_path / "kernel.ptx", "-o", os.devnull]
        found = subprocess.run(command, capture_output=True, text=True)
        assert not found.returncode, found.stderr
