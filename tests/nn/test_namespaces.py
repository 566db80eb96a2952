"""The small namespaces of nn: grad, attention, common_types; factory_kwargs."""

import typing

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn.attention import SDPBackend, _cur_sdpa_kernel_backends, sdpa_kernel

# -- nn.grad -------------------------------------------------------------------------------------

CONVOLUTIONS = [
    # dims, input, weight, stride, padding, dilation, groups
    (1, (2, 4, 9), (6, 4, 3), 1, 0, 1, 1),
    (1, (2, 4, 10), (6, 2, 3), 2, 1, 1, 2),
    (2, (2, 4, 9, 7), (6, 4, 3, 2), 1, 0, 1, 1),
    (2, (1, 4, 9, 9), (6, 2, 3, 3), (2, 1), (1, 2), 1, 2),
    (2, (2, 3, 10, 9), (5, 3, 3, 3), 2, 2, (2, 1), 1),
    (3, (2, 4, 6, 5, 7), (6, 4, 2, 3, 2), 1, 1, 1, 1),
    (3, (1, 2, 7, 6, 5), (2, 1, 3, 2, 2), (2, 1, 1), 0, 1, 2),
]


def test_grad_is_also_reached_through_functional():
    assert nn.functional.grad is nn.grad


@pytest.mark.parametrize("dims, shape, window, options", [(*c[:3], c[3:]) for c in CONVOLUTIONS])
def test_gradients_are_those_of_autograd(dims, shape, window, options, rng):
    x = flambeau.tensor(rng.standard_normal(shape).tolist(), dtype=flambeau.float64)
    w = flambeau.tensor(rng.standard_normal(window).tolist(), dtype=flambeau.float64)
    x.requires_grad_(), w.requires_grad_()
    out = getattr(nn.functional, f"conv{dims}d")(x, w, None, *options)
    g = flambeau.tensor(rng.standard_normal(tuple(out.shape)).tolist(), dtype=flambeau.float64)
    out.backward(g)
    found = getattr(nn.grad, f"conv{dims}d_input")(x.shape, w.detach(), g, *options)
    np.testing.assert_allclose(found.numpy(), x.grad.numpy(), rtol=1e-9, atol=1e-12)
    found = getattr(nn.grad, f"conv{dims}d_weight")(x.detach(), w.shape, g, *options)
    np.testing.assert_allclose(found.numpy(), w.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.oracle
@pytest.mark.parametrize("dims, shape, window, options", [(*c[:3], c[3:]) for c in CONVOLUTIONS])
def test_gradients_are_pytorchs(dims, shape, window, options, rng):
    torch = pytest.importorskip("torch")
    x, w = rng.standard_normal(shape), rng.standard_normal(window)
    conv = getattr(torch.nn.functional, f"conv{dims}d")
    g = rng.standard_normal(tuple(conv(torch.tensor(x), torch.tensor(w), None, *options).shape))
    for kind, given in (("input", (shape, w, g)), ("weight", (x, window, g))):
        got, want = (
            getattr(lib.nn.grad, f"conv{dims}d_{kind}")(
                *[lib.tensor(v) if isinstance(v, np.ndarray) else v for v in given], *options
            )
            for lib in (flambeau, torch)
        )
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9, atol=1e-12)


def test_shapes_that_do_not_fit_are_refused():
    ones = flambeau.ones
    message = r"Expected a tensor of dimension 4 and tensor.size\[2\] == 3 but got: dimension 4"
    with pytest.raises(RuntimeError, match=message):
        nn.grad.conv2d_input((1, 1, 4, 4), ones(1, 1, 2, 2), ones(1, 1, 2, 2))
    with pytest.raises(RuntimeError, match=r"expected input\[1, 3, 4, 4\] to have 1 channels"):
        nn.grad.conv2d_weight(ones(1, 3, 4, 4), (1, 1, 2, 2), ones(1, 1, 3, 3))
    with pytest.raises(RuntimeError, match="Expected 3 dimensions, but got 4"):
        nn.grad.conv1d_input((1, 1, 4, 4), ones(1, 1, 2), ones(1, 1, 3))


