"""Calls at the edges of what ops take: numbers beyond 64 bits, nothing, infinities, any out=.

Each snippet is an expression over `torch`, `F` (torch.nn.functional), `T` (torch.tensor), `inf` and
`nan`; what it prints was recorded from PyTorch (tests/golden/record_edges.py).
"""

NUMBERS = [
    *(f"torch.full((2,), {n}, dtype=torch.{d})" for n in ("2**63", "2**64 - 1", "-2**63")
      for d in ("float32", "float64")),
    "torch.full((2,), 2**64, dtype=torch.float64)",
    "torch.full((2,), 2**63, dtype=torch.int64)",
    "torch.full_like(T([3.]), 2**63)",
    *(f"torch.ones(2, dtype=torch.{d}) {op} 2**63" for d in ("float32", "int64", "uint8", "float16")
      for op in "+ * < ==".split()),
    "torch.ones(2).add_(2**63)",
    "torch.ones(2).fill_(2**63)",
    "torch.ones(2) ** 2**63",
    "torch.ones(2).clamp(max=2**63)",
    "torch.where(T([True, False]), 2**63, T([1., 2.]))",
    "torch.ones(2).masked_fill(T([True, False]), 2**63)",
    "torch.floor_divide(2**63, T([0., 1., 2.]))",
    "F.threshold(T([5., 1.]), 2**63, 2)",
    "F.hardshrink(T([5., 1.]), 2**63)",
    "torch.histc(T([-8., 1.]), 3, 0, 2**63)",
    "torch.ones(2) * (-2**63 - 1)",
    "torch.ones(2) + 2**64",
    "torch.autograd.grad((T([1., 2.], requires_grad=True) * 2**63).sum(), [], allow_unused=True)",
    "torch.add(2.5, 2)", "torch.sub(7, 2, alpha=3)", "torch.mul(2, True)", "torch.div(1, 2)",
    "torch.div(7, 2, rounding_mode='floor')", "torch.floor_divide(7, 2)", "torch.true_divide(1, 2)",
    "torch.add(2, 3, out=torch.zeros(()))",
    *(call.replace("D", d).replace("V", value)
      for call in ("torch.tensor([V], dtype=torch.D)", "torch.ones(2, dtype=torch.D).fill_(V)",
                   "torch.threshold(torch.ones(2, dtype=torch.D), 1, V)",
                   "torch.ones(2, dtype=torch.D).masked_fill(T([True, False]), V)")
      for d in ("int8", "uint8") for value in ("127.5", "-0.5", "-1.0", "-1", "-128.5", "nan")),
    *(f"torch.pow(torch.ones(2, dtype=torch.{d}), {n})" for d in ("uint8", "int8", "int32", "int64")
      for n in ("127", "255", "256", "2**40", "2**63")),
]  # fmt: skip

