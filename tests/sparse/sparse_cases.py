"""Calls on sparse tensors, run with PyTorch (tests/golden/record_sparse.py) and with flambeau."""

EXPRESSIONS = """
s
s+1
s+d
d+s
s+s
s*2
2*s
s*d
d*s
s/2
s/d
s/s
s-1
1-s
s-d
d-s
s**2
s**0.5
-s
abs(s)
s.sqrt()
s.exp()
s.cos()
s.sin()
s.relu()
s.t()
s.transpose(0,1)
s[0]
s[:,2]
s[0,2]
s[0:1]
s.sum()
s.sum(0)
s.norm()
s.mean()
s.max()
s.view(8)
s.reshape(8)
s.unsqueeze(0)
s.index_select(0,torch.tensor([1,1]))
torch.cat([s,s])
torch.cat([s,s],1)
torch.stack([s,s])
s.indices()
s.values()
s._indices()
s.bool()
s.to(torch.float64)
s.tolist()
s.item()
s.numpy()
s.is_contiguous()
s.stride()
s.data_ptr()
s.storage()
s.crow_indices()
c.indices()
c.crow_indices()
c.values()
len(s)
s.permute(1,0)
s.contiguous()
s.clone()
torch.zeros_like(s)
torch.ones_like(s)
torch.empty_like(s)
s.any()
s.isnan()
s.sign()
s.log1p()
s.floor()
s.round()
s.clamp(0,1)
torch.sparse.softmax(s,1)
torch.sparse.log_softmax(s,0)
torch.sparse.sum(s)
torch.sparse.sum(s,0)
torch.sparse.sum(s,1)
torch.sparse.mm(s,d.t())
s@d.t()
s@s.t()
d.t()@s
d@s.t()
s@d[0]
torch.mv(s,d[0])
torch.addmm(d[:,:2],s,d.t())
torch.smm(s,d.t())
torch.hspmm(s,d.t())
torch.spmm(s,d.t())
s.mul_(2)
s.add_(s)
d.add_(s)
s.zero_()
s.is_sparse
s.layout
s.sparse_dim()
s.dense_dim()
s._nnz()
s.type()
s.element_size()
s.numel()
s.sparse_mask(s)
d.sparse_mask(s.coalesce())
s.expand(3,2,4)
s.flatten()
s.T
s.mT
s.H
s.nonzero()
s.tanh()
s.sigmoid()
s.cumsum(0)
s.isinf()
s.is_coalesced()
s//2
s.float_power(2)
s.half()
s.data
list(s)
s.bmm(s)
torch.bmm(torch.stack([s,s]),torch.ones(2,4,3))
s.neg_()
s.sqrt_()
s.coalesce()
s.to_dense()
c
c.to_dense()
s.to_sparse_csc()
s.to_sparse_csc().to_dense()
d.to_sparse()
d.to_sparse(1)
d.to_sparse_bsr((2,2))
d.to_sparse_bsr((2,2)).to_dense()
d.to_sparse_bsc((1,2))
c*2
c*d
c+c
c+d
d+c
c@d.t()
c.t()
c.sum()
c.sum(1,keepdim=True)
c.abs()
c.neg()
c.to_sparse()
torch.sparse.sampled_addmm(c,d,torch.ones(4,4))
torch.sparse_coo_tensor((2,3))
torch.sparse_coo_tensor(i,torch.arange(6.).view(3,2),(2,4,2))
torch.sparse_coo_tensor(i,torch.arange(6.).view(3,2),(2,4,2)).to_dense()
torch.sparse_coo_tensor(i,torch.arange(6.).view(3,2),(2,4,2)).sum(1)
torch.sparse_coo_tensor(torch.tensor([[0,0,0],[1,1,0]]),v,(2,2)).coalesce()
torch.sparse_coo_tensor([[]],[],(2,))
torch.sparse.spdiags(torch.arange(9.).reshape(3,3),torch.tensor([0,-1,2]),(3,3))
torch.sparse.spdiags(torch.arange(9.).reshape(3,3),torch.tensor([0,-1,2]),(3,3),layout=torch.sparse_csr)
s.int()
torch.nn.functional.linear(d,s)
torch.sparse_csr_tensor([[0,1,2],[0,1,2]],[[0,1],[1,0]],[[1.,2.],[3.,4.]],(2,2,2)).to_dense()
s.long()*3
s.requires_grad_()
torch.sparse_coo_tensor(i,v.clone().requires_grad_(),(2,4))
torch.is_tensor(s)
s.shape
s.dtype
s.device
s.is_cuda
s.dim()
s.size()
s.size(0)
torch.add(d,s,alpha=2)
torch.sub(d,s)
torch.mul(s,d)
s.cpu()
s.double()
gradient(lambda x:x.sum(),s)
gradient(lambda x:x.sum(),c)
gradient(lambda x:x@d.t(),s)
gradient(lambda x:d.t()@x,c)
gradient(lambda x:torch.sparse.mm(x,d.t()),s)
gradient(lambda x:x@torch.ones(4),s)
gradient(lambda x:torch.addmm(torch.ones(2,2),x,d.t()),s)
gradient(lambda x:d+x,s)
gradient(lambda x:(x*2).sum(),s)
gradient(lambda x:x*d,s)
gradient(lambda x:x.t(),s)
gradient(lambda x:x.abs(),s)
gradient(lambda x:-x,c)
gradient(lambda x:x+x,s)
gradient(lambda x:torch.sparse.sum(x,0),s)
gradient(lambda x:x.to_sparse_csr(),s)
gradient(lambda x:x.to_sparse_csc(),s)
gradient(lambda x:x.to_dense(masked_grad=False),s)
gradient(lambda x:x.to_dense(masked_grad=False),c)
gradient(lambda x:F.linear(torch.ones(3,4),x),s)
torch.ones(2,4,4).to_sparse_bsr((2,2))
torch.ones(2,4,4).to_sparse_bsc((2,2))
torch.ones(4,4,2).to_sparse_bsr((2,2),dense_dim=1)
torch.ones(2,3,4).to_sparse_csr(dense_dim=1)
torch.ones(2,3,4).to_sparse_csr(dense_dim=1).to_sparse()
c.to_sparse_csc().to_sparse()
c[0]
torch.stack([d,d]).to_sparse_csr()[1]
torch.ones_like(c)
torch.full_like(c,3)
c.clone().fill_(7)
torch.hstack([s,s])
torch.vstack([s,s])
d.clone().mul_(s)
torch.abs(s,out=torch.zeros(2,4).to_sparse())
s.to(torch.int64).zero_()
s.to(torch.int64).sqrt_()
s.to_dense(dtype=torch.float64)
s.to_sparse(1)
c.T
c==c
c.cos()
c.unsqueeze(0)
bool(s)
float(s)
torch.triangular_solve(torch.ones(2,1),torch.tensor([[1.,2],[0,4]]).to_sparse_csr())
torch.autograd.gradcheck(lambda x:x.to_dense(),(s.double().requires_grad_(),),masked=True)
torch.autograd.gradcheck(lambda x:x.to_dense(),(s.double().requires_grad_(),),masked=False)
torch.autograd.gradcheck(lambda x:(x*2).sum(),(s.double().requires_grad_(),),masked=True)
torch.autograd.gradcheck(lambda x:x*x,(s.double().requires_grad_(),),masked=True)
torch.cat([s,torch.ones(3,4).to_sparse()],1)
torch.cat([torch.ones(2,3,4).to_sparse(2),torch.ones(2,3,4).to_sparse()])
s.narrow_copy(-1,0,3)
s.narrow_copy(1,1,2)
s.narrow_copy(0,1,3)
s.narrow_copy(0,0,-1)
s.norm(dtype=torch.double)
s.norm(2,dtype=torch.double)
s.clone().copy_(s.narrow_copy(0,0,1))
c.clone().copy_(d)
d.clone().copy_(c)
c.clone().copy_(torch.zeros(2,4).to_sparse_csr())
c.clone().copy_(c.t())
c.clone().copy_(c.to_sparse_csc())
c.clone().copy_(c*2)
s.__setitem__(0,1)
c.__setitem__(0,1)
d.__setitem__(slice(0,2),s)
torch.zeros_like(s,memory_format=torch.preserve_format)
torch.zeros_like(d,layout=torch.sparse_coo)
torch.zeros_like(c,layout=torch.sparse_csc)
torch.empty_like(d,layout=torch.sparse_coo)
torch.empty_like(c,layout=torch.sparse_csc)
torch.empty_like(c).col_indices()
torch.randn_like(c).col_indices()
torch.ones(2,3,layout=torch.sparse_coo)
torch.full((2,),1.,layout=torch.sparse_coo)
torch.zeros(2,layout=torch.sparse_csr)
torch.zeros(2,3,4,layout=torch.sparse_csc)
torch.zeros(2,3,layout=torch.sparse_bsr)
torch.zeros(3,4,out=s.clone())
torch.zeros(3,out=s.clone(),dtype=torch.float64)
torch.zeros(2,5,out=c.clone())
torch.ones(2,4,out=s.clone())
s.new_zeros(2,3)
c.new_empty((2,3)).layout
s.new()
s.new([6])
s.new(v)
s.new(device='meta')
bool(torch.empty(0).to_sparse())
s*torch.tensor(2.,dtype=torch.float64).to_sparse()
torch.tensor(3.).to_sparse()*torch.tensor(3,dtype=torch.int32).to_sparse()
torch.ones(3).to_sparse(1)/torch.tensor(2.).to_sparse()
s@torch.ones(4,2).double()
torch.ones(3,2)@s.double()
s@torch.ones(4,2).double().to_sparse()
c@torch.ones(4,2).double()
torch.sparse_coo_tensor([[0,0]],torch.tensor([200,100],dtype=torch.uint8),(2,))[0]
torch.sparse_coo_tensor([[0,0]],[True,True],(2,))[0]
torch.sparse.spdiags(torch.tensor(1.),torch.tensor([0]),(2,2))
torch.hsmm(s,torch.ones(4,2))
torch.saddmm(torch.ones(2,2).to_sparse(),s,torch.ones(4,2),beta=.5,alpha=2.)
c.clone().resize_(3,5)
c.clone().resize_(1,4)
c.clone().resize_(2)
c.clone().resize_(2,3)
c.is_contiguous()
c.untyped_storage()
c.clone().conj_physical_()
torch.select_copy(c,0,0)
torch.ones(2,3,2).to_sparse_csr(dense_dim=1).select(2,1)
c+c.t()
c.to_sparse_csc().sum(0,True)
s.broadcast_to(2,2,4)
torch.sparse_coo_tensor([[0]],torch.arange(6.).reshape(1,2,3),(2,2,3)).sparse_resize_((2,2,3),1,2)
torch.sparse_coo_tensor([[0]],torch.arange(6.).reshape(1,2,3),(2,2,3)).sparse_resize_((1,2,3),1,2)
torch.sparse_coo_tensor([[0]],torch.arange(6.).reshape(1,2,3),(2,2,3)).sparse_resize_((2,2,3,4),1,3)
torch._validate_sparse_coo_tensor_args(torch.tensor([[0],[5]]),torch.ones(1),(2,3))
torch._validate_sparse_coo_tensor_args(i,v,(2,4))
torch._validate_sparse_compressed_tensor_args(c.crow_indices(),c.col_indices(),c.values(),(2,4),c.layout)
torch._validate_sparse_compressed_tensor_args(c.crow_indices(),c.col_indices(),c.values(),(2,4),torch.strided)
torch._validate_sparse_csr_tensor_args(torch.tensor([0,5]),torch.tensor([1]),torch.ones(1),(1,3))
torch._validate_sparse_csr_tensor_args(torch.tensor([0,1]),torch.tensor([7]),torch.ones(1),(1,3))
torch._validate_sparse_csr_tensor_args(torch.zeros(0,3).long(),torch.zeros(0,2).long(),torch.zeros(0,2),(0,2,3))
torch._validate_sparse_csr_tensor_args(torch.tensor([0,1]),torch.tensor([1]),torch.ones(1),(3,))
torch._validate_sparse_csr_tensor_args(torch.tensor([[0,1]]),torch.tensor([[1]]),torch.ones(1,1),(2,1,3))
torch._validate_sparse_bsr_tensor_args(torch.tensor([0,1]),torch.tensor([0]),torch.ones(1,2,2),(2,3))
torch._validate_sparse_csr_tensor_args(torch.tensor([0,1]).int(),torch.tensor([1]),torch.ones(1),(1,3))
torch._validate_sparse_csr_tensor_args(torch.tensor([0,1]).short(),torch.tensor([1]).short(),torch.ones(1),(1,3))
torch._validate_sparse_csr_tensor_args(torch.tensor([0,2,0,2])[::2],torch.tensor([1]),torch.ones(1),(1,3))
torch._validate_compressed_sparse_indices(True,torch.tensor([0,1]),torch.tensor([4]),1,1,1)
gradient(lambda x:torch.sparse.mm(x,x.t()).to_dense()**2,torch.sparse_coo_tensor(i*0,v,(2,2)))
gradient(lambda x:x.coalesce().values()**2,torch.sparse_coo_tensor(i*0,v,(2,2)))
torch.sparse.sampled_addmm(c,torch.ones(2,3),torch.ones(3,4),out=c.clone())
torch.ones(0,2,2).to_sparse_csr()
torch.ones(2,0,2).to_sparse_csr().crow_indices()
torch._validate_sparse_csr_tensor_args(torch.tensor([0,2,3,3]),i[1],v,(2,3))
torch._validate_sparse_bsc_tensor_args(torch.tensor([0]),i[1],v[:,None,None],(2,3))
torch.select_copy(c,1,2)
gradient(lambda x:x*torch.ones(2,4).to_sparse_csr(),c)
""".strip().splitlines()