# -- nn.attention --------------------------------------------------------------------------------


def test_backends_are_chosen_within_a_context():
    before = _cur_sdpa_kernel_backends()
    q = flambeau.randn(1, 2, 3, 4)
    want = nn.functional.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel(SDPBackend.MATH):
        assert _cur_sdpa_kernel_backends() == [SDPBackend.MATH]
        got = nn.functional.scaled_dot_product_attention(q, q, q)
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
            inner = _cur_sdpa_kernel_backends(with_priority=True)
            assert inner == [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]
        assert _cur_sdpa_kernel_backends() == [SDPBackend.MATH]
    assert got.tolist() == want.tolist()
    assert _cur_sdpa_kernel_backends() == before
    with pytest.raises(ZeroDivisionError), sdpa_kernel(SDPBackend.MATH):
        raise ZeroDivisionError
    assert _cur_sdpa_kernel_backends() == before


def test_backends_that_the_host_lacks_are_refused():
    cuda = flambeau.backends.cuda
    q = flambeau.ones(1, 1, 2, 4)
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        assert cuda.mem_efficient_sdp_enabled()
        assert not cuda.math_sdp_enabled()
        with pytest.raises(RuntimeError, match="No viable backend for scaled_dot_product_attent"):
            nn.functional.scaled_dot_product_attention(q, q, q)
    assert cuda.math_sdp_enabled()
    cuda.enable_math_sdp(False)
    assert SDPBackend.MATH not in _cur_sdpa_kernel_backends()
    cuda.enable_math_sdp(True)


def test_backends_have_pytorchs_names_and_numbers():
    told = "ERROR MATH FLASH_ATTENTION EFFICIENT_ATTENTION CUDNN_ATTENTION OVERRIDEABLE".split()
    assert [b.name for b in SDPBackend] == told
    assert [int(b) for b in SDPBackend] == [-1, 0, 1, 2, 3, 4]
    assert repr(SDPBackend.MATH) == "<SDPBackend.MATH: 0>"
    assert str(SDPBackend.MATH) == "SDPBackend.MATH"


@pytest.mark.parametrize("wrong", [3, (SDPBackend.MATH,), "MATH"])
def test_other_things_are_no_backends(wrong):
    message = f"Backend must be an instance of SDPBackend or a list .* got {type(wrong).__name__}"
    with pytest.raises(AssertionError, match=message), sdpa_kernel(wrong):
        pass


# -- the rest ------------------------------------------------------------------------------------


def test_types_of_arguments():
    pair = nn.common_types._size_2_t
    assert set(typing.get_args(pair)) == {int, tuple[int, int]}
    assert nn.common_types._size_any_t == int | tuple[int, ...]


@pytest.mark.oracle
def test_types_have_pytorchs_names():
    torch = pytest.importorskip("torch")
    theirs = {name for name in vars(torch.nn.common_types) if name.endswith("_t")}
    assert theirs <= set(vars(nn.common_types))


def test_factory_arguments():
    given = {"dtype": flambeau.float64, "factory_kwargs": {"device": "cpu"}}
    assert nn.factory_kwargs(given) == {"dtype": flambeau.float64, "device": "cpu"}
    assert nn.factory_kwargs(None) == {}
    with pytest.raises(TypeError, match=r"unexpected kwargs {'size'}"):
        nn.factory_kwargs({"size": 3})
    with pytest.raises(TypeError, match="dtype specified twice"):
        nn.factory_kwargs({"dtype": 1, "factory_kwargs": {"dtype": 2}})


def test_the_older_context_of_attention_names_kernels_by_flags():
    cuda = flambeau.backends.cuda
    before = _cur_sdpa_kernel_backends()
    told = pytest.warns(FutureWarning, match="sdp_kernel.* is deprecated")
    with told, cuda.sdp_kernel(enable_flash=False, enable_math=True) as nothing:
        assert nothing == {} and not cuda.flash_sdp_enabled()
        assert set(_cur_sdpa_kernel_backends()) == {
            SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH
        }  # fmt: skip
    assert _cur_sdpa_kernel_backends() == before