VALUES = [
    "torch.nansum(T([nan, 2.]), dtype=torch.int32)",
    "torch.nansum(T([[nan, 2.], [0., 1.]]), -1, dtype=torch.int64)",
    "torch.addr(torch.full((1, 1), 0.1, dtype=torch.float64), T([.1]), T([.3])).item()",
    "torch.addmm(torch.ones(2, 2), torch.ones(2, 0), torch.ones(0, 2), alpha=1e308)",
    "torch.baddbmm(torch.ones(1, 2, 2), torch.ones(1, 2, 0), torch.ones(1, 0, 2), alpha=1e308)",
    "F.hinge_embedding_loss(T([inf, 1.]), T([1., -1.]))",
    *(f"torch.hinge_embedding_loss(T([0, 1, 2, 7, 200]).to(torch.{d}), T([{k}] * 5), {margin})"
      for d in ("uint8", "int8", "int64") for k in (0, 1, -1) for margin in (1.0, 2.5)),
    *(f"F.kl_div(T([-.3, 2.]).to({a}), T([.7, 1.3]).to({b}), reduction='none', log_target={flag})"
      for a, b in (("torch.bfloat16", "torch.float32"), ("torch.float32", "torch.bfloat16"),
                   ("torch.float64", "torch.float16")) for flag in (True, False)),
    "F.kl_div(T(2., dtype=torch.float64), torch.ones(2), reduction='none')",
    "F.kl_div(torch.ones(2), T(2., dtype=torch.float64), reduction='sum', log_target=True)",
    "F.cross_entropy(torch.ones(2, 3), torch.ones(2, 3), label_smoothing=-1.0)",
    "F.cross_entropy(torch.ones(2, 3), T([1, 2]), label_smoothing=-1.0)",
    "F.cross_entropy(torch.ones(2, 3), T([1, 2]), label_smoothing=nan)",
    "torch.take_along_dim(torch.ones(2, 3), torch.ones(2, 0))",
    "torch.take_along_dim(torch.ones(2, 3), torch.ones(2, 0), 1)",
    "torch.pdist(torch.ones(1, 3).half())", "torch.pdist(torch.ones(2, 3).half())",
    "torch.var_mean(T([1., 2., inf]))", "torch.std_mean(T([1., 2., -inf]))",
    "torch.var(torch.zeros(5, 0), correction=-1)", "torch.var_mean(torch.zeros(0), correction=-5)",
    "torch.std(T([1., 2., 4.]), correction=nan)",
    "F.lp_pool2d(T([[[[1., -3.], [2., 0.]]]]), inf, 2)",
    "F.multilabel_soft_margin_loss(T([1., 2., 3.]), T([[0., 1., 0.]]))",
    "F.multilabel_soft_margin_loss(T([1., 2., 3.]), 0.5)",
    "F.multilabel_soft_margin_loss(T([[1., 2.]]), T([[1, 0]]), T([1., 2.]))",
    "torch.unravel_index(T([5], dtype=torch.int16), (2, 4))",
    "torch.unravel_index(T([0.5]), (2, 4))",
    "torch.linalg.vander(T(2.), N=3)",
    "torch.atleast_1d([T(1.)])", "torch.atleast_2d(T(1.))", "torch.atleast_3d(T(1.), T(2.))",
    "torch.vstack([torch.ones(1, 2, 3)]).shape", "torch.dstack([torch.ones(1, 2, 3, 1)]).shape",
    *(f"torch.special.{p}(T([[.5], [.2]]), T([-1.5, -.5, 1., 3.7, nan, inf]))" for p in
      ("chebyshev_polynomial_t", "hermite_polynomial_h", "laguerre_polynomial_l")),
    "torch.celu(T([0., -1., 1., -0.]), alpha=inf)", "F.elu(T([0., -1., 1.]), alpha=inf)",
    "F.hardtanh(T([-8., .2, 3.]), -.5, nan)", "F.hardtanh(T([-8., .2, 3.]), nan, 0.)",
    "F.huber_loss(T([1., 2.]), T([inf, 3.]), delta=inf, reduction='none')",
    "torch.cdist(T([[inf, 1.]]), T([[1., 1.]]), p=0.)",
    "F.pdist(T([[inf, 1.], [2., 1.], [nan, 1.]]), p=0.)",
    "torch.cdist(T([[3., 1.]]), T([[1., 1.]]), p=1e308)",
    "torch.norm(T([.5, .7]), 1e308)",
    "torch.linalg.vector_norm(T([.5], dtype=torch.float64), 1e308)",
    "torch.linalg.vector_norm(T([2., .7]), -1e39, out=torch.zeros(0))",
    "F.normalize(T([[.5, .7]]), p=1e308)", "torch.renorm(T([[.5, .7], [2., 3.]]), 1e308, 0, .1)",
    "torch.trapz(T([[248, 252], [249, 248]], dtype=torch.uint8), dx=3.)",
    "torch.trapezoid(T([0., -1.5, 0.]), T([[.25]]))", "torch.trapezoid(T([[-8., inf], [2.5, 1.]]))",
    "torch.cumulative_trapezoid(T([-8., -2.]), T([[-8., -.5, 3.], [-3., 5., 1.]]))",
    "torch.trapezoid(torch.zeros(2, 0, dtype=torch.int64), T([[5, 7, 6]]))",
    "torch.linspace(-inf, 3, 1)", "torch.linspace(0, 50, 1, dtype=torch.bool)",
    "torch.linspace(3, 50, 2, dtype=torch.bool)", "torch.logspace(0, -3, 1, -1, dtype=torch.bool)",
    "torch.fft.fftfreq(0)", "torch.fft.fftfreq(4, d=0.)", "torch.fft.rfftfreq(-1)",
    "torch.diff(T([1., 2.]), n=0, append=T([3.]))", "torch.tril_indices(2, 2, dtype=None)",
    "F.poisson_nll_loss(T([1., 2.]), T([1, 2]), True, False, -0., 1)",
    "F.mse_loss(T([1., 2.]), T([1., 5.]), reduce=0)",
    "F.gaussian_nll_loss(T([1., 2.]), T(3., dtype=torch.float64), T(.5), reduction='none')",
    "F.gaussian_nll_loss(T([1., 2.]), 1, T(.5), reduction='none')",
    "F.gaussian_nll_loss(T([1.]), T([3.]), T([7.]), full=True, eps=nan)",
    "torch.tensordot(torch.ones(1, 1, 1).int(), torch.ones(2, 1, 2).int())",
    "torch.ones(2, 3).take_along_dim(T([[1, 2]], dtype=torch.int32))",
    "torch.roll(T([1, 2, 3]), 1, None)", "torch.broadcast_shapes((3, 5))",
    "torch.broadcast_shapes(3, (2, 1))", "torch.broadcast_shapes(3, 5)",
    "list(torch.UntypedStorage([1, 2, 300]))", "list(torch.UntypedStorage([1, 2]).fill_(300))",
    "list(torch.UntypedStorage([1, 2, 3]).clone())",
    "torch.UntypedStorage([1]).copy_(torch.UntypedStorage([1, 2]))",
]  # fmt: skip

