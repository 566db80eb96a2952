"""Lines about Module itself: registration, walking, hooks, state, conversion."""

SETUP = """
import copy, pickle, weakref
from collections import OrderedDict, namedtuple
Pair = namedtuple("Pair", "a b")
def seen(*given):
    pass
class Pairs(nn.Module):
    def forward(self, a):
        return Pair(a * 1, a * 2)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Sequential(nn.ReLU(), nn.Linear(3, 1, bias=False))
        self.scale = nn.Parameter(x(1))
        self.register_buffer("count", lib.zeros(1))
        self.register_buffer("hidden", lib.ones(2), persistent=False)
        self.again = self.first
    def forward(self, a, times=1):
        return self.second(self.first(a)) * times
class Bare(nn.Module):
    pass
class NoInit(nn.Module):
    def __init__(self):
        pass
class Early(nn.Module):
    def __init__(self, what):
        self.it = what
class Extra(nn.Module):
    def get_extra_state(self):
        return {"n": 3}
    def set_extra_state(self, state):
        self.got = state
class Given(nn.Module):
    def __init__(self, it):
        super().__init__()
        self.it = it
    def get_extra_state(self):
        return self.it
    def set_extra_state(self, state):
        self.it = state
class Older(nn.Module):
    def register_buffer(self, name, tensor):
        super().register_buffer(name, tensor, True)
class Taken(nn.Module):
    def __init__(self):
        super().__init__()
        self.it = 5
        self.register_parameter("p", p(1))
n = Net()
log = []
"""

