"""Backends' configs as data, what graphs quantization makes of them, granularities, older names."""

import pytest

import flambeau as torch
import flambeau.ao.nn.intrinsic as nni
import flambeau.ao.nn.qat as nnqat
import flambeau.ao.nn.quantized as nnq
import flambeau.ao.nn.quantized.functional as qF
from flambeau import nn
from flambeau.ao import quantization as q
from flambeau.ao.quantization import backend_config as bc
from flambeau.ao.quantization.quantize_fx import convert_fx, fuse_fx, prepare_fx, prepare_qat_fx

INT8 = bc.DTypeConfig(torch.quint8, torch.quint8, torch.qint8, torch.float)
HALF = bc.DTypeConfig(torch.float16, torch.float, is_dynamic=True)
NARROW = bc.DTypeConfig(
    bc.DTypeWithConstraints(torch.quint8, 0, 63), bc.DTypeWithConstraints(torch.quint8, 0, 63)
)


@pytest.mark.parametrize("config", [INT8, HALF, NARROW])
def test_dtype_configs_as_dicts(config):
    assert bc.DTypeConfig.from_dict(config.to_dict()) == config
    assert config.input_dtype is config.input_dtype_with_constraints.dtype


def test_plain_dtypes_have_no_constraints():
    made = bc.DTypeConfig.from_dict({"input_dtype": torch.quint8})
    assert made == bc.DTypeConfig(bc.DTypeWithConstraints(torch.quint8))
    assert made.to_dict() == {"input_dtype": bc.DTypeWithConstraints(torch.quint8)}


def linear_relu():
    return (
        bc.BackendPatternConfig((nn.Linear, nn.ReLU))
        .set_observation_type(bc.ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT)
        .add_dtype_config(INT8)
        .set_root_module(nn.Linear)
        .set_qat_module(nnqat.Linear)
        .set_fused_module(nni.LinearReLU)
        .set_fuser_method(lambda is_qat, linear, relu: nni.LinearReLU(linear, relu))
    )


def test_pattern_configs_as_dicts():
    config = linear_relu()
    facts = config.to_dict()
    assert facts["pattern"] == (nn.Linear, nn.ReLU) and facts["qat_module"] is nnqat.Linear
    assert "reference_quantized_module_for_root" not in facts
    assert bc.BackendPatternConfig.from_dict(facts).to_dict() == facts
    with pytest.raises(ValueError, match="Expected a list of DTypeConfigs in"):
        bc.BackendPatternConfig.from_dict({"pattern": nn.Linear, "dtype_configs": [4]})


def test_backend_configs_as_dicts():
    backend = bc.BackendConfig("mine").set_backend_pattern_config(linear_relu())
    assert list(backend._pattern_complex_format_to_config) == [(nn.ReLU, nn.Linear)]
    again = bc.BackendConfig.from_dict(backend.to_dict())
    assert again.name == "mine" and again.to_dict() == backend.to_dict()
    with pytest.raises(ValueError, match="to be a list of"):
        bc.BackendConfig.from_dict({"configs": [3]})


@pytest.mark.parametrize(
    ("name", "count"),
    [("native", 194), ("fbgemm", 192), ("qnnpack", 190), ("executorch", 84), ("tensorrt", 149)],
)
def test_backends_have_pytorchs_patterns(name, count):
    backend = getattr(bc, f"get_{name}_backend_config")()
    assert (backend.name, len(backend.configs)) == (name, count)
    found = {c.pattern: c for c in backend.configs}
    assert found[torch.add]._num_tensor_args_to_observation_type[1].value == 1
    assert found[nn.Linear].qat_module is nnqat.Linear


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
        self.linear, self.last = nn.Linear(8, 4), nn.Sigmoid()

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.last(self.linear(x.flatten(1)))


def quantized(config, mapping=None):
    torch.manual_seed(0)
    model, x = Small().eval(), torch.rand(2, 1, 4, 4)
    mapping = mapping or q.get_default_qconfig_mapping("fbgemm")
    ready = prepare_fx(model, mapping, (x,), backend_config=config)
    ready(x)
    return convert_fx(ready, backend_config=config), model(x), x


def test_the_native_backend():
    made, expected, x = quantized(bc.get_native_backend_config())
    assert isinstance(made.conv, nnq.Conv2d) and isinstance(made.linear, nnq.Linear)
    torch.testing.assert_close(made(x), expected, atol=0.02, rtol=0)


def test_only_what_a_backend_has_is_quantized():
    linear = bc.BackendPatternConfig(nn.Linear).add_dtype_config(INT8)
    config = bc.BackendConfig("linear").set_backend_pattern_config(linear)
    made, expected, x = quantized(config.to_dict())
    assert type(made.conv) is nn.Conv2d and isinstance(made.linear, nnq.Linear)
    torch.testing.assert_close(made(x), expected, atol=0.02, rtol=0)


def test_dtypes_that_a_backend_has_not_stay_floats():
    linear = bc.BackendPatternConfig(nn.Linear).add_dtype_config(NARROW)
    made, _, _ = quantized(bc.BackendConfig("narrow").set_backend_pattern_config(linear))
    assert type(made.linear) is nn.Linear


def test_ops_without_a_quantized_one_run_between_floats():
    bare = bc.DTypeConfig(torch.quint8, torch.quint8)
    sigmoid = bc.BackendPatternConfig(nn.Sigmoid).add_dtype_config(bare)
    config = bc.BackendConfig("mine").set_backend_pattern_config(sigmoid)
    mapping = q.QConfigMapping().set_global(q.get_default_qconfig("fbgemm"))
    made, expected, x = quantized(config, mapping)
    ops = [node.target for node in made.graph.nodes if node.op.startswith("call")]
    assert ops[-4:] == ["dequantize", "last", torch.quantize_per_tensor, "dequantize"]
    torch.testing.assert_close(made(x), expected, atol=0.02, rtol=0)


