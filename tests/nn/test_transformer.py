"""Transformers: text, weights, outputs, gradients, masks, padding, errors."""

import math
import pickle

import numpy as np
import pytest

import flambeau
from flambeau import nn
from tests.nn import case_checks as checks
from tests.nn.transformer_cases import CASES, ERRORS

GOLDEN = checks.recorded("nn_transformer.json")


@pytest.mark.parametrize("case", CASES)
def test_a_module_is_as_recorded(case):
    checks.check_recorded(flambeau, case, GOLDEN["cases"][case], scale=1e-4)


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES)
def test_a_module_is_as_in_pytorch(case):
    checks.check_pytorch(flambeau, pytest.importorskip("torch"), case, rtol=2e-4, atol=3e-5)


@pytest.mark.parametrize("case", CASES)
def test_copies_do_the_same(case):
    checks.check_copies(flambeau, case)


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES[::4])
def test_states_are_exchanged(case):
    checks.check_exchange(flambeau, pytest.importorskip("torch"), case)


@pytest.mark.parametrize("call", ERRORS)
def test_a_bad_call_is_refused_as_recorded(call):
    assert checks.refusal(flambeau, call) == GOLDEN["errors"][call]


def test_the_causal_mask():
    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=flambeau.float64)
    low = -math.inf
    assert mask.tolist() == [[0, low, low], [0, 0, low], [0, 0, 0]]
    assert mask.dtype is flambeau.float64


def layer(**options):
    return nn.TransformerEncoderLayer(4, 2, 6, 0.0, batch_first=True, **options).double()


def test_nothing_looks_at_what_comes_later():
    model = nn.TransformerEncoder(layer(), 2)
    x = flambeau.randn(1, 5, 4, dtype=flambeau.float64)
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=flambeau.float64)
    before = model(x, mask)
    x[:, 3:] += 1
    after = model(x, mask)
    np.testing.assert_allclose(after[:, :3].tolist(), before[:, :3].tolist(), rtol=1e-12)
    assert (after[:, 3:] != before[:, 3:]).all().item()


def test_padding_changes_nothing_elsewhere():
    model = nn.TransformerEncoder(layer(), 2).eval()
    x = flambeau.randn(2, 5, 4, dtype=flambeau.float64)
    padding = flambeau.tensor([[False] * 5, [False, False, False, True, True]])
    out = model(x, src_key_padding_mask=padding)
    short = model(x[1:, :3])
    np.testing.assert_allclose(out[1:, :3].tolist(), short.tolist(), rtol=1e-10)
    with flambeau.no_grad():  # as PyTorch does where it leaves padding out
        empty = model(x, src_key_padding_mask=padding)
    assert empty[1, 3:].abs().sum().item() == 0
    np.testing.assert_allclose(empty[0].tolist(), out[0].tolist(), rtol=1e-10)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "padding",
    [[[0, 0, 0, 0], [0, 0, 1, 1]], [[0, 0, 0, 0], [0, 1, 0, 1]], [[0, 0, 0, 0], [1, 1, 0, 0]]],
)
@pytest.mark.parametrize("with_norm", [False, True])
@pytest.mark.parametrize("check", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_padding_in_inference_is_as_in_pytorch(padding, with_norm, check):
    torch = pytest.importorskip("torch")
    if not check and sorted(padding[1]) != padding[1]:
        pytest.skip("PyTorch takes the mask for aligned there")
    found = []
    for lib in (flambeau, torch):
        lib.manual_seed(4)
        part = lib.nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)
        norm = lib.nn.LayerNorm(4) if with_norm else None
        model = lib.nn.TransformerEncoder(part, 2, norm, mask_check=check).eval()
        x = lib.randn(2, 4, 4)
        with lib.no_grad():
            out = model(x, src_key_padding_mask=lib.tensor(padding).bool())
        found.append(out.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_masks_of_two_kinds_are_told():
    model = nn.TransformerEncoder(layer(), 1)
    x = flambeau.randn(1, 3, 4, dtype=flambeau.float64)
    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=flambeau.float64)
    with pytest.warns(UserWarning, match="mismatched src_key_padding_mask and mask"):
        model(x, mask, flambeau.zeros(1, 3).bool())


@pytest.mark.parametrize(
    "options, reason",
    [
        (dict(norm_first=True), "encoder_layer.norm_first was True"),
        (dict(bias=False), "encoder_layer.self_attn was passed bias=False"),
        (dict(activation=nn.functional.silu), "activation_relu_or_gelu was not True"),
    ],
)
def test_why_padding_is_not_left_out_is_told(options, reason):
    with pytest.warns(UserWarning, match=reason):
        assert not nn.TransformerEncoder(layer(**options), 1).use_nested_tensor


def test_layers_of_a_stack_are_copies():
    model = nn.TransformerEncoder(layer(), 3)
    assert len({id(p) for p in model.parameters()}) == 3 * 12
    first, second = model.layers[0], model.layers[1]
    assert first.linear1.weight.tolist() == second.linear1.weight.tolist()


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_activations_are_pickled(activation):
    model = layer(activation=activation)
    other = pickle.loads(pickle.dumps(model))
    assert other.activation is getattr(nn.functional, activation)
    state = model.__getstate__()
    del state["activation"]
    old = nn.TransformerEncoderLayer.__new__(nn.TransformerEncoderLayer)
    old.__setstate__(state)
    assert old.activation is nn.functional.relu


def test_gradients():
    model = nn.TransformerEncoder(layer(), 1)
    x = flambeau.randn(1, 3, 4, dtype=flambeau.float64, requires_grad=True)
    assert flambeau.autograd.gradcheck(model, (x,))


def test_a_mask_that_is_said_to_be_causal_is_not_looked_at():
    attention, x = nn.MultiheadAttention(4, 2), flambeau.ones(3, 2, 4)
    odd, mask = flambeau.zeros(5, 5), nn.Transformer.generate_square_subsequent_mask(3)
    found = [
        attention(x, x, x, attn_mask=m, need_weights=False, is_causal=True)[0] for m in (odd, mask)
    ]
    assert found[0].equal(found[1])
    with pytest.raises(RuntimeError, match="The shape of the 2D attn_mask is"):
        attention(x, x, x, attn_mask=odd, is_causal=True)