OUTS = [
    "torch.view_copy(torch.ones(1), [1], out=torch.zeros(0))",
    "torch.t_copy(torch.ones(1, 2), out=torch.zeros(0))",
    "torch.t_copy(torch.ones(1, 2), out=torch.zeros(0, dtype=torch.int64))",
    "torch.unsqueeze_copy(T([1, 2]), 0, out=torch.zeros(5, dtype=torch.int64))",
    "torch.expand_copy(T([[1.]]), [2, 2], out=torch.zeros(1))",
    "torch.fft.fftfreq(4, d=2., out=torch.zeros(0))",
    "torch.range(1, 1, out=T(0.))", "torch.linspace(0, 4, 4, out=torch.zeros(2, 2))",
    "torch.logspace(0, 3, 4, out=torch.zeros(2, 2))", "torch.arange(4, out=torch.zeros(2, 2))",
    "F.gelu(T([1.]), out=torch.zeros(0))", "F.softplus(T([1.]), out=torch.zeros(0))",
    "F.softshrink(T([1.]), out=torch.zeros(0))", "F.hardshrink(T([1.]), out=torch.zeros(0))",
    "F.logsigmoid(T([1.]), out=torch.zeros(0))",
    "F.avg_pool2d(torch.ones(1, 1, 2, 2), 2, out=torch.zeros(0))",
    "F.avg_pool3d(torch.ones(1, 1, 2, 2, 2), 2, out=torch.zeros(0))",
    "torch.neg((x := torch.arange(6.))[2:].view(2, 2), out=x.as_strided((3, 2), (1, 1)))",
    "torch.add((x := torch.arange(6.))[1:5], 1, out=x[0:4])",
    *(f"torch.{name}([T([1.])] * 2, out=torch.zeros(2, dtype=torch.uint8))"
      for name in ("cat", "stack", "hstack", "vstack", "dstack", "column_stack")),
    "torch.cat([T([1j]), T([1.])], out=torch.zeros(2))",
    "torch.kthvalue(t := torch.ones(3), 2, out=(t, torch.empty((), dtype=torch.int64)))",
    *(f"torch.{call.replace('I', 'T([0, 1, 2])').replace('M', 'T([True] * 3)')}"
      for call in (
        "masked_select(t := torch.ones(3), M, out=t)", "masked_select(T([True]), t := M, out=t)",
        "gather(t := torch.ones(3), 0, I, out=t)", "gather(I, 0, (t := I)[1:], out=t[:2])",
        "take(t := torch.ones(3), I, out=t)", "index_select(t := torch.ones(3), 0, I, out=t)",
        "index_select(I, 0, (t := I)[1:], out=t[:2])", "nonzero(t := I, out=t)",
        "cat([t := torch.ones(0), torch.ones(2)], out=t)", "gather(I, 0, I, out=I)",
      )),
    "torch.index_select(torch.ones(2), 0, T([0]), out=torch.zeros(1, dtype=torch.float64))",
    "torch.aminmax(torch.ones(2), dim=0, out=(T(1.), T(1.).double()))",
    *(f"torch.multinomial(torch.{w}, 2, out=torch.ones(2))" for w in ("ones(3)", "zeros(3)",
      "ones(3).int()", "ones(3, 2, 2)")),
    *(f"torch.logsumexp(torch.ones(2, 2){cast}, {dim}, out=torch.zeros(0{kind}))"
      for cast in ("", ".int()", ".cfloat()") for dim in ("0", "(0, 1)")
      for kind in ("", ", dtype=torch.cfloat") if kind or "c" not in cast),
    *(f"torch.{call}, out=torch.ones(3, requires_grad=True))" for call in (
        "arange(3", "arange(5", "ones(3", "full((3,), 2.", "empty(3", "eye(3", "rand(3", "randn(3",
        "bernoulli(torch.ones(3)", "linspace(0, 1, 3", "logspace(0, 1, 3", "range(0, 2",
        "randint(3, (3,)", "randperm(3")),
    *(f"torch.{call}, out=[torch.zeros(2).to(torch.{d})] * {n})"
      for call in ("unbind_copy(torch.ones(2, 2)", "split_copy(torch.ones(4), 2",
                   "split_with_sizes_copy(torch.ones(4), [2, 2]")
      for d, n in (("float32", 2), ("float64", 2), ("float32", 1))),
]  # fmt: skip

