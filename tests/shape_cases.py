"""Snippets about odd corners of views, subscripts, joins and new tensors (see snippets.py)."""

_GRID = "x = torch.arange(9).view(3, 3); "

PARTS = [
    _GRID + "x.narrow(0, torch.tensor(1), 1)",
    _GRID + "torch.narrow(x, 0, torch.tensor(1, dtype=torch.int8), 1)",
    _GRID + "x.narrow(0, start=torch.tensor(1), length=1)",
    _GRID + "x.narrow(0, torch.tensor(0.0), 1)",
    _GRID + "x.narrow(0, torch.tensor([0]), 1)",
    _GRID + "x.narrow(0, torch.tensor(True), 1)",
    _GRID + "x.narrow(0, torch.tensor([0, 1]), 1)",
    _GRID + "torch.tensor_split(x, torch.tensor(2))",
    _GRID + "torch.tensor_split(x, torch.tensor([1, 2]))",
    _GRID + "torch.tensor_split(x, torch.tensor(1.1))",
    _GRID + "torch.tensor_split(x, torch.tensor(True))",
    _GRID + "torch.tensor_split(x, torch.tensor([1], dtype=torch.int32))",
    _GRID + "torch.tensor_split(x, torch.tensor([[1]]))",
    _GRID + "torch.tensor_split(x, torch.tensor([[1.0]]))",
    _GRID + "torch.tensor_split(x, (1, 2.0))",
    _GRID + "torch.tensor_split(x, ['a'])",
    _GRID + "torch.tensor_split(x, (torch.tensor(1),))",
    "a = torch.arange(4); a.__delitem__(0)",
    "torch.rand(2, 2, 2).to_sparse().t()",
    "torch.rand(2, 2).to_sparse(1).t()",
    "torch.rand(2, 2, 2).to_sparse(1).t()",
]

_PLACES = "u = torch.unravel_index; i = torch.tensor([1]); "

_BYTES = "m = torch.tensor([1, 1], dtype=torch.uint8); "

PLACES = [
    _PLACES + "u(torch.tensor(0.5), (2, 2))",
    _PLACES + "u(i, torch.tensor([1, 2, 3]))",
    _PLACES + "u(i, (1, 2, 2.0))",
    _PLACES + "[p.tolist() for p in u(i, (1, 2, True))]",
    _PLACES + "u(i, 2.0)",
    _PLACES + "u(i, (2, -3))",
    _PLACES + "u(i, [torch.tensor(2), 2])",
    _PLACES + "u(torch.tensor(3), 2)",
    _PLACES + "u(torch.tensor(3), {2, 3})",
    "a = torch.arange(4); a[a > -1] = torch.tensor([1.0, 2.0, 3.0])",
    "a = torch.arange(4); a[a > -1] = torch.tensor([])",
    "a = torch.arange(4); a[a > -1] = torch.tensor([1.0, 2.0, 3.0, 4.0])",
    "a = torch.arange(4); a[a > -1] = torch.tensor([5.0]); a",
    "a = torch.arange(4); a[torch.tensor([0, 9])] = torch.tensor([1.0, 2.0])",
    "a = torch.arange(4); a[torch.tensor([0, 9])] = torch.tensor([1.0, 2.0, 3.0])",
    _BYTES + "torch.zeros(2)[m]",
    _BYTES + "torch.zeros(2).index_put((m,), torch.ones(2))",
    _BYTES + "a = torch.zeros(2, 2); a[m, 0] = torch.ones(2); a",
    "torch.nonzero(torch.eye(2), as_tuple=True, out=torch.empty(0, dtype=torch.long)).tolist()",
    "torch.nonzero(torch.eye(2), as_tuple=True, out=torch.empty(0))",
    "torch.nonzero(torch.eye(2), as_tuple=False, out=torch.empty(0, dtype=torch.long)).tolist()",
]

_LAST = "x = torch.arange(48.0).view(2, 3, 2, 4).to(memory_format=torch.channels_last); "
_RESIZED = _LAST + "f = torch.zeros(48); "

