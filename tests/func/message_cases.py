"""Calls that are refused, as text over `torch`: what is raised, and how its message begins."""

import warnings

SETUP = """
from collections import namedtuple
func, fw = torch.func, torch.autograd.forward_ad
vmap, grad, vjp, jvp, jacrev = func.vmap, func.grad, func.vjp, func.jvp, func.jacrev
x = torch.arange(12.0).reshape(3, 4) - 5
class Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g * 2
class Apart(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2
    @staticmethod
    def setup_context(ctx, inputs, output):
        pass
    @staticmethod
    def backward(ctx, g):
        return g * 2
class Both(Apart):
    generate_vmap_rule = True
    @staticmethod
    def vmap(info, in_dims, x):
        return x * 2, 0
class One(Apart):
    @staticmethod
    def vmap(info, in_dims, x):
        return x * 2
class Many(Apart):
    @staticmethod
    def vmap(info, in_dims, x):
        return x * 2, x, 0
class Unlike(Apart):
    @staticmethod
    def vmap(info, in_dims, x):
        return x * 2, (0,)
class Named(Apart):
    @staticmethod
    def forward(x, *, y):
        return x * 2
    @staticmethod
    def vmap(info, in_dims, x, *, y):
        return x * 2, 0
def dual(f):
    with fw.dual_level():
        return f()
def twice():
    with fw.dual_level(), fw.dual_level():
        pass
"""
CASES = [
    "vmap(lambda b: torch.ones(4).mul_(b))(x)",
    "vmap(lambda b: torch.ones(4).copy_(b))(x)",
    "vmap(lambda b: b.sum().item())(x)",
    "vmap(lambda b: b if b.sum() > 0 else -b)(x)",
    "vmap(lambda b: b + torch.randn(4))(x)",
    "vmap(lambda b: torch.dropout(b, 0.5, True))(x)",
    "vmap(lambda b: torch.randperm(5) + b.long()[0])(x)",
    "vmap(lambda b: b.clone().bernoulli_())(x.abs())",
    "vmap(lambda b: torch.bernoulli(b), randomness='same')(x.abs() / 20)",
    "vmap(lambda b: torch.ones(4).normal_(), randomness='different')(x)",
    "vmap(lambda b: b + torch.nn.functional.dropout(torch.ones(4)))(x)",
    "vmap(lambda b: b + torch.nn.functional.alpha_dropout(torch.ones(4), training=True))(x)",
    "vmap(lambda b: b + torch.poisson(torch.ones(4)))(x)",
    "vmap(lambda b: b + torch.randn(4, out=torch.ones(4)), randomness='same')(x)",
    "vmap(lambda b: torch.normal(b.abs(), x[0], out=b), randomness='same')(x.clone())",
    "vmap(lambda b: torch.ones(4).bernoulli_(b.sigmoid()), randomness='same')(x)",
    "vmap(lambda b: torch.ones(4).bernoulli_(b.sigmoid()), randomness='different')(x)",
    "vmap(lambda b: b + torch.dropout_(torch.ones(4), 0.5, True), randomness='different')(x)",
    "vmap(lambda b: torch.distributions.Normal(b, b).loc)(x)",
    "vmap(lambda b: b.squeeze(1))(x[:, 0])",
    "vmap(lambda b: b.squeeze((0, 1)))(x[:, 0])",
    "vmap(torch.view_as_complex)(x[:, 0])",
    "vmap(lambda b: b.view(torch.uint8))(x[:, 0])",
    "vmap(lambda b: b.as_strided((2,), (1, 1)))(x)",
    "vmap(lambda b: torch.ones(4).add_(b))(x)",
    "vmap(lambda b: torch.ones(4).pow_(b))(x)",
    "vmap(lambda b: torch.ones(4).lerp_(b, b))(x)",
    "vmap(lambda b: torch.ones(4).fill_(b.sum()))(x)",
    "vmap(lambda b: torch.ones(4).scatter_add_(0, b.long() * 0, b))(x)",
    "vmap(lambda b: torch.ones(4).index_copy_(0, torch.arange(4), b))(x)",
    "vmap(lambda b: b[b > 0])(x)",
    "vmap(lambda b: b.as_strided((2,), (1,), 3))(x)",
    "vmap(lambda b: b.as_strided((2,), (1,), 0))(x[1:])",
    "vmap(lambda b: b.clone().resize_(2, 2, memory_format=torch.channels_last))(x)",
    "vmap(lambda b: torch.argwhere(b > 0))(x)",
    "vmap(lambda b: torch.nonzero(b, as_tuple=True))(x)",
    "vmap(lambda b: torch.nn.functional.one_hot(b.long().abs()))(x)",
    "vmap(lambda b: b, in_dims=[0])(x)",
    "vmap(lambda b: b, in_dims=(None,))(x)",
    "vmap(lambda b: torch.nonzero(b))(x)",
    "vmap(lambda b: torch.masked_select(b, b > 0))(x)",
    "vmap(lambda b: b.tolist())(x)",
    "vmap(lambda b: b.sum().backward())(x)",
    "vmap(lambda b: b, in_dims=2)(x)",
    "vmap(lambda b: b, in_dims=(0, 0))(x)",
    "vmap(lambda b: b, in_dims=None)(x)",
    "vmap(lambda b: b, in_dims=0.5)(x)",
    "vmap(lambda b: b)(1.0)",
    "vmap(lambda b: b)()",
    "vmap(lambda a, b: a)(x, x[:2])",
    "vmap(lambda b: 1.0)(x)",
    "vmap(lambda b: b, out_dims=2)(x)",
    "vmap(lambda b: b, out_dims=(0, 0))(x)",
    "vmap(lambda b: b, out_dims='a')(x)",
    "vmap(lambda b: b, randomness='x')(x)",
    "vmap(lambda b: b, chunk_size=0)(x)",
    "vmap(lambda b: b)(torch.tensor(1.0))",
    "vmap(Plain.apply)(x)",
    "vmap(Apart.apply)(x)",
    "vmap(Both.apply)(x)",
    "jvp(Apart.apply, (x,), (x,))",
    "grad(lambda b: b)(x)",
    "grad(lambda b: 1.0)(x)",
    "grad(lambda b: (b.sum(), 1))(x)",
    "grad(lambda b: b.sum(), has_aux=True)(x)",
    "grad(lambda b: (b.sum(), 'a'), has_aux=True)(x)",
    "grad(lambda b: b.sum())(1.0)",
    "grad(lambda b: b.sum(), argnums=1)(x)",
    "grad(lambda b: b.sum(), argnums=(0, 0))(x)",
    "grad(lambda b: b.sum(), argnums='a')(x)",
    "grad(lambda b: b.sum())(x.long())",
    "grad(lambda b: b.sin_().sum())(x.clone())",
    "vjp(lambda b: 1.0, x)",
    "vjp(lambda b: b, x)[1](x[:2])",
    "vjp(lambda b: b, x)[1]((x, x))",
    "vjp(lambda b: b, 1.0)",
    "jvp(lambda b: b, (x,), (x[:2],))",
    "jvp(lambda b: b, (x.long(),), (x.long(),))",
    "jvp(lambda b: b, (x,), (x.long(),))",
    "jvp(lambda b: x, (x,), (x,), strict=True)",
    "jvp(lambda b: b.clone().resize_(2), (x,), (x,))",
    "grad(lambda b: b.clone().resize_(2).sum())(x)",
    "func.linearize(lambda a: a.sin(), x)[1](x, x)",
    "jvp(lambda b: b, x, (x,))",
    "jvp(lambda b: b, (x,), x)",
    "jvp(lambda b: b, (x,), ())",
    "jvp(lambda b: b, (), ())",
    "jvp(lambda b: 1.0, (x,), (x,))",
    "jvp(lambda b: b, (1.0,), (x,))",
    "jacrev(lambda b: b, argnums=3)(x)",
    "jacrev(lambda b: 1.0)(x)",
    "jacrev(lambda b: b, chunk_size=0)(x)",
    "func.linearize(lambda a: a.sin(), x)[1](x[:2])",
    "fw.make_dual(x, x)",
    "twice()",
    "dual(lambda: fw.make_dual(x, x[:2]))",
    "dual(lambda: fw.make_dual(x.long(), x))",
    "dual(lambda: fw.make_dual(x, x.long()))",
    "dual(lambda: fw.make_dual(fw.make_dual(x, x), x))",
    "fw.exit_dual_level()",
    "fw.exit_dual_level(level=3)",
    "vmap(torch.mm)(x.expand(2, 3, 4)[:, None], x[:2])",
    "vmap(torch.mm, in_dims=(0, None))(x.expand(2, 3, 4), x[0])",
    "vmap(torch.bmm)(x.expand(2, 3, 4)[:, None], x[:2])",
    "vmap(torch.mv, in_dims=(0, None))(x.expand(2, 3, 4), x)",
    "vmap(torch.dot, in_dims=(0, None))(x, x)",
    "vmap(One.apply)(x)",
    "vmap(Many.apply)(x)",
    "vmap(Unlike.apply)(x)",
    "vmap(Named.apply)(x, y=x)",
    "grad(torch.mul, argnums=('0',))(x, x)",
    "grad(torch.mul, argnums=[0])(x, x)",
    "grad(torch.mul, argnums=(0, -2))(x, x)",
    "vjp(lambda b: None, x)",
    "vjp(lambda b: (), x)",
    "jvp(lambda b: (), (x,), (x,))",
    "jvp(lambda b: (b, 1), (x,), (x,), has_aux=True)",
    "jacrev(lambda b: ())(x)",
    "func.jacfwd(lambda b: None)(x)",
    "func.jacfwd(lambda b: (b, 1), has_aux=True)(x)",
    "jacrev(lambda b: b.conj())(x + 1j)",
    "jacrev(lambda b: b * 1j)(x)",
    "func.jacfwd(lambda b: b.conj())(x + 1j)",
    "func.jacfwd(lambda b: b * 1j)(x)",
]


def refusal(torch, text):
    """(type, message) of what a call raises; None if it raises nothing."""
    space = {"torch": torch}
    exec(SETUP, space)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(text, space)
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def first_sentence(text):
    return " ".join(text.split()).split(". ")[0].split("\n")[0].rstrip(".")
