"""Passes keep what a module computes; make_fx records ops, backward included."""

import json
from pathlib import Path

import pytest

import flambeau
from flambeau import fx, nn
from flambeau.fx.experimental.const_fold import split_const_subgraphs
from flambeau.fx.experimental.optimization import fuse, optimize_for_inference, remove_dropout
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.fx.passes.graph_drawer import FxGraphDrawer
from flambeau.fx.passes.graph_manipulation import get_size_of_all_nodes, replace_target_nodes_with
from flambeau.fx.passes.infra.pass_base import PassBase, PassResult
from flambeau.fx.passes.infra.pass_manager import (
    PassManager,
    pass_result_wrapper,
    this_before_that_pass_constraint,
)
from flambeau.fx.passes.shape_prop import ShapeProp
from flambeau.fx.passes.split_module import split_module
from flambeau.fx.passes.tools_common import legalize_graph, stable_topological_sort
from flambeau.testing import assert_close
from flambeau.utils._pytree import tree_leaves
from tests.fx import layer_cases

F = nn.functional
GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "fx.json").read_text())["ops"]


def network():
    flambeau.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(), nn.Flatten(),
        nn.Linear(144, 5), nn.BatchNorm1d(5),
    )  # fmt: skip
    model.train()
    model(flambeau.randn(8, 3, 8, 8))  # so that norms have something to remember
    return model.eval()


X = flambeau.randn(2, 3, 8, 8)


@pytest.mark.parametrize("change", [fuse, remove_dropout, optimize_for_inference])
def test_models_for_inference_compute_the_same(change):
    model = network()
    assert_close(change(model)(X), model(X), rtol=1e-4, atol=1e-5)


