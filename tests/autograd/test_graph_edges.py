"""What a person sees who walks the graph, and gradients of gradients that are zero."""

import pytest

import flambeau as torch

F = torch.nn.functional
T = torch.tensor


def leaf(*shape):
    return torch.arange(1.0, 1 + max(1, torch.Size(shape).numel())).reshape(shape).requires_grad_()


def plain(node):
    return node.name().rpartition("::")[2]


def names(t):
    return [None if n is None else plain(n) for n, _ in t.grad_fn.next_functions]


A = "AccumulateGrad"
NODES = {  # expression: node, edges, as PyTorch shows them
    "F.linear(leaf(2, 3), leaf(4, 3), leaf(4))": ("AddmmBackward0", [A, A, "TBackward0"]),
    "F.linear(leaf(2, 3), leaf(4, 3))": ("MmBackward0", [A, "TBackward0"]),
    "torch.clamp(leaf(2), leaf(2))": ("ClampBackward0", [A, A, None]),
    "torch.clamp(leaf(2), 0)": ("ClampBackward1", [A]),
    "leaf(2).masked_fill(T([True, False]), 1.)": ("MaskedFillBackward0", [A]),
    "leaf(2).masked_fill(T([True, False]), leaf())": ("MaskedFillBackward1", [A, A]),
    "leaf(2).index_fill(0, T([1]), 1.)": ("IndexFillBackward0", [A]),
    "leaf(2).index_fill(0, T([1]), leaf())": ("IndexFillBackward1", [A, A]),
    "leaf(2).scatter_reduce(0, T([1]), leaf(1), 'sum')": ("ScatterReduceBackward0", [A, A]),
    "leaf(2).index_reduce(0, T([1]), leaf(1), 'mean')": ("IndexReduceBackward0", [A, A]),
    "F.batch_norm(leaf(2, 3), None, None, leaf(3), leaf(3), True)": (
        "NativeBatchNormBackward0", [A, A, A]),
    "F.batch_norm(leaf(2, 3), None, None, training=True)": (
        "NativeBatchNormBackward0", [A, None, None]),
    "torch.native_layer_norm(leaf(2, 3), (3,), leaf(3), None, 1e-5)[0]": (
        "NativeLayerNormBackward0", [A, A, None]),
    "torch.lu_solve(leaf(2, 1), *torch.linalg.lu_factor(torch.eye(2)))": (
        "LinalgLuSolveBackward0", [None, A]),
    "torch.view_copy(leaf(2), (1, 2))": ("ViewBackward0_copy", [A]),
    "torch.unbind_copy(leaf(2, 2))[1]": ("UnbindBackward0_copy", [A]),
    "torch.narrow_copy(leaf(4), 0, 1, 2)": ("NarrowCopyBackward0", [A]),
    "torch.nextafter(leaf(2), leaf(2))": ("NextafterBackward0", [A, A]),
    "torch.normal(leaf(2), 1.)": ("NormalBackward1", [A]),
    "torch.normal(0., leaf(2))": ("NormalBackward2", [A]),
    "torch.normal(leaf(2), leaf(2))": ("NormalBackward3", [A, A]),
    "torch.linalg.matrix_power(leaf(2, 2), 0)": ("CopyBackwards", ["CloneBackward0", None]),
    "(leaf(2) * 1).square_()": ("PowBackward0", ["MulBackward0"]),
    "(leaf(2) * 1).cumprod_(0)": ("CumprodBackward0", ["MulBackward0"]),
}  # fmt: skip


@pytest.mark.parametrize("text", NODES)
def test_nodes_show_the_edges_of_pytorch(text):
    t = eval(text)
    assert (plain(t.grad_fn), names(t)) == NODES[text]


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_these_are_the_edges_of_pytorch():
    oracle = pytest.importorskip("torch")

    def leaf(*shape):
        count = max(1, oracle.Size(shape).numel())
        return oracle.arange(1.0, 1 + count).reshape(shape).requires_grad_()

    space = {"torch": oracle, "F": oracle.nn.functional, "T": oracle.tensor, "leaf": leaf}
    for text, wanted in NODES.items():
        t = eval(text, space)
        assert (plain(t.grad_fn), names(t)) == wanted, text


