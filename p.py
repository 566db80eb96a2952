import torch
from torch import no_grad, vmap
from torch.func import jvp, vjp, jacrev
w=torch.randn(3,2,requires_grad=True); x=torch.randn(4,3)
f=lambda w: (x@w).tanh()
def show(n,t): print(n, t.requires_grad)
with no_grad():
    a,b=jvp(f,(w,),(torch.ones(3,2),)); show('jvp out',a); show('jvp tan',b)
    o,g=vjp(f,w); show('vjp out',o); show('vjp', g(torch.ones(4,2))[0])
    show('jacrev', jacrev(f)(w))
o,g=vjp(f,w); show('outer vjp out',o); show('outer vjp', g(torch.ones(4,2))[0])
with no_grad(): show('outer then no_grad', g(torch.ones(4,2))[0])
@no_grad()
def gg(v):
    f_val, f_j = jvp(f,(w,),(v,))
    cg=jacrev(lambda o: o.square().sum())
    _, h = jvp(cg,(f_val,),(f_j,))
    show('h',h)
    _, vf = vjp(f,w)
    r=vf(h)[0]
    show('r',r)
    return r
show('gg', gg(torch.ones(3,2)))
show('vmap gg', vmap(gg)(torch.ones(5,3,2)))
def nn_(v):
    with no_grad():
        return f(v*w)
show('vmap no_grad', vmap(nn_)(torch.ones(5,3,2)))
show('vjp no_grad', vjp(nn_, torch.ones(3,2))[0])
with no_grad():
    show('inner', vjp(lambda q: (q*w).sum(), torch.ones(3,2))[1](torch.tensor(1.))[0])
    show('vmap vjp', vmap(lambda v: vjp(lambda q: (q*w).sum(), v)[1](torch.tensor(1.))[0])(torch.ones(5,3,2)))
    show('vmap vjp tanh', vmap(lambda v: vjp(lambda q: (q*w).tanh(), v)[1](v)[0])(torch.ones(5,3,2)))
    show('vmap jvp tanh', vmap(lambda v: jvp(lambda q: (q*w).tanh(), (v,),(v,))[1])(torch.ones(5,3,2)))
    show('vmap vjp w', vmap(lambda v: vjp(f, w)[1](v)[0])(torch.ones(5,4,2)))
    show('vmap jvp w', vmap(lambda v: jvp(f, (w,),(v,))[1])(torch.ones(5,3,2)))
