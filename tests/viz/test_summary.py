"""The summary table: rows, totals, inputs of all kinds, and operations as PyTorch counts them."""

import re
import xml.etree.ElementTree as ET

import pytest

import flambeau as torch
from flambeau import nn, viz
from flambeau.utils.flop_counter import FlopCounterMode, register_flop_formula


def column(found, name):
    return [row.cell(name, found.total_params) for row in found.rows]


class Classifier(nn.Module):
    """A layer used twice, a parameter of its own, something frozen."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.act = nn.ReLU()
        self.fc = nn.Linear(4 * 16, 5)
        self.scale = nn.Parameter(torch.ones(1))
        self.fc.bias.requires_grad_(False)

    def forward(self, x):
        x = self.act(self.conv(x))
        return self.act(self.fc(x.flatten(1))) * self.scale


def test_rows_and_totals():
    found = viz.summary(Classifier(), (2, 1, 4, 4))
    assert [row.label for row in found.rows] == [
        "Classifier",
        "Conv2d: conv",
        "ReLU: act (x2)",
        "Linear: fc",
    ]
    assert column(found, "output_size") == ["[2, 5]", "[2, 4, 4, 4]", "[2, 4, 4, 4]", "[2, 5]"]
    assert column(found, "num_params") == ["1", "40", "--", "325"]
    assert column(found, "trainable") == ["True", "True", "--", "Partial"]
    assert column(found, "kernel_size") == ["--", "[3, 3]", "--", "--"]
    assert column(found, "mult_adds") == ["--", str(2 * 16 * 4 * 9).replace("1152", "1,152"), "--",
                                          "640"]  # fmt: skip
    assert found.total_params == 366
    assert found.trainable_params == 361
    assert found.total_mult_adds == 1152 + 640
    assert found.total_flops == 2 * found.total_mult_adds
    assert found.input_bytes == 2 * 16 * 4
    assert found.total_param_bytes == 366 * 4
    layers = 4 * 2 * 64 * 2 + 4 * 2 * 5 * 2  # conv and its relu, fc and its relu
    assert found.total_output_bytes == 2 * layers
    assert found.total_bytes == found.input_bytes + 366 * 4 + 2 * layers


def test_the_text():
    text = str(viz.summary(Classifier(), (2, 1, 4, 4)))
    lines = text.split("\n")
    assert lines[1].split() == "Layer (type: name) Output Shape Param # Mult-Adds".split()
    assert lines[4].startswith("├─Conv2d: conv ") and lines[6].startswith("└─Linear: fc ")
    assert "Total params: 366" in lines and "Non-trainable params: 5" in lines
    assert len(set(map(len, (line for line in lines if line.startswith("="))))) == 1
    assert max(map(len, lines)) == len(lines[0])
    assert repr(viz.summary(Classifier())) != ""


def test_the_table_for_notebooks():
    html = viz.summary(Classifier(), (2, 1, 4, 4))._repr_html_()
    body = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL).replace("&times;", "x")
    table = ET.fromstring(body).find("table")
    assert len(table.findall("tbody/tr")) == 4
    assert "prefers-color-scheme: dark" in html and "http" not in html


def test_verbose_prints(capsys):
    viz.summary(nn.Linear(2, 3), (1, 2), verbose=1)
    assert "Total params: 9" in capsys.readouterr().out


def test_depth_counts_in_what_it_hides():
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.Linear(3, 2))))
    full = viz.summary(model, (1, 4), depth=5)
    for depth, rows in ((0, 1), (1, 2), (2, 4), (3, 5)):
        found = viz.summary(model, (1, 4), depth=depth)
        assert len(found.rows) == rows
        assert found.total_params == full.total_params == 23
        assert found.total_mult_adds == full.total_mult_adds == 18
        assert found.total_output_bytes == full.total_output_bytes
    assert column(viz.summary(model, (1, 4), depth=0), "num_params") == ["23"]


# -- inputs ----------------------------------------------------------------------------------------


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, a, b, *, double=False):
        out = self.fc(a) + b
        return {"out": out * 2 if double else out, "parts": [a, (b, b)]}


INPUTS = [
    ({"input_size": [(4, 3), (4, 2)]}, [(4, 3), (4, 2)]),
    ({"input_size": {"b": (4, 2), "a": (4, 3)}}, [(4, 2), (4, 3)]),
    ({"input_data": [torch.ones(4, 3), torch.ones(4, 2)]}, [(4, 3), (4, 2)]),
    ({"input_data": {"a": torch.ones(4, 3), "b": torch.ones(2)}}, [(4, 3), (2,)]),
    ({"input_size": (4, 3), "b": torch.ones(2)}, [(4, 3), (2,)]),
    ({"input_size": [(3,), (2,)], "batch_dim": 0, "double": True}, [(1, 3), (1, 2)]),
    ({"input_size": [(4, 3), (4, 2)], "device": "cpu"}, [(4, 3), (4, 2)]),
]


@pytest.mark.parametrize("given, sizes", INPUTS, ids=range(len(INPUTS)))
def test_inputs_of_all_kinds(given, sizes):
    found = viz.summary(Two(), **given)
    assert found.input_sizes == sizes
    assert len(found.output_size) == 4  # every tensor of the dictionary
    assert found.total_params == 8


def test_a_shape_without_a_batch_is_tried_with_one():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2))
    assert viz.summary(model, (3, 4, 4)).input_sizes == [(1, 3, 4, 4)]
    assert viz.summary(model, (5, 3, 4, 4)).input_sizes == [(5, 3, 4, 4)]


def test_integers_as_inputs():
    model = nn.Sequential(nn.Embedding(10, 4), nn.LSTM(4, 6, batch_first=True))
    found = viz.summary(model, (2, 5), dtypes=[torch.int64])
    assert found.rows[1].output_size == (2, 5, 4)
    assert found.rows[2].output_size == [(2, 5, 6), (1, 2, 6), (1, 2, 6)]
    assert found.total_mult_adds == 2 * 5 * (24 * 4 + 24 * 6)


def test_models_that_need_values_are_computed():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(x) if x.sum().item() > -1e9 else x

    assert viz.summary(Gate(), (3, 2)).rows[1].output_size == (3, 2)


def test_lazy_modules_learn_their_sizes():
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.Flatten(), nn.LazyLinear(2))
    found = viz.summary(model, (1, 3, 5, 5))
    assert found.total_params == (3 * 9 * 4 + 4) + (36 * 2 + 2)
    assert viz.summary(nn.LazyLinear(2)).total_params == 0


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout())
    model[1].eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    torch.manual_seed(3)
    state = torch.get_rng_state()
    for options in ({}, {"device": "cpu"}, {"device": "cpu", "mode": "train"}):
        viz.summary(model, (4, 3), **options)
    assert [m.training for m in model] == [True, False, True]
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is None and not p.is_meta for p in model.parameters())


def test_shared_modules_and_weights_count_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.b = self.a
            self.c = nn.Linear(4, 4)
            self.c.weight = self.a.weight
            self.unused = nn.Linear(4, 4)

        def forward(self, x):
            return self.c(self.b(self.a(x)))

    found = viz.summary(Tied(), (1, 4))
    assert column(found, "num_params") == ["--", "20", "(recursive)", "4", "20"]
    assert found.total_params == 44 == sum(p.numel() for p in Tied().parameters())
    assert column(found, "output_size")[-1] == "--"
    assert found.total_mult_adds == 3 * 16


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"must be an nn\.Module"):
        viz.summary(lambda x: x, (1,))
    with pytest.raises(ValueError, match="unknown column 'nothing'"):
        viz.summary(nn.ReLU(), (1,), col_names=["nothing"])
    with pytest.raises(ValueError, match="not both"):
        viz.summary(nn.ReLU(), (1,), torch.ones(1))
    with pytest.raises(ValueError, match="mode must be"):
        viz.summary(nn.ReLU(), (1,), mode="both")
    with pytest.raises(TypeError, match="input_size must be a shape"):
        viz.summary(nn.ReLU(), ["abc"])
    with pytest.raises(RuntimeError, match="does not run on such an input") as raised:
        viz.summary(nn.Linear(3, 2), (1, 4))
    assert "cannot be multiplied" in str(raised.value.__cause__)


# -- operations ------------------------------------------------------------------------------------


def _attention(torch):
    q = torch.ones(2, 3, 5, 4, requires_grad=True)
    k = torch.ones(2, 3, 7, 4)
    v = torch.ones(2, 3, 7, 6)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


FLOPS = {
    "mm": (lambda t: t.mm(t.ones(2, 3), t.ones(3, 4)), 48),
    "matmul": (lambda t: t.ones(5, 2, 3) @ t.ones(5, 3, 4), 240),
    "matmul of vectors": (lambda t: t.ones(2, 3) @ t.ones(3), 12),
    "addmm": (lambda t: t.addmm(t.ones(4), t.ones(2, 3), t.ones(3, 4)), 48),
    "baddbmm": (lambda t: t.baddbmm(t.ones(4), t.ones(5, 2, 3), t.ones(5, 3, 4)), 240),
    "linear": (lambda t: t.nn.functional.linear(t.ones(2, 7, 3), t.ones(4, 3), t.ones(4)), 336),
    "conv1d": (lambda t: t.nn.functional.conv1d(t.ones(2, 4, 9), t.ones(6, 2, 3), groups=2), 1008),
    "conv2d": (
        lambda t: t.nn.functional.conv2d(t.ones(1, 3, 8, 8), t.ones(5, 3, 3, 3), stride=2),
        2 * 9 * 135,
    ),
    "conv3d": (lambda t: t.conv3d(t.ones(1, 1, 3, 3, 3), t.ones(2, 1, 2, 2, 2)), 2 * 8 * 16),
    "transposed": (
        lambda t: t.conv_transpose2d(t.ones(1, 3, 4, 4), t.ones(3, 5, 2, 2), stride=2),
        2 * 16 * 60,
    ),
    "einsum": (lambda t: t.einsum("bij,bjk->bik", t.ones(5, 2, 3), t.ones(5, 3, 4)), 240),
    "addition": (lambda t: t.ones(3) + t.ones(3), 0),
}


@pytest.mark.parametrize("name", FLOPS)
def test_operations_by_hand(name):
    run, expected = FLOPS[name]
    with FlopCounterMode(display=False) as counter:
        run(torch)
    assert counter.get_total_flops() == expected


def test_attention_by_hand():
    with FlopCounterMode(display=False) as counter:
        _attention(torch)
    assert counter.get_total_flops() == 2 * 2 * 3 * 5 * 7 * (4 + 6)


@pytest.mark.oracle
@pytest.mark.parametrize("name", [n for n in FLOPS if n != "matmul of vectors"])
def test_operations_are_those_of_torch(name):
    theirs = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode as Theirs

    with Theirs(display=False) as counter:
        FLOPS[name][0](theirs)
    assert counter.get_total_flops() == FLOPS[name][1]


def build(home):
    nn = home.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        # without groups: PyTorch counts the gradients of grouped weights as if there were none
        nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.AdaptiveAvgPool2d(2)),
        nn.Flatten(),
        nn.Linear(32, 6),
        nn.Linear(6, 2, bias=False),
    )


@pytest.mark.oracle
def test_modules_have_the_operations_torch_finds_backward_included():
    theirs = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode as Theirs

    found = []
    for home, mode in ((theirs, Theirs), (torch, FlopCounterMode)):
        model = build(home)
        with mode(display=False) as counter:
            model(home.ones(2, 3, 9, 9)).sum().backward()
        counts = counter.get_flop_counts()
        found.append({m: {str(op): n for op, n in ops.items()} for m, ops in counts.items() if ops})
    assert found[1] == found[0]


def test_the_table_of_operations(capsys):
    with FlopCounterMode(depth=1):
        build(torch)(torch.ones(2, 3, 9, 9))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["Module", "FLOP", "%", "Total"]
    assert lines[2].split() == ["Global", "51.504K", "100.00%"]
    assert any("Sequential" in line for line in lines)
    assert not any("Sequential.0" in line for line in lines)


def test_formulas_of_users():
    def formula(shape, *args, out_shape=None, **kwargs):
        return 7 * shape[0]

    with FlopCounterMode(display=False, custom_mapping={"aten.relu": formula}) as counter:
        torch.ones(3).relu()
    assert counter.get_flop_counts()["Global"] == {torch.ops.aten.relu: 21}
    register_flop_formula(torch.ops.aten.sigmoid)(formula)
    with FlopCounterMode(display=False) as counter:
        torch.ones(2).sigmoid()
    assert counter.get_total_flops() == 14


# parameters and billions of multiply-adds that torchvision's documentation gives
PUBLISHED = {
    "alexnet": (61100840, 0.714),
    "resnet18": (11689512, 1.814),
    "mobilenet_v3_large": (5483032, 0.217),
    "efficientnet_b0": (5288548, 0.386),
    "convnext_tiny": (28589128, 4.456),
    "vit_b_16": (86567656, 17.564),
    "swin_t": (28288354, 4.491),
    "shufflenet_v2_x1_0": (2278604, 0.145),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_models_have_the_published_sizes(name):
    models = pytest.importorskip("flambeau.vision.models")
    with torch.device("meta"):
        model = getattr(models, name)()
    found = viz.summary(model, (3, 224, 224), depth=1)
    assert found.total_params == PUBLISHED[name][0]
    assert round(found.total_mult_adds / 1e9, 3) == PUBLISHED[name][1]