def test_fused_models_have_no_norms():
    kinds = {type(module) for module in fuse(network()).modules()}
    assert not kinds & {nn.BatchNorm1d, nn.BatchNorm2d}


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_of_a_module_compute_the_same(parts):
    model = network()
    made = fx.symbolic_trace(model)
    count = iter(range(99))
    split = split_module(made, model, lambda node: next(count) * parts // 7)
    assert len(list(split.children())) == parts
    assert_close(split(X), model(X))
    assert split.submod_0.get_submodule("0") is model[0]


def test_constants_are_folded():
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(flambeau.randn(3)), nn.Parameter(flambeau.randn(3))

        def forward(self, x):
            total = self.a + self.b
            return x * total.relu() + total, self.a - x

    model = Constant()
    made = split_const_subgraphs(model)
    x = flambeau.randn(3)
    for got, wanted in zip(made(x), model(x)):
        assert_close(got, wanted)
    assert made.has_folding_been_run
    plain = split_const_subgraphs(nn.Sequential(nn.ReLU()))
    assert plain.const_subgraph_module is None and plain(x).equal(x.relu())


def test_shapes_are_noted_and_errors_name_the_node():
    made = fx.symbolic_trace(network())
    ShapeProp(made).propagate(X)
    meta = made.graph.output_node().meta["tensor_meta"]
    assert (tuple(meta.shape), meta.dtype, meta.stride) == ((2, 5), flambeau.float32, (5, 1))
    get_size_of_all_nodes(made)
    first = next(n for n in made.graph.nodes if n.op == "call_module")
    assert first.size_bytes == (2 * 4 * 36 * 4, 2 * 4 * 36 * 4 + 4 * (4 * 27 + 4))
    with pytest.raises(RuntimeError, match="ShapeProp error for: node=%_0"):
        ShapeProp(made).propagate(flambeau.ones(2, 2))


def test_one_kind_of_call_becomes_another():
    made = fx.symbolic_trace(lambda x: flambeau.relu(x) + flambeau.relu(-x))
    replace_target_nodes_with(made, "call_function", flambeau.relu, "call_function", flambeau.neg)
    assert made(flambeau.ones(1)).item() == 0


class Negate(PassBase):
    """relu becomes neg."""

    def call(self, graph_module):
        found = graph_module.graph.find_nodes(op="call_function", target=flambeau.relu)
        for node in found:
            node.target = flambeau.neg
        return PassResult(graph_module, bool(found))


def test_passes_run_in_order_until_nothing_changes():
    order = []

    def noting(module):
        order.append(len(module.graph.find_nodes(op="call_function", target=flambeau.relu)))

    note, negate = pass_result_wrapper(noting), Negate()
    made = fx.symbolic_trace(lambda x: flambeau.relu(x))
    result = PassManager([negate, note], [this_before_that_pass_constraint(note, negate)])(made)
    assert result.modified and order == [1]
    assert made(flambeau.ones(1)).item() == -1
    assert not PassManager([negate], steps=3)(made).modified
    with pytest.raises(Exception, match="An error occurred when running the 'wrong' pass after"):
        PassManager([wrong])(made)


def wrong(module):
    return 3


def test_graphs_are_drawn(tmp_path):
    drawer = FxGraphDrawer(fx.symbolic_trace(network()), "net")
    dot = drawer.get_dot_graph()
    text = dot.to_string()
    assert text.startswith("digraph net") and text.count("->") == 8
    assert "op_code=call_module" in text and "Conv2d" in text
    dot.write_svg(tmp_path / "net.svg")
    assert (tmp_path / "net.svg").read_text().count("<svg") == 1


# -- make_fx ---------------------------------------------------------------------------------------


def written(x):
    y = x.clone()
    y[0] = 2
    y[1:, 1] += 1
    y.mul_(2)
    return {"a": y.T.float(), "b": [y.max(0), y.softmax(1)[0]]}


def gradients(x):
    w = x.detach().clone().requires_grad_()
    loss = (w.exp() @ w.T).tanh().sum() * 2
    loss.backward()
    return w.grad


def viewed(x):
    y = x.detach().clone().requires_grad_()
    return flambeau.autograd.grad((y.T[1:] ** 2).sum(), y)[0]


OPS = {
    "loss": lambda x: F.cross_entropy(x, flambeau.zeros(3, dtype=flambeau.long)),
    "written": written,
    "gradients": gradients,
    "viewed": viewed,
    "algebra": lambda x: flambeau.linalg.inv(x[:, :3] + 3 * flambeau.eye(3)) @ x,
    "einsum": lambda x: flambeau.einsum("ij,kj->ik", x, x) + flambeau.fft.fft(x).abs().sum(),
    "convolution": lambda x: F.conv2d(x[None, None], flambeau.ones(2, 1, 2, 2), padding=1),
    "norm": nn.LayerNorm(4),
    "mlp": nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)),
    "attention": nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(),
    "lstm": nn.LSTM(4, 3),
}


@pytest.mark.parametrize("name", OPS)
def test_recorded_ops_compute_the_same_for_other_values(name):
    flambeau.manual_seed(0)
    x, other = flambeau.randn(3, 4), flambeau.randn(3, 4)
    made = make_fx(OPS[name])(x)
    made.graph.lint()
    for value in (x, other):
        wanted = tree_leaves(OPS[name](value))
        assert_close(tree_leaves(made(value)), wanted)


@pytest.mark.parametrize("text", GOLDEN)
def test_recorded_ops_read_as_in_pytorch(text):
    assert layer_cases.ops(flambeau, text) == GOLDEN[text]


@pytest.mark.oracle
def test_the_record_is_what_pytorch_says():
    torch = pytest.importorskip("torch")
    assert {text: layer_cases.ops(torch, text) for text in GOLDEN} == GOLDEN


@pytest.mark.parametrize("read", [lambda x: x.sum().item(), lambda x: x if x.sum() > 0 else -x])
def test_values_cannot_be_read_while_ops_are_recorded(read):
    with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor"):
        make_fx(read)(flambeau.ones(3))


def test_gradients_start_with_an_op():
    def slope(x):
        return flambeau.autograd.grad(x.sin().sum(), x)[0]

    made = make_fx(slope)(flambeau.ones(3, requires_grad=True))
    assert "ones_like" in made.code and "constant" not in made.code
    x = flambeau.randn(3, requires_grad=True)
    assert_close(made(x).detach(), x.detach().cos())


