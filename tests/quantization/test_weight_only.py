"""Weights of few bits: products as those of the dequantized weight, small errors, small files."""

import copy
import io

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.quantization.weight_only import Linear, quantize_weights


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("depth", "columns"), [(128, 16), (256, 100), (64, 7), (512, 130)])
@pytest.mark.parametrize("rows", [1, 3, 6])
def test_products(bits, depth, columns, rows):
    torch.manual_seed(0)
    layer = nn.Linear(depth, columns)
    found = Linear.from_float(layer, bits, 32)
    x = torch.randn(rows, depth)
    wanted = nn.functional.linear(x, found.dequantized(), found.bias)
    assert torch.allclose(found(x), wanted, atol=1e-5)
    assert (found(x) - layer(x)).abs().max() < (0.3 if bits == 4 else 0.02)


def test_models():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.Linear(30, 4))
    found = quantize_weights(model, 4, 64, lambda module, name: name != "2")
    assert "bits=4, group_size=64" in repr(found[0])
    assert type(found[2]) is type(found[3]) is nn.Linear
    x, again = torch.randn(2, 64), copy.deepcopy(found)
    assert torch.equal(found[0](x), again[0](x))
    sizes = []
    for made in (model[0], found[0]):
        file = io.BytesIO()
        torch.save(made.state_dict(), file)
        sizes.append(len(file.getvalue()))
    assert sizes[1] < 0.3 * sizes[0]


@pytest.mark.parametrize(
    ("args", "words"),
    [((64, 8, True, 3), "only 4 and 8"), ((60, 8), "multiple of group_size")],
)
def test_refused(args, words):
    with pytest.raises(ValueError, match=words):
        Linear(*args)