LAYOUTS = [
    _RESIZED + "f.resize_as_(x, memory_format=torch.preserve_format).stride()",
    _RESIZED + "torch.resize_as_(f, x, memory_format=torch.channels_last).stride()",
    _RESIZED + "torch.resize_as_(f, x).stride()",
    _RESIZED + "f.resize_(2, 3, 2, 4, memory_format=torch.preserve_format)",
    _RESIZED + "f.resize_as_(x.transpose(1, 2), memory_format=torch.preserve_format).stride()",
    _LAST + "torch.cat([x[..., :2], x[..., 1:]], -1).stride()",
    _LAST + "torch.cat([x, x]).stride(), torch.cat([x, x], 1).stride()",
    _LAST + "torch.cat([x, x.contiguous()], 1).stride()",
    _LAST + "torch.cat([torch.rand(0), x], 1).stride()",
    "torch.meshgrid(torch.ones(2), torch.ones(1, device='meta'), indexing='ij')",
]

_ONE_PLACE = "x = torch.zeros(1).expand(10); "
_HALF = "torch.set_default_dtype(torch.float16); "
_NO_SEQUENCE = (
    "class S:\n    def __len__(self): return 2\n    def __getitem__(self, i): raise TypeError\n"
)

MADE = [
    _ONE_PLACE + "torch.linspace(1, 10, 10, out=x)",
    _ONE_PLACE + "torch.logspace(1, 10, 10, out=x)",
    _ONE_PLACE + "torch.arange(0, 10, out=x)",
    _ONE_PLACE + "torch.zeros(10, out=x).sum()",
    _HALF + "torch.full((2,), 1 + 1j).dtype, torch.tensor([1j]).dtype, torch.full((2,), 1.0).dtype",
    "torch.zeros(2, out=torch.zeros(2), layout=torch.sparse_coo)",
    "torch.zeros(2, out=torch.zeros(2), layout=torch.sparse_csr)",
    "torch.complex(torch.rand(2), torch.rand(2), out=torch.rand(2))",
    "torch.polar(torch.rand(2), torch.rand(2), out=torch.zeros(2, dtype=torch.complex128))",
    "torch.normal(torch.tensor(0.0), -1, (2,))",
    "torch.normal(torch.tensor(0.0), torch.tensor(1.0), (2,)).shape",
    "torch.normal(torch.zeros(2), 1, (2,))",
    "torch.zeros(2).untyped_storage().filename",
    "torch.FloatTensor(5, device='meta')",
    "torch.Tensor((2.0, 3.0), device='cuda')",
    "torch.zeros(1).new((2.0, 3.0), device='meta')",
    "torch.Tensor(torch.zeros(1), device='cpu')",
    "torch.zeros(1).new(torch.zeros(1), device='cpu')",
    _NO_SEQUENCE + "torch.tensor(S())",
    "z = [0]; z += [z]; torch.tensor(z)",
    "z = [0]; z += [z]; torch.as_tensor([[1, 2], z])",
    "torch.asarray(torch.utils.dlpack.to_dlpack(torch.arange(3)))",
    "torch.asarray(np.float64(0.5)), torch.asarray(np.float64(0.5), copy=True)",
    "torch.asarray(np.float64(0.5), copy=False)",
    "x = torch.ones(2, requires_grad=True); y = torch.asarray(x); y is x, y.requires_grad",
    "x = torch.ones(2, requires_grad=True); torch.asarray(x, copy=True), torch.asarray(x * 2)",
    "x = torch.ones(2, requires_grad=True); torch.asarray(x, dtype=torch.float64)",
    "x = torch.ones(2, requires_grad=True); torch.asarray(x * 2, requires_grad=False)",
    "x = torch.ones(2); torch.asarray(x, requires_grad=True) is x, x.requires_grad",
    "torch.asarray([1, 2], requires_grad=True)",
]