def test_who_walks_twice_sees_the_same_nodes():
    t = F.linear(leaf(2, 3), leaf(4, 3), leaf(4))
    assert t.grad_fn.next_functions[2][0] is t.grad_fn.next_functions[2][0]


def test_means_and_deviations_of_native_norms_have_no_history():
    _, mean, rstd = torch.native_layer_norm(leaf(2, 3), (3,), None, None, 1e-5)
    assert not mean.requires_grad and not rstd.requires_grad


STEPS = """
F.relu(x) F.leaky_relu(x) F.hardtanh(x,0.,9.) F.relu6(x) F.threshold(x,1.,0.)
F.softshrink(x) F.hardshrink(x) F.hardsigmoid(x) F.prelu(x,T([.1])) F.rrelu(x)
F.max_pool1d(x[None],2) F.avg_pool1d(x[None],2) F.adaptive_avg_pool1d(x[None],2)
F.adaptive_max_pool1d(x[None],2) F.pad(x[None],(1,1),'reflect') F.nll_loss(x[None],T([1]))
F.multi_margin_loss(x[None],T([1])) torch.cdist(x[None],x[None]+1,p=1.)
""".split()


@pytest.mark.parametrize("text", STEPS)
def test_a_gradient_penalty_reaches_through_steps(text):
    x = leaf(4)
    y = eval(text, {"x": x, "F": F, "T": T, "torch": torch})
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad((g * g).sum(), x)
    assert h.tolist() == [0.0] * 4


SMOOTH = {  # at 0, where spelling with abs or max would leave a kink: second derivative
    "F.mish(x)": 0.64,
    "F.logsigmoid(x)": -0.25,
    "F.softplus(x)": 0.25,
    "F.silu(x)": 0.5,
}


@pytest.mark.parametrize("text", SMOOTH)
def test_second_derivatives_at_zero(text):
    x = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(eval(text), x, create_graph=True)
    (h,) = torch.autograd.grad(g, x)
    assert h.item() == pytest.approx(SMOOTH[text], abs=1e-6)


GRADIENTS = {  # checked by differences
    "(x * 1).square_()": (3,),
    "(x * 1).cumprod_(0)": (3,),
    "(x * 1).polygamma_(1)": (3,),
    "(x * 1).float_power_(3)": (3,),
    "torch.index_fill(x, 0, T([0, 0, 1]), x[2] ** 2)": (3,),
    "torch.cholesky_inverse(x.tril() + 2 * torch.eye(2, dtype=x.dtype))": (2, 2),
    "torch.cholesky_solve(x[:, :1], x.tril() + 2 * torch.eye(2, dtype=x.dtype))": (2, 2),
    "torch.as_strided_scatter(x, x[1] ** 2, (2,), (2,), 1)": (2, 2),
    "torch.as_strided_scatter(x.T, x[1] ** 2, (2,), (2,), 1)": (2, 2),
    "torch.linalg.vector_norm(x, 2.5)": (1,),
    "F.hinge_embedding_loss(x, T([1., -1., 1.], dtype=x.dtype), margin=9.)": (3,),
    "F.gaussian_nll_loss(x, 1, x + 1)": (3,),
    "torch.trapezoid(x, dx=2.5)": (3,),
    "torch.cumulative_trapezoid(x, x ** 2)": (3,),
    "torch.unfold_copy(x, 0, 2, 1)": (3,),
}


@pytest.mark.parametrize("text", GRADIENTS)
def test_gradients_agree_with_differences(text):
    x = leaf(*GRADIENTS[text]).detach().to(torch.float64).requires_grad_()
    space = {"F": F, "T": T, "torch": torch}
    assert torch.autograd.gradcheck(lambda x: eval(text, {"x": x, **space}), x)


def test_a_saved_tensor_that_takes_other_memory_is_noticed():
    a, b = torch.ones(2), torch.ones(2, requires_grad=True)
    c = a * b
    a.set_(torch.zeros(2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()