def gradient(function, t):
    """The name of the node that a function makes, and the gradient of its weighted sum."""
    x = t.detach().clone().requires_grad_()
    out = function(x)
    dense = out if str(out.layout) == "torch.strided" else out.to_dense()
    weights = [[k + 1.0] for k in range(dense.numel())]
    (dense.reshape(-1, 1) * dense.new_tensor(weights)).sum().backward()
    return type(out.grad_fn).__name__, str(x.grad)


def names(torch):
    """What expressions speak of."""
    i, v = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([3.0, 4, 5])
    s = torch.sparse_coo_tensor(i, v, (2, 4))
    return {
        "torch": torch,
        "i": i,
        "v": v,
        "s": s,
        "d": torch.arange(8.0).reshape(2, 4),
        "c": s.to_sparse_csr(),
        "F": torch.nn.functional,
        "gradient": gradient,
    }


def outcome(torch, expression):
    """The text of a result, or the type and the first words of an error."""
    try:
        result = eval(expression, names(torch))
    except Exception as error:  # whatever PyTorch raises
        return f"{type(error).__name__}: {str(error)[:50]}"
    text = str(result)
    if isinstance(result, torch.Tensor) and result.is_sparse:
        text += f" coalesced={result.is_coalesced()}"
    return text


def numbers(torch):
    """Results and gradients of products, sums and softmax."""
    found = []

    def note(*tensors):
        for t in tensors:
            t = t.detach()
            found.extend((t if t.layout is torch.strided else t.to_dense()).reshape(-1).tolist())

    torch.manual_seed(0)
    x = torch.randn(5, 3)
    a = torch.rand(6, 5) * (torch.rand(6, 5) > 0.5)
    for form in ("to_sparse", "to_sparse_csr"):
        s, y = getattr(a, form)().requires_grad_(), x.clone().requires_grad_()
        (torch.sparse.mm(s, y) * torch.randn(6, 3)).sum().backward()
        note(y.grad, *([s.grad] if form == "to_sparse" else []))
        y.grad = None
        (torch.matmul(s.detach(), y) ** 2).sum().backward()
        note(y.grad)
    one = a.to_sparse().requires_grad_()
    two = a.t().contiguous().to_sparse().requires_grad_()
    product = torch.sparse.mm(one, two)
    torch.sparse.sum(product).backward()
    note(product, one.grad, two.grad)
    for dim in (0, 1, (0, 1)):
        s = a.to_sparse().requires_grad_()
        total = torch.sparse.sum(s, dim)
        (torch.sparse.sum(total * 2) if total.is_sparse else total * 2).backward()
        note(s.grad)
    for function in (torch.sparse.softmax, torch.sparse.log_softmax):
        for dim in (0, 1):
            s = a.to_sparse().requires_grad_()
            out = function(s, dim)
            (torch.sparse.mm(out, x) ** 2).sum().backward()
            note(out, s.grad)
    s = a.to_sparse().requires_grad_()
    (s.to_dense() ** 2).sum().backward()
    y = a.clone().requires_grad_()
    (torch.sparse.mm(y.to_sparse(), x) ** 2).sum().backward()
    note(s.grad, y.grad)
    v = torch.randn(3).requires_grad_()
    s = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [0, 1, 1]]), v, (2, 2)).coalesce()
    (s.values() ** 2).sum().backward()
    note(v.grad)
    m = torch.sparse.sampled_addmm(
        a.to_sparse_csr(), torch.randn(6, 4), torch.randn(4, 5), beta=0.5, alpha=2.0
    )
    note(m)
    return found