_HALVES = "a, b = torch.tensor(1.5).half(), torch.tensor(0.666).half(); "
_SPARSE = (
    "s = torch.sparse_coo_tensor([[0, 1]], torch.tensor([1, 2], dtype=torch.uint8), (3,)); "
    "t = torch.sparse_coo_tensor([[0, 2]], torch.tensor([1, 2], dtype=torch.int8), (3,)); "
)

_SEGMENTS = (
    "d = torch.tensor([[1, 1], [math.nan, 0], [3, math.nan], [4, 0], [3, 2], [2, 0.0]]); "
    "d.requires_grad_(); n = torch.tensor([1, 2, 3, 0]); "
    "r = torch.segment_reduce(d, {}); torch.where(r.isnan(), r * 1, r).nansum().backward(); d.grad"
)
_CAPSULED = (
    "class W:\n"
    "    def __dlpack__(self, *a, **k): return torch.arange(3).__dlpack__(*a, **k)\n"
    "    def __dlpack_device__(self): return (1, 0)\n"
)

OTHERS = [
    "torch.Storage is torch.FloatStorage, torch.Storage(np.int64(3)).size()",
    "torch.set_default_dtype(torch.float64); torch.Storage is torch.DoubleStorage",
    _CAPSULED + "torch.tensor(W()), torch.as_tensor(W()), torch.as_tensor(W(), dtype=torch.float)",
    "torch.eye(2).to_sparse().__dlpack__()",
    "torch.tensor([np.array([0]), np.array([1])])",
    *[
        _SEGMENTS.format(f"'{how}', lengths=n{more}")
        for how in ("max", "min", "mean", "prod", "sum")
        for more in ("", ", initial=3.0")
    ],
    "d = torch.tensor([2.0, 2.0, 1.0], requires_grad=True); n = torch.tensor([3]); "
    "torch.segment_reduce(d, 'max', lengths=n, initial=2).sum().backward(); d.grad",
]

DTYPES = [
    _HALVES + "torch.true_divide(a, b, out=torch.empty(0, dtype=torch.float64))",
    "t = torch.tensor(33000.0).half(); torch.add(t, t, out=torch.empty(0, dtype=torch.float64))",
    "torch.exp(torch.tensor(12.0).half(), out=torch.empty(()))",
    "torch.div(torch.tensor([1.0, 2.0]), 3, out=torch.empty(0, dtype=torch.float64))",
    "a = torch.tensor([200, 5], dtype=torch.uint8); torch.add(a, a, out=torch.empty(0))",
    _SPARSE + "s.add_(t).to_dense()",
    _SPARSE + "s.sub_(t).to_dense()",
    _SPARSE + "s.mul_(t).to_dense()",
    _SPARSE + "s.add_(t.float())",
    _SPARSE + "s.mul_(t.float())",
    _SPARSE + "torch.zeros(3, dtype=torch.uint8).add_(t.float())",
    _SPARSE + "torch.zeros(3, dtype=torch.uint8).mul_(t.float())",
    _SPARSE + "torch.full((3,), 500, dtype=torch.int16).sub_(s)",
    "x = torch.tensor([[math.nan, 1.0], [math.nan, 1.0]]); torch.unique(x, dim=0)",
    "x = torch.tensor([[1.0, 1.0], [1.0, 1.0]]); torch.unique(x, dim=0)",
    "x = torch.tensor([math.nan, math.nan]); torch.unique_consecutive(x, dim=0)",
    "torch._segment_reduce(torch.arange(4.0), 'sum', lengths=torch.tensor([1, 3]))",
]

_QUANTIZED = (
    "q = torch._empty_affine_quantized([4, 5], scale=2, zero_point=3, dtype=torch.quint8); "
)

QUANTIZED = [
    _QUANTIZED + "[f()._base is q for f in (q.ravel, q.flatten, lambda: q.reshape(2, 10))]",
    _QUANTIZED + "q.contiguous() is q, q.cpu() is q, q.clone()._base is None",
    _QUANTIZED + "q.t().reshape(-1)._base is None, q.t().contiguous().is_contiguous()",
]

SNIPPETS = [*PARTS, *PLACES, *LAYOUTS, *MADE, *OTHERS, *DTYPES, *QUANTIZED]