KINDS_OF_OUT = [
    *(f"torch.abs(T([3 + 4j]), out=torch.zeros(1, dtype=torch.{d}))"
      for d in ("complex64", "complex128", "float64", "float16", "int32")),
    *(f"torch.{f}(T([1., inf]), out=torch.zeros(2, dtype=torch.{d}))"
      for f in ("isposinf", "isneginf", "signbit", "isnan") for d in ("bool", "uint8", "float32")),
    "torch.frexp(T([1.]), out=(torch.zeros(1).double(), torch.zeros(1).int()))",
    "torch.frexp(T([1.]), out=(torch.zeros(1), torch.zeros(1)))",
    "torch.nonzero_static(T([8]), size=1, out=torch.zeros(1, 1))",
    *(f"torch.{call}, out=torch.zeros({size}, dtype=torch.{d}))" for d in ("float32", "float64")
      for call, size in (
        ("where(T([True]), T([1.]), T([2])", 1), ("vdot(T([1.]), T([1.])", "()"),
        ("mv(torch.ones(2, 2), torch.ones(2)", 2), ("histc(torch.ones(2), 2", 2),
        ("heaviside(T([1.]), T([1.])", 1), ("normal(T([1., 2.]), 0.", 2),
        ("normal(T([1., 2.]), torch.zeros(2)", 2), ("normal(3., torch.zeros(2)", 2))),
    "torch.nonzero_static((t := T([8, 0])), size=1, out=t)",
]  # fmt: skip

STEPS = [
    *(f"torch.{scan}(T({value}), 0, dtype=torch.{d})" for scan in ("cumsum", "cumprod")
      for value in ("[1, 2]", "[]", "2") for d in ("bool", "uint16", "float8_e5m2", "int8")),
    "T([True, True]).cumsum_(0)", "T(True).cumsum_(0)", "T([5, 6], dtype=torch.int8).cumprod_(0)",
    "torch.cumsum(T([1, 2]), 0, out=T([True, False]))",
    *(f"torch.arange({start}, {end}, {step}, dtype=torch.{d})" for d in ("int64", "int32")
      for start, end, step in ((0, 64, 0.5), (0, 64, 0), (0, 3, -0.5), (0, 0, 0.5), (0, 2, 1.5))),
    "torch.arange(0, 64, 0.5, out=torch.zeros(0, dtype=torch.int64))",
    "torch.gradient(torch.ones(3), spacing=T(2.))",
    "torch.gradient(torch.ones(2, 2), spacing=[torch.ones(2), torch.ones(2, device='meta')])",
    "torch.gradient(torch.ones(3, device='meta'), spacing=(torch.arange(3.),))",
    *(f"torch.{name}split(torch.ones(5, 5, 5), {n})" for name in "hvd" for n in (0, 2, -1)),
    "torch.linalg.cross(torch.ones(5, 3), torch.ones(5, 1), dim=-1)",
    "torch.linalg.cross(torch.ones(5, 3), torch.ones(5, 3), dim=0)",
    *(f"torch._chunk_cat([{pieces}], 1, 2)" for pieces in (
        "torch.ones(3)", "torch.ones(3, 2), torch.ones(3)", "torch.ones(1, 3)")),
]  # fmt: skip

