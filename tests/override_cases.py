"""Small programs about `__torch_function__` and modes, run by PyTorch and by flambeau alike.

Each takes the library and returns something to compare: names of classes, of functions, values.
"""

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def kind(value):
    """The name of a class, with those of what is in lists and tuples."""
    if isinstance(value, (list, tuple)) and type(value).__name__ in ("list", "tuple"):
        return [kind(v) for v in value]
    return type(value).__name__


def plain_subclass(torch):
    class Sub(torch.Tensor):
        pass

    return Sub


def logging_subclass(torch, log):
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append((func.__name__, [t.__name__ for t in types]))
            return super().__torch_function__(func, types, args, kwargs)

    return Loud


def logging_mode(torch, log):
    from importlib import import_module

    class Mode(import_module(torch.__name__ + ".overrides").TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append(func.__name__)
            return func(*args, **(kwargs or {}))

    return Mode()


# -- subclasses survive ----------------------------------------------------------------------------

EXPRESSIONS = """
x + 1; 1 + x; y + x; x + y; x - y; 1 - x; x / 2; 2 / x; x ** 2; 2 ** x; x // 2; x % 2; -x; abs(x)
x == y; x > 0; y < x; (x > 0) & (y > 0); ~(x > 0); x @ y.T; y @ x.T; x[0]; x[:1]; x[x > 0]; x[0, 0]
x.sum(); x.sum(0); x.mean(); x.max(); x.max(0); x.max(0)[0]; x.sort(); x.topk(2).indices; x.T; x.mT
x.data; x.detach(); x.clone(); x.view(-1); x.reshape(3, 2); x.flatten(); x.t(); x.expand(2, 2, 3)
x.to(torch.float64); x.double(); x.int(); x.contiguous(); x.unbind(); x.split(1); x.chunk(2)
torch.stack([x, y]); torch.stack([y, x]); torch.cat([x, x]); torch.where(x > 0, x, y)
torch.add(y, x); torch.add(y, other=x); torch.ones_like(x); torch.zeros_like(x); x.new_zeros(2)
x.new_tensor([1.0]); torch.rand_like(x); torch.matmul(y, x.T); torch.einsum("ij,kj->ik", y, x)
F.relu(x); F.softmax(x, 0); F.linear(y, x); F.dropout(x); F.mse_loss(x, y); F.pad(x, (1, 1))
F.layer_norm(x, (3,)); F.gelu(x); nn.Linear(3, 2)(x); nn.ReLU()(x); nn.Sequential(nn.ReLU())(x)
x.item if False else x.sum().item(); x.tolist(); x.numpy(); x.shape; x.dtype; x.size(); x.dim()
x.numel(); x.requires_grad; x.grad; len(x); list(x); float(x.sum()); bool(x.sum() > 0); x.is_leaf
y.clone().add_(x); x.clone().add_(1); x.clone().mul_(y); y.clone().copy_(x); x.clone().zero_()
x.as_subclass(torch.Tensor); x.as_subclass(torch.Tensor) + 1; torch.Tensor(x); torch.tensor(3) + x
torch.broadcast_tensors(x, y); torch.meshgrid(x[0], y[0], indexing="ij"); torch.equal(x, y)
torch.allclose(x, y); torch.is_tensor(x); isinstance(x, torch.Tensor); torch.linalg.norm(x)
torch.fft.fft(x); x.norm(); x.std(); x.cumsum(0); x.argmax(); x.unique(); x.nonzero(); x.diagonal()
torch.outer(x[0], y[0]); torch.arange(3) + x; x.repeat(2, 1); x.masked_fill(x > 0, 0.0); x.real
x.type(torch.int64); x.type_as(y); x.gather(0, (y * 0).long()); x.requires_grad_(False); x.cpu()
nn.Parameter(y) + x; nn.Parameter(y) + 1; nn.Parameter(y).data; nn.Parameter(x); nn.Parameter(x) * 2
isinstance(nn.Parameter(x), nn.Parameter); x.add(1).mul(2).sum(); x.T.contiguous().view(-1)[0]
""".replace("\n", ";")
EXPRESSIONS = [text.strip() for text in EXPRESSIONS.split(";") if text.strip()]


def evaluate(torch, text):
    """The class of the result of an expression on a subclass x and a plain tensor y."""
    x = torch.arange(6.0).reshape(2, 3).as_subclass(plain_subclass(torch))
    y = torch.ones(2, 3)
    return kind(
        eval(text, {"torch": torch, "x": x, "y": y, "nn": torch.nn, "F": torch.nn.functional})
    )


@case
def the_lower_class_wins(torch):
    upper = plain_subclass(torch)

    class Lower(upper):
        pass

    a, b = torch.ones(2).as_subclass(upper), torch.ones(2).as_subclass(Lower)
    return kind([a + b, b + a, torch.stack([a, b]), a * a])


@case
def strangers_refuse_each_other(torch):
    class One(torch.Tensor):
        pass

    class Other(torch.Tensor):
        pass

    a, b, found = torch.ones(2).as_subclass(One), torch.ones(2).as_subclass(Other), []
    for call in (lambda: a + b, lambda: torch.add(a, b), lambda: torch.stack([a, b])):
        try:
            call()
        except TypeError as error:
            found.append(str(error).split("\n")[0].split("for")[0])
    return found


@case
def attributes_do_not_travel(torch):
    x = torch.ones(2).as_subclass(plain_subclass(torch))
    x.note = 3
    return [hasattr(x + 1, "note"), hasattr(x.view(-1), "note"), x.note]


@case
def in_place_keeps_the_object(torch):
    x = torch.ones(2).as_subclass(plain_subclass(torch))
    before = x
    x += 1
    x *= 2
    x[0] = 5
    return [x is before, kind(x), x.tolist()]


@case
def gradients_reach_a_leaf(torch):
    w = plain_subclass(torch)(torch.ones(2)).requires_grad_()
    loss = (w * 3).sum()
    loss.backward()
    return [kind(w), w.is_leaf, kind(loss), kind(w.grad), w.grad.tolist()]


@case
def gradients_pass_as_subclass(torch):
    w = torch.ones(2, requires_grad=True)
    x = w.as_subclass(plain_subclass(torch))
    (x * x).sum().backward()
    return [x.requires_grad, x.is_leaf, w.grad.tolist()]


@case
def gradients_by_autograd_grad(torch):
    w = plain_subclass(torch)(torch.ones(2)).requires_grad_()
    found = torch.autograd.grad((w * 3).sum(), w)
    return [kind(found), found[0].tolist()]


@case
def make_subclass(torch):
    sub = plain_subclass(torch)
    a = torch.Tensor._make_subclass(sub, torch.ones(2), True)
    b = torch.Tensor._make_subclass(sub, torch.ones(2))
    return [kind(a), a.requires_grad, a.is_leaf, b.requires_grad, kind(a + b)]


@case
def constructors(torch):
    sub = plain_subclass(torch)
    return [kind(sub([1.0, 2.0])), sub([1.0, 2.0]).tolist(), list(sub(2, 3).shape)]


@case
def printing(torch):
    x = torch.ones(2).as_subclass(plain_subclass(torch))
    return [repr(x), str(x + 1)]


@case
def subclasses_in_modules(torch):
    nn, sub = torch.nn, plain_subclass(torch)
    model = nn.Linear(2, 2, bias=False)
    model.weight = nn.Parameter(torch.ones(2, 2).as_subclass(sub))
    model(torch.ones(1, 2)).sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    kinds = [model.weight, model(torch.ones(1, 2)), *model.parameters(), model.weight.grad]
    return [kind(kinds), model.weight.tolist(), repr(model.weight)]


@case
def making_tensors_of_subclasses(torch):
    x = torch.ones(2).as_subclass(plain_subclass(torch))
    return kind([torch.as_tensor(x), torch.tensor(x), torch.asarray(x), torch.from_dlpack(x)])


@case
def the_function_by_hand(torch):
    sub = plain_subclass(torch)
    x, y = torch.ones(2).as_subclass(sub), torch.ones(2)
    return kind([
        sub.__torch_function__(torch.add, (sub,), (x, 1)),
        torch.Tensor.__torch_function__(torch.add, (torch.Tensor,), (y, 1)),
        torch.Tensor.__torch_function__(torch.add, (sub,), (x, 1)),
    ])  # fmt: skip


@case
def disabled_subclass(torch):
    class Quiet(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    x = torch.ones(2).as_subclass(Quiet)
    return kind([x, x + 1, x.clone(), torch.stack([x])])


@case
def disabled_in_a_block(torch):
    x = torch.ones(2).as_subclass(plain_subclass(torch))
    with torch._C.DisableTorchFunctionSubclass():
        inside = kind([x + 1, x.clone()])
        asked = torch.overrides.has_torch_function((x,))
    return [inside, asked, kind(x + 1), torch.overrides.has_torch_function((x,))]


# -- __torch_function__ of users -------------------------------------------------------------------


@case
def what_a_subclass_is_told(torch):
    log = []
    a = torch.ones(2).as_subclass(logging_subclass(torch, log))
    y, functional = torch.ones(2), torch.nn.functional
    a + 1, a.shape, torch.add(y, a, alpha=2), a.sum().item(), len(a), a.requires_grad
    1 - a, a < a, a != a, functional.relu(a), functional.softmax(a, 0), a[0]
    a[0] = 3
    a.data = torch.ones(2)
    torch.cat([a, a]), torch.equal(a, a), bool(a[0] > 1), a.grad, a.dim(), a.tolist()
    return log


@case
def values_can_be_changed(torch):
    class Doubling(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            result = super().__torch_function__(func, types, args, kwargs or {})
            if func in (torch.add, torch.Tensor.add):
                with torch._C.DisableTorchFunctionSubclass():
                    return (result * 2).as_subclass(cls)
            return result

    x = torch.ones(2).as_subclass(Doubling)
    return [(x + 1).tolist(), torch.add(x, 1).tolist(), (x * 3).tolist(), x.add(1).tolist()]


@case
def results_can_be_anything(torch):
    class Silly(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    x = torch.ones(2).as_subclass(Silly)
    return [x + 1, torch.sum(x), x.view(2), torch.stack([x, x]), torch.ones(2) * x]


@case
def metadata_can_be_carried(torch):
    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            result = super().__torch_function__(func, types, args, kwargs)
            if isinstance(result, cls):
                found = [a.unit for a in args if isinstance(a, cls) and hasattr(a, "unit")]
                if found:
                    result.unit = "".join(found)
            return result

    x, y = torch.ones(2).as_subclass(Named), torch.ones(2).as_subclass(Named)
    x.unit, y.unit = "m", "s"
    return [(x * y).unit, (x + 1).unit, x.sum().unit]


@case
def tables_of_implementations(torch):
    handled = {}

    def implements(function):
        return lambda f: handled.setdefault(function, f)

    class Diagonal(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func in handled:
                return handled[func](*args, **(kwargs or {}))
            return super().__torch_function__(func, types, args, kwargs)

    implements(torch.mean)(lambda x: "mean")
    implements(torch.mm)(lambda a, b: "mm")
    implements(torch.nn.functional.linear)(lambda *a: "linear")
    implements(torch.Tensor.exp)(lambda x: "exp")
    implements(torch.cat)(lambda ts, dim=0: "cat")
    x = torch.eye(2).as_subclass(Diagonal)
    linear = torch.nn.functional.linear
    return [torch.mean(x), torch.mm(torch.ones(2, 2), x), linear(x, x), x.exp(), torch.cat([x]),
            kind(torch.sum(x))]  # fmt: skip


# -- modes -----------------------------------------------------------------------------------------


@case
def what_a_mode_is_told(torch):
    log = []
    x, functional = torch.ones(2, 3), torch.nn.functional
    with logging_mode(torch, log):
        x + 1, 1 + x, x * 2, x > 1, x[0], x.sum(), torch.zeros(2), torch.tensor([1]), x.shape
        x.T, x.view(-1), x.tolist(), functional.relu(x), functional.linear(x, x), torch.rand(2)
        x.clone().add_(1), x.dim(), x.size(), torch.cat([x]), x.grad, x.is_floating_point()
        x.data, float(x.sum()), x.requires_grad, torch.arange(3), x.to(torch.float64)
    return log


@case
def modes_nest(torch):
    log = []
    with logging_mode(torch, log), logging_mode(torch, log):
        torch.ones(2)
    torch.ones(3)
    return log


@case
def a_mode_answers(torch):
    class Answering(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 42 if func is torch.ones else func(*args, **(kwargs or {}))

    with Answering():
        return [torch.ones(2), torch.zeros(2).tolist()]


@case
def a_mode_is_asked_before_subclasses(torch):
    log = []
    x = torch.ones(2).as_subclass(logging_subclass(torch, log))
    log.clear()
    with logging_mode(torch, log):
        x + 1
    return log


@case
def a_mode_can_be_entered_again(torch):
    log = []
    mode = logging_mode(torch, log)
    with mode:
        with mode:
            torch.ones(2)
        torch.zeros(2)
    return log


@case
def a_base_mode_changes_nothing(torch):
    with torch.overrides.BaseTorchFunctionMode():
        return (torch.ones(2) + 1).tolist()


@case
def an_error_leaves_the_mode(torch):
    log = []
    try:
        with logging_mode(torch, log):
            torch.ones(2) + torch.ones(3)
    except RuntimeError:
        log.append("error")
    torch.ones(2)
    return log


# -- functions of libraries ------------------------------------------------------------------------


@case
def questions(torch):
    o = torch.overrides
    x, y = torch.ones(2).as_subclass(plain_subclass(torch)), torch.ones(2)
    p = torch.nn.Parameter(y)
    return [
        o.has_torch_function((x,)), o.has_torch_function((y, p, 3)), o.is_tensor_like(y),
        o.is_tensor_like(3), o.is_tensor_method_or_property(torch.Tensor.add),
        o.is_tensor_method_or_property(torch.Tensor.shape.__get__),
        o.is_tensor_method_or_property(torch.nn.functional.relu),
        o.resolve_name(torch.Tensor.sum), o.resolve_name(torch.nn.functional.relu),
        o.resolve_name(torch.Tensor.shape.__get__), len(o.get_default_nowrap_functions()) > 0,
        torch.Tensor.grad.__get__ in o.get_default_nowrap_functions(),
    ]  # fmt: skip


@case
def a_wrapped_function(torch):
    log = []
    o = torch.overrides

    @o.wrap_torch_function(lambda a, b=None: (a, b))
    def mine(a, b=None):
        return "computed"

    x = torch.ones(2).as_subclass(logging_subclass(torch, log))
    return [mine(torch.ones(2)), mine(x), log]


@case
def a_mode_is_told_of_functions_of_libraries(torch):
    log, o = [], torch.overrides

    def mine(a):
        if o.has_torch_function((a,)):
            return o.handle_torch_function(mine, (a,), a)
        return a + 1

    with logging_mode(torch, log):
        found = mine(torch.ones(2))
    return [found.tolist(), log]


# -- dispatch modes --------------------------------------------------------------------------------

DISPATCHED = """
x + 1; x + x; 1 - x; x * 2; x / 2; x // 2; x % 2; x ** 2; x ** x; 2 ** x; x > 1; x == x; x == 1; -x
x[0]; x[0:1]; x[b]; x[None]; x.clone().add_(1); x.clone().mul_(x); x.sum(); x.sum(0); x.mean()
x.mean(0); x.max(); x.max(0); x.amax(0); x.argmax(); x.var(); x.std(0); x.prod(0); x.all(); b.any(0)
x.cumsum(0); x.sort(); x.topk(2); x.t(); x.transpose(0, 1); x.permute(1, 0); x.view(-1)
x.unsqueeze(0); x.squeeze(0); x.expand(2, 2, 3); x.unbind(); x.split(1); x.detach(); x.clone()
x.to(torch.float64); x.float(); torch.cat([x, x]); torch.stack([x, x]); torch.where(b, x, x)
x.masked_fill(b, 0.0); x.clamp(0, 1); x.exp(); torch.sigmoid(x); F.relu(x); F.gelu(x); F.silu(x)
torch.mm(x, x.t()); x @ x.t(); torch.mv(x, x[0]); torch.addmm(torch.ones(2, 2), x, x.t())
F.avg_pool2d(x[None], 2); F.mse_loss(x, x); torch.zeros(2); torch.ones(2); torch.empty(2)
torch.full((2,), 1.0); torch.arange(3); torch.arange(0, 3); torch.rand(2); torch.zeros_like(x)
x.clone().zero_(); x.clone().fill_(1); x.clone().copy_(x); x.tril(); x.round(); x.flip(0)
torch.maximum(x, x); torch.equal(x, x); x.nonzero(); x.lerp(x, 0.5); x.ne(0); x.remainder(2)
torch.add(x, x, alpha=2); x.logical_not(); x.new_zeros(2); torch.logsumexp(x, 0); x.sum().item()
""".replace("\n", ";")
DISPATCHED = [text.strip() for text in DISPATCHED.split(";") if text.strip()]


def dispatched(torch, text):
    """The ops that a dispatch mode is told of."""
    from importlib import import_module

    log = []
    base = import_module(torch.__name__ + ".utils._python_dispatch").TorchDispatchMode

    class Mode(base):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.arange(6.0).reshape(2, 3)
    names = {"torch": torch, "x": x, "b": x > 1, "F": torch.nn.functional}
    with Mode():
        eval(text, names)
    return log


@case
def ops_as_objects(torch):
    aten = torch.ops.aten
    add = aten.add.Tensor
    return [str(add), add.__name__, str(add.overloadpacket), add.name(), aten.mm.default.name(),
            repr(add), add(torch.ones(2), 1).tolist(), aten.relu.default(torch.ones(1)).tolist(),
            aten.add.Tensor is add, add == aten.add.Scalar]  # fmt: skip


@case
def a_dispatch_mode_answers(torch):
    from importlib import import_module

    class Mode(import_module(torch.__name__ + ".utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func == torch.ops.aten.mul.Tensor:
                func = torch.ops.aten.add.Tensor
            return func(*args, **(kwargs or {}))

    x = torch.full((2,), 5.0)
    with Mode():
        return [(x * 2).tolist(), (x - 2).tolist(), torch.mul(x, 2).tolist()]


@case
def a_dispatch_mode_is_below_autocast(torch):
    from importlib import import_module

    log = []

    class Mode(import_module(torch.__name__ + ".utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append((str(func), str(args[0].dtype)))
            return func(*args, **(kwargs or {}))

    a = torch.ones(2, 2)
    with Mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        torch.mm(a, a)
    return log


# -- objects that are no tensors -------------------------------------------------------------------

FOREIGN = """
torch.mean(d); torch.add(x, d); torch.add(d, x); torch.add(d, 1); x + d; x * d; x - d; x / d; x @ d
torch.stack([x, d]); torch.cat([d]); x.add(d); x.add_(d); torch.sum(d, dim=0); torch.sum(d)
F.linear(x, d); torch.transpose(d, 0, 1); torch.reshape(d, (2,)); torch.exp(d); torch.matmul(d, x)
torch.mm(d, x); torch.where(d, x, x); torch.max(d); torch.unbind(d); torch.clamp(d, 0, 1); x > d
torch.dot(x, d); F.conv2d(d, x); torch.linalg.norm(d); torch.add(x, d, alpha=2); torch.var(d)
torch.addmm(x, d, x); torch.einsum("i,i->i", d, x); F.gelu(d)
torch.split(d, 1); torch.flatten(d); x < d
torch.bmm(d, d); torch.sigmoid(d); torch.argmax(d); torch.sort(d); torch.cumsum(d, 0); torch.neg(d)
torch.dequantize(d); torch.int_repr(d); torch.q_scale(d); torch.smm(d, d); torch.sspaddmm(d, d, d)
torch.quantized_max_pool1d(d, 1)
torch.view_copy(d, (2,)); torch.unbind_copy(d); torch.detach_copy(d); torch.sym_max(d, 1)
torch.nn.init.uniform_(d); torch.nn.init.normal_(d, 1); torch.nn.init.constant_(d, 2)
torch.nn.init.kaiming_uniform_(d)
""".replace("\n", ";")
FOREIGN = [text.strip() for text in FOREIGN.split(";") if text.strip()]


def answered(torch, text):
    """What an object that is no tensor is told when an expression meets it."""

    class Diagonal:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            kinds = [kind(a) for a in args]
            return func.__name__, kinds, sorted(k for k in kwargs or {} if k in text)

    names = {"torch": torch, "d": Diagonal(), "x": torch.ones(2), "F": torch.nn.functional}
    return eval(text, names)


# -- __torch_dispatch__ ----------------------------------------------------------------------------


def wrapper_subclass(torch, log):
    from importlib import import_module

    tree_map = import_module(torch.__name__ + ".utils._pytree").tree_map

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            out = torch.Tensor._make_wrapper_subclass(
                cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, device=inner.device
            )
            out.inner = inner
            return out

        __torch_function__ = torch._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            log.append((str(func), [t.__name__ for t in types]))

            def opened(value):
                return value.inner if isinstance(value, cls) else value

            def closed(value):
                return cls(value) if isinstance(value, torch.Tensor) else value

            result = func(*tree_map(opened, args), **tree_map(opened, kwargs or {}))
            return tree_map(closed, result)

    return Wrapper


@case
def tensors_that_wrap_others(torch):
    log = []
    w = wrapper_subclass(torch, log)(torch.arange(6.0).reshape(2, 3))
    found = [w + 1, 2 * w, w.sum(), -w, torch.mm(w, w.t()), torch.cat([w, w]), w[0], w.view(-1)]
    return [kind(found), [t.inner.tolist() for t in found], log, list(w.shape)]


@case
def dispatch_of_a_plain_subclass(torch):
    log = []

    class Loud(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            log.append(str(func))
            return super().__torch_dispatch__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Loud)
    return [(x + 1).tolist(), kind(x * 2), [name for name in log if "add" in name or "mul" in name]]