LINES = """
n
n.training, n.first.training
[k for k, _ in n.named_parameters()]
[k for k, _ in n.named_parameters(remove_duplicate=False)]
[k for k, _ in n.named_parameters(prefix="net", recurse=False)]
[k for k, _ in n.named_buffers()], [k for k, _ in n.named_buffers(recurse=False)]
[k for k, _ in n.named_modules()]
[k for k, _ in n.named_modules(remove_duplicate=False)]
[k for k, _ in n.named_children()], len(list(n.children())), len(list(n.modules()))
len(list(n.parameters())), len(list(n.buffers()))
list(n.state_dict())
list(n.state_dict(prefix="a.")), list(n.state_dict(prefix="a.")._metadata.items())
n.state_dict()["scale"].requires_grad, n.state_dict(keep_vars=True)["scale"].requires_grad
n.state_dict()["scale"].data_ptr() == n.scale.data_ptr()
list(n.state_dict(OrderedDict(), "z."))
n.missing
n.first.missing
del n.scale; [k for k, _ in n.named_parameters()]
del n.count; list(n.state_dict())
del n.second; n
del n.missing
Bare()(x(2))
Bare().forward(x(2))
NoInit().first
NoInit()(x(2))
Early(nn.Linear(1, 1))
Early(p(1))
Early(nn.Buffer(x(1)))
Early(3).it
Bare(3)
Bare(a=3)
n.register_parameter("scale", None); n.scale
n.register_parameter("first", p(1))
n.register_parameter("a.b", p(1))
n.register_parameter("", p(1))
n.register_parameter(3, p(1))
n.register_parameter("t", x(1))
n.register_parameter("t", p(1) * 2)
n.register_parameter("training", p(1))
n.register_buffer("scale", x(1))
n.register_buffer("a.b", x(1))
n.register_buffer("", x(1))
n.register_buffer(3, x(1))
n.register_buffer("t", 3)
n.register_buffer("t", None); n.t, list(n.state_dict())
n.add_module("scale", nn.ReLU())
n.add_module("a.b", nn.ReLU())
n.add_module("", nn.ReLU())
n.add_module(3, nn.ReLU())
n.add_module("t", 3)
n.add_module("t", None); n.t, n
n.register_module("t", nn.ReLU()); n.t
n.scale = 3
n.scale = x(1)
n.scale = None; n.scale, [k for k, _ in n.named_parameters()]
n.first = 3
n.first = None; n.first, n
n.count = 3
n.count = x(2); n.count, list(n.state_dict())
n.count = None; n.count, list(n.state_dict())
n.extra = x(2); list(n.state_dict()), [k for k, _ in n.named_buffers()]
n.extra = nn.Buffer(x(2)); list(n.state_dict())
n.extra = nn.Buffer(x(2), persistent=False); list(n.state_dict()), [k for k, _ in n.named_buffers()]
n.plain = 3; n.plain = p(2); n.plain, "plain" in n.__dict__
n.scale = nn.ReLU()
del n.scale; n.scale = nn.ReLU(); n
n.first = p(2)
n.get_submodule("second.1"), n.get_submodule("") is n
n.get_submodule("second.7")
n.get_submodule("scale")
n.get_parameter("second.1.weight").shape
n.get_parameter("second.1.wait")
n.get_parameter("count")
n.get_buffer("count")
n.get_buffer("scale")
n.get_buffer("nothing")
n.set_submodule("second.1", nn.Tanh()); n
n.set_submodule("second.new", nn.Tanh()); n
n.set_submodule("second.new", nn.Tanh(), strict=True)
n.set_submodule("", nn.Tanh())
n.set_submodule("second.1", 3)
n.set_submodule("scale", nn.Tanh())
n.load_state_dict(n.state_dict())
n.load_state_dict({})
n.load_state_dict({}, strict=False)
n.load_state_dict(3)
d = n.state_dict(); d["more"] = x(1); d["first.more"] = x(1); d["zz.q"] = x(1); n.load_state_dict(d)
d = n.state_dict(); d["more"] = x(1); n.load_state_dict(d, strict=False)
d = n.state_dict(); d["scale"] = x(2); d["first.weight"] = x(3, 3); n.load_state_dict(d)
d = n.state_dict(); d["scale"] = x(2); n.load_state_dict(d, strict=False)
d = n.state_dict(); d["scale"] = 3; n.load_state_dict(d)
d = {k: v + 1 for k, v in n.state_dict().items()}; n.load_state_dict(d, assign=True); n.scale is d["scale"], n.scale, n.scale.requires_grad, n.count is d["count"]
d = OrderedDict(scale=lib.ones(1)); m = Bare(); m.scale = nn.Parameter(x()); m.load_state_dict(d); m.scale
e = Extra(); s = e.state_dict(); e.load_state_dict(s); list(s.items()), e.got
Extra().load_state_dict({})
Bare().load_state_dict({"_extra_state": 3})
a = Given(Given(3)); b = Given("other"); b.load_state_dict(a.state_dict()), b.it.it, list(a.state_dict())
o = Older(); o.it = nn.Buffer(x(1)); list(o.state_dict())
o = Older(); o.it = nn.Buffer(x(1), persistent=False)
Taken().it = nn.Buffer(x(1))
Taken().p = nn.Buffer(x(1))
Bare().get_extra_state()
n.register_state_dict_pre_hook(lambda m, prefix, keep: log.append((prefix, keep))); n.state_dict(prefix="q."); log
n.register_state_dict_post_hook(lambda m, d, prefix, local: log.append((len(d), prefix, local))); n.state_dict(); log
n._register_state_dict_hook(lambda m, d, prefix, local: {"only": 1}); n.state_dict()
n.register_state_dict_post_hook(lambda m, d, prefix, local: 3); n.state_dict()
n.register_load_state_dict_pre_hook(lambda m, d, prefix, *rest: d.pop("scale")); n.load_state_dict(n.state_dict())
n.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear()); n.load_state_dict({})
n.register_load_state_dict_post_hook(lambda m, keys: 3); n.load_state_dict(n.state_dict())
n.train(False).training, n.first.training, n.train().second[0].training
n.eval() is n, n.second[1].training
n.train(3)
n.requires_grad_(False) is n, [p.requires_grad for p in n.parameters()]
n(x(2)).sum().backward(); n.zero_grad(); [p.grad for p in n.parameters()]
n(x(2)).sum().backward(); n.zero_grad(set_to_none=False); [p.grad if p.grad is None else p.grad.tolist() for p in n.parameters()]
n.apply(lambda m: log.append(type(m).__name__)) is n, log
n.double().scale.dtype, n.count.dtype, n.half().scale.dtype, n.bfloat16().scale.dtype, n.float().scale.dtype
n.type(lib.float64).count.dtype
n.to(lib.float64).first.weight.dtype, n.to("cpu") is n
n.to(x(2).double()).scale.dtype
n.to(lib.int32)
n.to("nothing")
n.to("cpu", True)
n.to(None, True)
n.to(lib.float64, "cpu")
n.to("cpu", x(2))
n.to("cpu", copy=True)
n.to(lib.float32, True, True)
n.to(other=x(2))
n.to(tensor=x(2).double()).scale.dtype
n.to(float).scale.dtype, n.to(device="cpu", dtype=lib.half, non_blocking=True).scale.dtype
n.to(lib.channels_last)
q = n.scale; n._apply(lambda t: t.to_sparse()).scale.layout, n.scale is q
type(pickle.loads(pickle.dumps(p(2) * 2))).__name__, pickle.loads(pickle.dumps(p(2) * 2)).requires_grad
n.to(memory_format=lib.channels_last) is n
q = n.scale; n.double(); q is n.scale, q.dtype
n(x(2)).sum().backward(); n.double(); n.first.weight.grad.dtype
n.to("meta").scale.device, n.count.device
n.to("meta").to("cpu")
n.to("meta").to_empty(device="cpu").scale.shape
n.to_empty(device="meta").scale.device
n.share_memory() is n
m = copy.deepcopy(n); m.scale is n.scale, m.again is m.first, list(m.state_dict())
m = copy.copy(n); m.scale is n.scale
"first" in dir(n), "scale" in dir(n), "count" in dir(n)
n(x(2)).shape, n(x(2), times=2).shape
n(x(3))
n.forward(x(2), 3).shape
h = n.register_forward_pre_hook(lambda m, args: log.append(len(args))); n(x(2)); h.remove(); n(x(2)); log
n.register_forward_pre_hook(lambda m, args: (args[0] * 0,)); n.first.register_forward_hook(lambda m, a, out: log.append(a[0].tolist())); n(x(2)); log
n.register_forward_pre_hook(lambda m, args: args[0] * 0); n.first.register_forward_hook(lambda m, a, out: log.append(a[0].tolist())); n(x(2)); log
n.register_forward_pre_hook(lambda m, args, kwargs: (args, {"times": 0}), with_kwargs=True); n(x(2), times=5)
n.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True); n(x(2), times=5)
n.register_forward_hook(lambda m, args, out: 5); n(x(2))
n.register_forward_hook(lambda m, args, kwargs, out: log.append(kwargs), with_kwargs=True); n(x(2), times=2); log
n.register_forward_hook(lambda m, a, out: log.append(1)); n.register_forward_hook(lambda m, a, out: log.append(2), prepend=True); n(x(2)); log
n.register_forward_hook(lambda m, a, out: log.append(out), always_call=True); n(x(3))
n.register_full_backward_hook(lambda m, gi, go: log.append((len(gi), gi[0] is None, go[0].tolist()))); n(x(2)).sum().backward(); log
n.first.register_full_backward_hook(lambda m, gi, go: (gi[0] * 0,)); a = x(2).requires_grad_(); n(a).sum().backward(); a.grad
n.first.register_full_backward_hook(lambda m, gi, go: (1, 2)); a = x(2).requires_grad_(); n(a).sum().backward()
n.register_full_backward_pre_hook(lambda m, go: (go[0] * 0,)); n(x(2)).sum().backward(); n.first.weight.grad.abs().sum()
n.register_full_backward_hook(lambda *a: None); n.register_backward_hook(lambda *a: None)
n.register_backward_hook(lambda *a: None); n.register_full_backward_hook(lambda *a: None)
n.register_full_backward_hook(lambda m, gi, go: x(2)); n(x(2)).sum().backward()
Pairs().register_full_backward_hook(lambda *a: None).hooks_dict_ref().keys().__len__()
m = Pairs(); m.register_full_backward_hook(lambda *a: None); type(m(x(2).requires_grad_())).__name__
m = Pairs(); m.register_full_backward_hook(lambda *a: None); m(x(2).requires_grad_()).a.grad_fn.name()
m = nn.Linear(1, 1); m.register_load_state_dict_pre_hook(log.append); r = weakref.ref(m); del m; r()
m = nn.Linear(1, 1); m.register_load_state_dict_pre_hook(seen); q = copy.deepcopy(m); q.load_state_dict(m.state_dict())
u = nn.UninitializedParameter(); u.materialize(3); u.shape
lib.__future__.set_swap_module_params_on_conversion(True); q = n.scale; d = Net().state_dict(); a = n.load_state_dict(d, assign=True), q is n.scale, q.data_ptr() == d["scale"].data_ptr(); lib.__future__.set_swap_module_params_on_conversion(False); a
n.register_backward_hook(lambda m, gi, go: log.append(len(go))); n(x(2)).sum().backward(); log
n.second.register_full_backward_hook(lambda m, gi, go: log.append("h")); n(x(2)).detach(); log
h = nn.modules.module.register_module_forward_hook(lambda m, a, out: log.append(type(m).__name__)); n(x(2)); h.remove(); n(x(2)); log
h = nn.modules.module.register_module_forward_pre_hook(lambda m, a: log.append(type(m).__name__)); n(x(2)); h.remove(); log
h = nn.modules.module.register_module_full_backward_hook(lambda m, gi, go: log.append(type(m).__name__)); n(x(2)).sum().backward(); h.remove(); log
h = nn.modules.module.register_module_full_backward_pre_hook(lambda m, go: log.append(type(m).__name__)); n(x(2)).sum().backward(); h.remove(); log
h = nn.modules.module.register_module_parameter_registration_hook(lambda m, name, p: log.append(name)); nn.Linear(1, 1); h.remove(); log
h = nn.modules.module.register_module_buffer_registration_hook(lambda m, name, p: log.append(name)); nn.BatchNorm1d(1); h.remove(); log
h = nn.modules.module.register_module_module_registration_hook(lambda m, name, p: log.append(name)); Net(); h.remove(); log
nn.Module()
nn.Parameter(x(2)), nn.Parameter(x(2), requires_grad=False)
nn.Parameter(lib.zeros(2, dtype=lib.int64))
nn.Parameter(), nn.Parameter().shape
isinstance(p(1), lib.Tensor), isinstance(x(1), nn.Parameter), isinstance(nn.Buffer(x(1)), nn.Buffer)
copy.deepcopy(p(2)), type(copy.deepcopy(p(2))).__name__
type(pickle.loads(pickle.dumps(p(2)))).__name__, pickle.loads(pickle.dumps(p(2))).requires_grad
nn.Buffer(x(2)), nn.Buffer(x(2), persistent=False).persistent
type(p(2) + 1).__name__, type(p(2).data).__name__, type(p(2).detach()).__name__
nn.UninitializedParameter(), nn.UninitializedParameter().shape
u = nn.UninitializedParameter(); u.materialize((2, 3)); type(u).__name__, u.shape
nn.UninitializedBuffer().shape
""".strip().splitlines()  # noqa: E501