def test_ops_may_be_taken_apart():
    aten = flambeau.ops.aten
    table = {aten.tanh.default: lambda x: 2 * flambeau.sigmoid(2 * x) - 1}
    made = make_fx(lambda x: x.tanh(), decomposition_table=table)(flambeau.ones(2))
    assert "tanh" not in made.code and "sigmoid" in made.code
    x = flambeau.randn(5)
    made = make_fx(lambda x: x.tanh(), decomposition_table=table)(x)
    assert_close(made(x), x.tanh())


def _chain(x, y):
    first = (x + y) * 2
    return (flambeau.sin(flambeau.relu(first)) + x) * y, first


def test_parts_that_something_else_can_run():
    from flambeau.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from flambeau.fx.passes.operator_support import OperatorSupport, OpSupports, any_chain, chain

    support = OperatorSupport({"_operator.add": None, "_operator.mul": None})
    module = fx.symbolic_trace(_chain)
    parts = CapabilityBasedPartitioner(module, support)
    proposed = parts.propose_partitions()
    assert [sorted(n.name for n in p.nodes) for p in proposed] == [
        ["add_1", "mul_1"],
        ["add", "mul"],
    ]
    fused = parts.fuse_partitions(proposed)
    assert fused.code.split("\n", 4)[4].splitlines() == [
        "    fused_1 = self.fused_1(x, y)",
        "    relu = torch.relu(fused_1)",
        "    sin = torch.sin(relu);  relu = None",
        "    fused_0 = self.fused_0(sin, x, y);  sin = x = y = None",
        "    return (fused_0, fused_1)",
        "    ",
    ]
    x, y = flambeau.randn(3), flambeau.randn(3)
    assert_close(fused(x, y), _chain(x, y))
    module = fx.symbolic_trace(_chain)
    narrow = chain(support, OpSupports.decline_if_node_in_names({"add_1"}))
    found = CapabilityBasedPartitioner(module, narrow).propose_partitions()
    assert [p.size() for p in found] == [2]
    wide = any_chain(support, OperatorSupport({"torch.relu": None, "torch.sin": None}))
    found = CapabilityBasedPartitioner(module, wide).propose_partitions()
    assert [p.size() for p in found] == [6]


def test_equal_calls_are_made_once():
    from flambeau.fx.passes.dialect.common.cse_pass import CSEPass

    module = fx.symbolic_trace(lambda x: flambeau.sin(x) + flambeau.sin(x) + x.cos() * x.cos())
    result = CSEPass()(module)
    code = result.graph_module.code
    assert result.modified and code.count("sin(") == code.count("cos(") == 1
    assert module.code.count("sin(") == 2  # what was given stays as it is
    drawn = fx.symbolic_trace(lambda x: flambeau.rand_like(x) + flambeau.rand_like(x))
    assert not CSEPass()(drawn).modified


def test_values_are_noted_without_values():
    from flambeau._subclasses import FakeTensor
    from flambeau.fx.passes.fake_tensor_prop import FakeTensorProp

    module = fx.symbolic_trace(lambda x: x.sum(0).topk(2))
    FakeTensorProp(module).propagate(flambeau.ones(3, 4))
    shown = [node.meta["val"] for node in module.graph.nodes]
    assert isinstance(shown[1], FakeTensor) and shown[1].shape == (4,)
    assert [tuple(v.shape) for v in shown[2]] == [(2,), (2,)]


@pytest.mark.parametrize("sort", [legalize_graph, stable_topological_sort])
def test_nodes_come_behind_what_they_need(sort):
    made = fx.symbolic_trace(lambda x: (x.sin() + 1).relu() * x.cos())
    first, *_, last = (n for n in made.graph.nodes if n.op not in ("placeholder", "output"))
    last.append(first)
    with pytest.raises(RuntimeError, match="before it has been defined"):
        made.graph.lint()
    sort(made).graph.lint()
    made.recompile()
    assert_close(
        made(flambeau.ones(2)), (flambeau.ones(2).sin() + 1).relu() * flambeau.ones(2).cos()
    )
    node = next(n for n in made.graph.nodes if n.target == "sin")
    node.args = (last if last.graph is made.graph else [*made.graph.nodes][-2],)
    with pytest.raises(RuntimeError, match="Input graph has cycles, unable to add"):
        sort(made)
