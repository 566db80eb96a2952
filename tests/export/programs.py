# ruff: noqa: E501 (a body is one line)
"""Small programs: what they are given, what their forward does, and a module they hold.

name: (inputs, body of forward, constructor of self.m or None); "@b:" lists buffers instead.
"""

import math
import textwrap
from typing import Any

PROGRAMS: dict[str, tuple] = {
    "add": ("r(2,3), r(3)", "return x + y * 2"),
    "scalars": (
        "r(2,3)",
        "return (x + 1, 2 - x, 1 / x, x ** 2, 2 ** x, x // 2, x % 3, -x, x - 0.5, x / 2)",
    ),
    "compare": ("r(2,3)", "return (x > 0, x == x, x <= 1.5, (x > 0) & (x < 1), ~(x > 0), x != 2)"),
    "unary": (
        "r(2,3)",
        "return (x.exp(), torch.sin(x), x.abs(), torch.sqrt(x), x.sigmoid(), torch.tanh(x), x.rsqrt(), x.floor(), x.log1p(), torch.erf(x), x.neg(), x.sign(), x.reciprocal(), x.square())",
    ),
    "reduce": (
        "r(2,3)",
        "return (x.sum(), x.sum(0), x.mean(-1, keepdim=True), x.mean(), x.max(), x.amax(1), x.prod(1), x.var(0), x.std(), x.norm(), x.logsumexp(1), x.all(), x.any(1))",
    ),
    "maxdim": (
        "r(2,3)",
        "v, i = x.max(1)\nm = torch.min(x, 0)\nreturn v, i, m.values, x.argmax(1), x.argmin(), torch.max(x, y)",
        None,
        "r(2,3)",
    ),
    "sort": (
        "r(5)",
        "s, i = torch.sort(x)\nt = x.topk(2)\nreturn s, i, t[0], x.argsort(descending=True), x.cumsum(0), x.kthvalue(2)[0]",
    ),
    "views": (
        "r(2,3,4)",
        "return (x.view(6,4), x.reshape(-1), x.transpose(0,1), x.permute(2,0,1), x.unsqueeze(0), x[None], x.squeeze(), x.flatten(1), x.expand(5,2,3,4), x.mT, x.movedim(0,2), x.t() if x.dim()==2 else x.swapaxes(0,1))",
    ),
    "index": (
        "r(4,5)",
        "return (x[0], x[1:3], x[:, 2], x[..., -1], x[::2], x[0, 1:3], x[:, None], x[x > 0] if False else x[torch.tensor([0,2])], x[:, [1,2]])",
    ),
    "joining": (
        "r(2,3), r(2,3)",
        "return (torch.cat([x, y]), torch.stack([x, y], 1), torch.hstack([x,y]), torch.vstack((x,y)))",
    ),
    "splitting": (
        "r(6,4)",
        "a, b = x.chunk(2)\nc, d = x.split([2, 4])\ne = x.split(3)\nf = x.unbind(1)\nreturn a + b, c, d, e[0], f[1], torch.tensor_split(x, 3)[1]",
    ),
    "creation": (
        "r(2,3)",
        "return (torch.zeros(2, 3), torch.ones_like(x), torch.arange(4), torch.full((2,), 1.5), x.new_zeros(3), torch.eye(3), torch.empty_like(x).fill_(1), torch.linspace(0, 1, 3), torch.tensor(2.0) + x)",
    ),
    "convert": (
        "r(2,3)",
        "return (x.double(), x.to(torch.float16), x.int(), x.to(torch.float32), x.type_as(x), x.clone(), x.detach(), x.contiguous(), x.bool())",
    ),
    "where": (
        "r(2,3), r(2,3)",
        "return (torch.where(x > 0, x, y), x.masked_fill(x > 0, 0.0), x.clamp(0, 1), x.clamp(min=0), torch.where(x > 0, x, 0.0), x.maximum(y), torch.tril(x), torch.triu(x, 1), torch.lerp(x, y, 0.5))",
    ),
    "matmul": (
        "r(2,3), r(3,4)",
        "return (x @ y, torch.mm(x, y), x.matmul(y), torch.addmm(torch.zeros(4), x, y), torch.einsum('ij,jk->ik', x, y), torch.bmm(x[None], y[None]), torch.mv(x, y[:, 0]), torch.dot(x[0], y[:,0]), torch.outer(x[0], y[0]))",
    ),
    "inplace": (
        "r(2,3)",
        "y = x + 1\ny.add_(2)\ny.mul_(x)\ny[0] = 0\ny[:, 1] = x[:, 0]\ny.relu_()\ny.clamp_(0, 2)\nz = y.view(-1)\nz.fill_(3)\ny += 1\nreturn y",
    ),
    "gather": (
        "r(3,4), torch.tensor([[0,1],[1,2],[2,0]])",
        "return (x.gather(1, y), x.scatter(1, y, 0.0), x.index_select(0, y[:,0]), torch.take_along_dim(x, y, 1), x.scatter_add(1, y, x), x.repeat(2, 1), x.tile(2), x.roll(1, 0), x.flip(0), x.repeat_interleave(2, 0))",
    ),
    "linear": ("r(2,3)", "return self.m(x)", "nn.Linear(3,4)"),
    "linear_nobias": ("r(2,5,3)", "return self.m(x)", "nn.Linear(3,4,bias=False)"),
    "mlp": (
        "r(2,3)",
        "return self.m(x)",
        "nn.Sequential(nn.Linear(3,8),nn.ReLU(),nn.Dropout(0.1),nn.Linear(8,2),nn.LogSoftmax(-1))",
    ),
    "conv": (
        "r(1,3,8,8)",
        "return self.m(x)",
        "nn.Sequential(nn.Conv2d(3,4,3,stride=2,padding=1),nn.ReLU(inplace=True),nn.MaxPool2d(2),nn.Conv2d(4,8,1,bias=False),nn.AvgPool2d(2),nn.Flatten())",
    ),
    "conv1d3d": (
        "r(1,2,8), r(1,2,4,4,4)",
        "return self.m[0](x), self.m[1](y), self.m[2](x)",
        "nn.ModuleList([nn.Conv1d(2,3,3,padding='same'),nn.Conv3d(2,3,2),nn.ConvTranspose1d(2,3,3,stride=2)])",
    ),
    "bn_train": ("r(2,3,4,4)", "return self.m(x)", "nn.BatchNorm2d(3)"),
    "bn_eval": ("r(2,3,4,4)", "return self.m(x)", "nn.BatchNorm2d(3).eval()"),
    "norms": (
        "r(2,4,6)",
        "return self.m[0](x), self.m[1](x), self.m[2](x), self.m[3](x)",
        "nn.ModuleList([nn.LayerNorm(6),nn.GroupNorm(2,4),nn.InstanceNorm1d(4),nn.RMSNorm(6)])",
    ),
    "activations": (
        "r(2,3)",
        "return (F.gelu(x), F.gelu(x,approximate='tanh'), F.silu(x), F.leaky_relu(x,0.2), F.elu(x), F.selu(x), F.softplus(x), F.hardtanh(x), F.hardswish(x), F.relu6(x), F.mish(x), F.log_softmax(x,1), F.softmax(x,dim=-1), F.softsign(x), F.tanhshrink(x), F.logsigmoid(x), F.hardsigmoid(x), F.celu(x), F.glu(x[:, :2]))",
    ),
    "prelu": ("r(2,3)", "return self.m(x)", "nn.PReLU()"),
    "embedding": (
        "torch.tensor([[1,2],[0,3]])",
        "return self.m(x)",
        "nn.Embedding(5,3,padding_idx=0)",
    ),
    "lstm": ("r(2,5,3)", "o, (h, c) = self.m(x)\nreturn o, h, c", "nn.LSTM(3,4,batch_first=True)"),
    "gru": ("r(5,2,3)", "return self.m(x)", "nn.GRU(3,4)"),
    "rnn": ("r(5,2,3)", "return self.m(x)[0]", "nn.RNN(3,4)"),
    "lstmcell": ("r(2,3)", "return self.m(x)", "nn.LSTMCell(3,4)"),
    "sdpa": (
        "r(1,2,5,4)",
        "return (F.scaled_dot_product_attention(x,x,x), F.scaled_dot_product_attention(x,x,x,is_causal=True))",
    ),
    "mha": ("r(2,5,8)", "return self.m(x,x,x)", "nn.MultiheadAttention(8,2,batch_first=True)"),
    "mha_noweights": (
        "r(2,5,8)",
        "return self.m(x,x,x,need_weights=False)[0]",
        "nn.MultiheadAttention(8,2,batch_first=True)",
    ),
    "encoder": (
        "r(2,5,8)",
        "return self.m(x)",
        "nn.TransformerEncoderLayer(8,2,16,batch_first=True)",
    ),
    "encoder_eval": (
        "r(2,5,8)",
        "return self.m(x)",
        "nn.TransformerEncoderLayer(8,2,16,batch_first=True).eval()",
    ),
    "losses": (
        "r(4,3), torch.tensor([0,2,1,1])",
        "return (F.cross_entropy(x,y), F.nll_loss(x,y), F.mse_loss(x,x+1), F.l1_loss(x,x*2), F.smooth_l1_loss(x,x*2), F.binary_cross_entropy_with_logits(x,x), F.kl_div(x,x), F.huber_loss(x,x*2))",
    ),
    "pools": (
        "r(1,2,8,8)",
        "return (F.max_pool2d(x,3,2,1), F.avg_pool2d(x,2), F.adaptive_avg_pool2d(x,(2,2)), F.adaptive_max_pool2d(x,2), F.max_pool2d(x,2,return_indices=True)[1], F.avg_pool2d(x,3,1,1,count_include_pad=False), F.lp_pool2d(x,2,2))",
    ),
    "padding": (
        "r(1,2,4,4)",
        "return (F.pad(x,(1,1)), F.pad(x,(1,1,1,1),mode='reflect'), F.pad(x,(1,0,0,1),value=2.0), F.interpolate(x,scale_factor=2), F.interpolate(x,size=(3,3),mode='bilinear',align_corners=False), F.pixel_shuffle(x.repeat(1,2,1,1),2), F.unfold(x,2), F.normalize(x,dim=1), F.one_hot(x[0,0].long().abs(),9))",
    ),
    "random": (
        "r(2,3)",
        "return (torch.rand(2), torch.randn_like(x), torch.bernoulli(x.sigmoid()), F.dropout(x), torch.randint(0,5,(3,)), torch.rand_like(x))",
    ),
    "buffers": (
        "r(3)",
        "self.count.add_(1)\nself.mean.mul_(0.9).add_(x, alpha=0.1)\nreturn x - self.mean",
        "@b:count=torch.zeros(()),mean=torch.zeros(3)",
    ),
    "kwargs": (
        "r(2), dict(a=r(2), b=[r(2), r(2)])",
        "return {'s': x + y['a'], 'l': [y['b'][0], y['b'][1] * 2]}",
    ),
    "branch": ("r(2,3)", "if x.shape[0] > 1:\n    return x * 2\nreturn x"),
    "loop": ("r(3)", "for k in range(3):\n    x = x + k\nreturn x"),
    "constant": ("r(2)", "return x + torch.tensor([1.0, 2.0])"),
    "unused": ("r(2), r(2)", "z = y * 2\nreturn x"),
    "returns_input": ("r(2)", "return x, x, None, 3"),
    "shared": ("r(2,3)", "return self.m(self.m(x))", "nn.Linear(3,3)"),
    "linalg": (
        "r(3,3)",
        "return (torch.linalg.norm(x), torch.linalg.inv(x), torch.linalg.det(x), torch.linalg.solve(x, x), torch.linalg.cholesky(x @ x.T + torch.eye(3)), torch.linalg.vector_norm(x, dim=1), torch.trace(x), torch.diag(x), torch.kron(x, x))",
    ),
    "complex": (
        "r(4)",
        "f = torch.fft.rfft(x)\nreturn f.abs(), f.real, torch.fft.irfft(f, 4), torch.view_as_real(f)",
    ),
    "isthings": (
        "r(3)",
        "return (x.isnan(), torch.isfinite(x), x.isinf(), torch.isclose(x, x), torch.nan_to_num(x), x.numel(), torch.count_nonzero(x), torch.logical_and(x, x))",
    ),
    "setitem": (
        "r(4,4)",
        "y = x.clone()\ny[1] = x[0]\ny[:, 0] += 1\ny[torch.tensor([0,1])] = 5.0\ny[1:3, 2] = 7\ny[0, 0] = x[1, 1]\nreturn y",
    ),
    "residual": (
        "r(1,4,6,6)",
        "return F.relu(x + self.m(x))",
        "nn.Sequential(nn.Conv2d(4,4,3,padding=1,bias=False),nn.BatchNorm2d(4),nn.ReLU(),nn.Conv2d(4,4,3,padding=1,bias=False),nn.BatchNorm2d(4)).eval()",
    ),
    "attention": (
        "r(2,5,8)",
        "B, T, C = x.shape\nq, k, v = self.m(x).split(8, dim=2)\nq = q.view(B, T, 2, 4).transpose(1, 2)\nk = k.view(B, T, 2, 4).transpose(1, 2)\nv = v.view(B, T, 2, 4).transpose(1, 2)\na = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(4))\na = a.masked_fill(torch.tril(torch.ones(T, T)) == 0, float('-inf'))\na = F.softmax(a, dim=-1)\nreturn (a @ v).transpose(1, 2).contiguous().view(B, T, C)",
        "nn.Linear(8,24)",
    ),
    "bag": (
        "torch.tensor([1,2,4,3]), torch.tensor([0,2])",
        "return self.m(x, y)",
        "nn.EmbeddingBag(5,3)",
    ),
    "bilinear": (
        "r(2,3), r(2,4)",
        "return self.m(x, y), F.cosine_similarity(x, x), F.pairwise_distance(x, x), torch.cdist(x, x)",
        "nn.Bilinear(3,4,2)",
    ),
    "upsample": (
        "r(1,2,3,3)",
        "return self.m(x)",
        "nn.Sequential(nn.Upsample(scale_factor=2,mode='nearest'),nn.ConvTranspose2d(2,3,2,stride=2),nn.ZeroPad2d(1))",
    ),
}


def build(torch: Any, name: str) -> tuple[Any, tuple]:
    """A module and its arguments, of a library that has PyTorch's API."""
    inputs, body, *rest = PROGRAMS[name]
    made = rest[0] if rest else None
    inputs += ", " + rest[1] if len(rest) > 1 else ""
    space = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "math": math}
    space["r"] = torch.randn
    args = eval(f"({inputs},)", space)
    lines = ["class Program(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    if made and made.startswith("@b:"):
        for part in made[3:].split(",", 1):
            key, _, value = part.partition("=")
            lines.append(f"        self.register_buffer({key!r}, {value})")
    elif made:
        lines.append(f"        self.m = {made}")
    lines.append(f"    def forward(self, {', '.join('xyz'[: len(args)])}):")
    text = "\n".join(lines) + "\n" + textwrap.indent(body, "        ")
    exec(compile(text, f"<{name}>", "exec"), space)
    return space["Program"](), args