NOTHING = [
    "torch.ops.aten.index(torch.ones(2), [])",
    *(f"torch.{call}" for d in ("bool", "float16") for call in (
        f"linalg.eigh(torch.zeros(0, 3, 3, dtype=torch.{d}))",
        f"linalg.lu(torch.zeros(0, 3, 2, dtype=torch.{d}))",
        f"linalg.svdvals(torch.zeros(2, 3, 0, dtype=torch.{d}))",
        f"linalg.qr(torch.zeros(0, 3, 3, dtype=torch.{d}))",
        f"matmul(torch.zeros(2, 0, dtype=torch.{d}), torch.zeros(0, 2, dtype=torch.{d}))",
        f"softmax(torch.zeros(0, 2, dtype=torch.{d}), -1)",
    )),
    "torch.softmax(torch.zeros(0, 2, dtype=torch.int64), 1)",
    "torch.linalg.lu_factor(torch.zeros(0, 3, 2), pivot=False)",
    "torch.searchsorted(torch.zeros(0, dtype=torch.bool), torch.zeros(0, dtype=torch.bool))",
    "torch.median(torch.zeros(0, dtype=torch.bool))",
    "torch.kthvalue(T(True), 1, 0)", "torch.mode(T(1 + 2j), 0)", "torch.cummin(T(1 + 2j), 0)",
    "torch.zeros(2, 0).cummax(77)", "torch.roll(torch.zeros(0, 0), 0, 2)",
    "torch.index_add(torch.zeros(0, 3), 0, T([5]), torch.zeros(1, 3))",
    "F.adaptive_avg_pool1d(torch.zeros(0, 2, 4, dtype=torch.complex64), 2)",
    "torch.dot(torch.zeros(0, dtype=torch.bool), torch.zeros(0, dtype=torch.bool))",
    "torch.native_dropout(torch.zeros(0, 2, requires_grad=True), 0.5, True)",
    "F.batch_norm(torch.zeros(0), torch.zeros(7), None, training=True)",
    "torch.cat([torch.zeros(0), torch.zeros(0)], dim=5)",
    "torch.baddbmm(torch.ones(1, 2, 2), torch.ones(1, 2, 2), torch.ones(1, 2, 2), alpha=0)",
    "torch.baddbmm(*[torch.ones(1, 2, 2).int()] * 3, alpha=0)",
    "torch.round(T([1.5]), decimals=400)",
    "torch.arange(12).as_strided((2, 3), (1, 2)).resize_(2, 3).stride()",
    "torch.any(torch.ones(2, 2), dim=[0, True])",
    "torch.linalg.eigvals(T([[[1., 0.], [0., 1.]], [[inf, 1.], [0., 1.]]]))",
    "F.grid_sample(torch.ones(1, 1, 2, 2, 2), T([[[[[nan, 0., 0.]]]]]), align_corners=False)",
    "torch.istft(torch.arange(40).remainder(5).to(torch.complex64).view(10, 4), 10, center=False, "
    "window=torch.ones(10))",
]  # fmt: skip

WRITES = [
    "(x := torch.zeros(1).expand(3)).masked_fill_(T([True, False, False]), 2.)",
    "torch.zeros(1).expand(3).index_fill_(0, T([1]), 2.)",
    "torch.zeros(1).expand(3).index_put_((T([1]),), T(3.))",
    "torch.zeros(1).expand(3).add_(1)",
    "F.threshold(torch.zeros(1).expand(3), 1., 7., inplace=True)",
    "T([1., 0.], requires_grad=True).logical_not_()",
    "T([1., 0.], requires_grad=True).logical_and_(T([1., 1.]))",
    "T([1., 0.], requires_grad=True).eq_(1.)",
    "F.dropout(T([1.], requires_grad=True), 0.5, False, True)",
    "F.alpha_dropout(T([1.], requires_grad=True), 0.0, True, True)",
    "F.dropout(T([1.], requires_grad=True), 0.5, True, True)",
]

SNIPPETS = [*NUMBERS, *VALUES, *OUTS, *KINDS_OF_OUT, *STEPS, *NOTHING, *WRITES]