def test_a_backend_says_what_fuses():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return nn.functional.relu(self.linear(x))

    seen = []

    def fuser(is_qat, linear, relu):
        seen.append((is_qat, type(linear), type(relu)))
        return nni.LinearReLU(linear, relu)

    pattern = bc.BackendPatternConfig((nn.Linear, nn.functional.relu)).set_fuser_method(fuser)
    config = bc.BackendConfig("mine").set_backend_pattern_config(pattern)
    assert isinstance(fuse_fx(Net().eval(), backend_config=config).linear, nni.LinearReLU)
    assert seen == [(False, nn.Linear, nn.ReLU)]
    assert type(fuse_fx(Net().eval(), backend_config=bc.BackendConfig()).linear) is nn.Linear


def test_a_backend_says_what_trains():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return self.linear(x)

    pattern = bc.BackendPatternConfig(nn.Linear).add_dtype_config(INT8)
    config = bc.BackendConfig("mine").set_backend_pattern_config(pattern)
    mapping = q.get_default_qat_qconfig_mapping("fbgemm")
    x = torch.rand(3, 2)
    made = prepare_qat_fx(Net().train(), mapping, (x,), backend_config=config)
    assert type(made.linear) is nn.Linear
    pattern.set_qat_module(nnqat.Linear)
    made = prepare_qat_fx(Net().train(), mapping, (x,), backend_config=config)
    assert type(made.linear) is nnqat.Linear
    made(x).sum().backward()
    assert made.linear.weight.grad is not None


# -- granularities ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("granularity", "block"),
    [
        (q.PerTensor(), (8, 16)),
        (q.PerAxis(1), (8, 1)),
        (q.PerGroup(4), (1, 4)),
        (q.PerRow(), (1, 16)),
        (q.PerToken(), (1, 16)),
    ],
)
def test_block_sizes(granularity, block):
    assert q.get_block_size((8, 16), granularity) == block


def test_block_sizes_that_are_not_known():
    with pytest.raises(ValueError, match="Unsupported Granularity: PerBlock"):
        q.get_block_size((8, 16), q.PerBlock((1, 4)))
    with pytest.raises(AssertionError, match="provide an instance of Granularity"):
        q.get_block_size((8, 16), q.PerRow)
    with pytest.raises(AssertionError, match="Expecting input shape dim to be 2"):
        q.get_block_size((2, 8, 16), q.PerGroup(4))


def test_observers_of_blocks():
    class Own(q.AffineQuantizedObserverBase):
        def forward(self, input):
            self.block_size = q.get_block_size(input.shape, self.granularity)
            return input

        def calculate_qparams(self):
            return torch.ones(1), torch.zeros(1)

    observer = Own.with_args(eps=3.0)(q.MappingType.SYMMETRIC, torch.int8, q.PerAxis(0))
    observer(torch.rand(2, 3))
    assert (observer.block_size, observer.eps) == ((1, 3), 3.0)
    with pytest.raises(TypeError, match="abstract"):
        q.AffineQuantizedObserverBase(q.MappingType.SYMMETRIC, torch.int8, q.PerTensor())


# -- older names -----------------------------------------------------------------------------------


def test_quantized_functions_of_torch():
    x = torch.quantize_per_tensor(torch.arange(16.0).reshape(2, 2, 2, 2), 1.5, 3, torch.quint8)
    normed = torch.quantized_batch_norm(
        x, torch.ones(2), torch.zeros(2), torch.ones(2), torch.ones(2), 0.0, 0.2, 2
    )
    assert normed.q_scale() == pytest.approx(0.2) and normed[0, 0, 0, 0].item() == pytest.approx(
        -0.4
    )
    assert torch.quantized_max_pool2d(x, [2, 2]).int_repr().flatten().tolist() == [5, 8, 10, 13]
    assert torch.quantized_max_pool1d(x[0], [2]).shape == (2, 2, 1)
    with pytest.raises(RuntimeError, match="Weight must be provided"):
        torch.quantized_batch_norm(x, None, None, torch.ones(2), torch.ones(2), 0.0, 0.2, 2)
    with pytest.raises(NotImplementedError, match="Could not run 'aten::quantized_max_pool1d'"):
        torch.quantized_max_pool1d(torch.rand(1, 4), [2])


def test_older_resizing():
    x = torch.quantize_per_tensor(torch.rand(1, 2, 4, 4), 0.1, 3, torch.quint8)
    for function in (qF.upsample, qF.upsample_bilinear, qF.upsample_nearest):
        with pytest.warns(UserWarning, match=f"nn.quantized.functional.{function.__name__} is"):
            assert function(x, scale_factor=2).shape == (1, 2, 8, 8)
    volume = torch.quantize_per_tensor(torch.rand(1, 2, 4, 4, 4), 0.1, 3, torch.quint8)
    assert qF.adaptive_avg_pool3d(volume, 2).shape == (1, 2, 2, 2, 2)
    with pytest.raises(ValueError, match="must be quantized"):
        qF.adaptive_avg_pool3d(torch.rand(1, 2, 4, 4, 4), 2)


def test_quantized_operators_of_functions():
    assert q.get_quantized_operator(nn.functional.elu) is torch.ops.quantized.elu
    with pytest.raises(AssertionError, match="does not have corresponding quantized op"):
        q.get_quantized_operator(torch.add)
    assert q.get_combined_dict({1: 2}, {1: 3, 4: 5}) == {1: 3, 4: 5}