OPTIMIZERS = {
    "SGD": {},
    "SGD with momentum": {"momentum": 0.9},
    "Adagrad": {"lr_decay": 0.1},
    "SparseAdam": {},
}


def embedding_losses(torch, name):
    """Losses of embeddings with sparse gradients."""
    torch.manual_seed(1)
    table = torch.nn.Embedding(10, 4, sparse=True, padding_idx=2)
    bags = torch.nn.EmbeddingBag(10, 4, sparse=True, mode="mean")
    layer = torch.nn.Linear(4, 1)
    parameters = [*table.parameters(), *bags.parameters()]
    optimizer = getattr(torch.optim, name.split()[0])(parameters, lr=0.1, **OPTIMIZERS[name])
    losses = []
    for _ in range(6):
        places = torch.randint(0, 10, (3, 4))
        optimizer.zero_grad()
        loss = (layer(table(places)) ** 2).sum() + (layer(bags(places)) - 1).pow(2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# -- graph networks --------------------------------------------------------------------------------


def graph(torch, nodes=40, edges=120, features=8):
    torch.manual_seed(3)
    ends = torch.randint(0, nodes, (2, edges))
    loops = torch.arange(nodes).repeat(2, 1)
    places = torch.cat([ends, ends.flip(0), loops], 1)
    a = torch.sparse_coo_tensor(places, torch.ones(places.shape[1]), (nodes, nodes)).coalesce()
    x = torch.randn(nodes, features)
    return a, x, torch.randint(0, 3, (nodes,))


def gcn(torch, a, x):
    """Two layers of graph convolution (Kipf and Welling)."""
    degrees = torch.sparse.sum(a, 1).to_dense().pow(-0.5)
    i = a.indices()
    scaled = torch.sparse_coo_tensor(i, a.values() * degrees[i[0]] * degrees[i[1]], a.shape)
    scaled = scaled.coalesce()
    first, second = torch.nn.Linear(x.shape[1], 16), torch.nn.Linear(16, 3)
    parameters = [*first.parameters(), *second.parameters()]
    relu = torch.nn.functional.relu
    return parameters, lambda: torch.sparse.mm(
        scaled, second(relu(torch.sparse.mm(scaled, first(x))))
    )


def gat(torch, a, x):
    """A layer of graph attention (Velickovic et al.): the softmax is that of a sparse matrix."""
    layer, out = torch.nn.Linear(x.shape[1], 16), torch.nn.Linear(16, 3)
    left, right = torch.randn(16, 1).requires_grad_(), torch.randn(16, 1).requires_grad_()
    parameters = [*layer.parameters(), *out.parameters(), left, right]
    i = a.indices()

    def forward():
        h = layer(x)
        scores = (h @ left)[i[0], 0] + (h @ right)[i[1], 0]
        scores = torch.nn.functional.leaky_relu(scores, 0.2)
        shares = torch.sparse.softmax(torch.sparse_coo_tensor(i, scores, a.shape), 1)
        return out(torch.nn.functional.elu(torch.sparse.mm(shares, h)))

    return parameters, forward


def network_losses(torch, name):
    """Losses of a graph network that learns labels of nodes."""
    a, x, labels = graph(torch)
    torch.manual_seed(4)
    parameters, forward = {"GCN": gcn, "GAT": gat}[name](torch, a, x)
    optimizer = torch.optim.Adam(parameters, lr=0.02)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(forward(), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
