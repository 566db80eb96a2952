"""torch.overrides: subclasses of Tensor, objects that answer for functions, modes."""

import copy
import inspect
import io
import operator
import pickle
import subprocess
import sys
import threading

import pytest

import flambeau
from flambeau import interposing
from flambeau.interposing import overriding
from flambeau.utils._python_dispatch import (
    is_traceable_wrapper_subclass_type,
    return_and_correct_aliasing,
    transform_subclass,
)
from flambeau.utils._pytree import tree_map
from tests.override_cases import (
    CASES,
    DISPATCHED,
    EXPRESSIONS,
    FOREIGN,
    answered,
    dispatched,
    evaluate,
)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_subclasses_survive_as_in_pytorch(text):
    torch = pytest.importorskip("torch")
    assert evaluate(flambeau, text) == evaluate(torch, text)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_programs_do_as_in_pytorch(name):
    torch = pytest.importorskip("torch")
    assert CASES[name](flambeau) == CASES[name](torch)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", DISPATCHED)
def test_dispatch_modes_are_told_what_pytorchs_are(text):
    torch = pytest.importorskip("torch")
    assert dispatched(flambeau, text) == dispatched(torch, text)


@pytest.mark.oracle
@pytest.mark.parametrize("text", FOREIGN)
def test_objects_that_are_no_tensors_answer_at_the_first_call(text):
    torch = pytest.importorskip("torch")
    assert answered(flambeau, text) == answered(torch, text)
    assert answered(flambeau, text) == answered(torch, text)  # now with the handler there


BACKWARD = {
    "(w * w).sum()": ["mul.Tensor", "mul.Tensor", "add.Tensor"],
    "w.exp().sum()": ["mul.Tensor"],
    "F.layer_norm(w, (3,)).sum()": ["native_layer_norm_backward.default"],
    "(w @ w.t()).sum()": ["mm.default", "mm.default"],
}


@pytest.mark.parametrize("text", BACKWARD)
def test_dispatch_modes_see_derivatives_op_by_op(text):
    class Mode(flambeau.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append(str(func).removeprefix("aten."))
            return func(*args, **(kwargs or {}))

    log = []
    w, again = (flambeau.arange(6.0).reshape(2, 3).requires_grad_() for _ in range(2))
    names = {"F": flambeau.nn.functional}
    loss = eval(text, {**names, "w": w})
    with Mode():
        loss.backward()
    assert [name for name in log if name in BACKWARD[text]] == BACKWARD[text]
    assert log[0] == "ones_like.default"  # where backward starts
    eval(text, {**names, "w": again}).backward()
    assert flambeau.allclose(w.grad, again.grad)


class Sub(flambeau.Tensor):
    pass


def test_programs_without_subclasses_meet_no_handler():
    x = flambeau.nn.Parameter(flambeau.ones(2))
    (x + 1).sum().backward()
    assert not interposing.is_pushed(overriding.ARGUMENTS)
    assert type(flambeau.ones(2).as_subclass(Sub) + 1) is Sub
    assert interposing.is_pushed(overriding.ARGUMENTS)


def test_other_threads_meet_subclasses_too():
    found = []
    x = flambeau.ones(2).as_subclass(Sub)
    thread = threading.Thread(target=lambda: found.append(type(x + 1)))
    thread.start()
    thread.join()
    assert found == [Sub]


def test_copies_and_pickles_are_of_the_class():
    x = flambeau.ones(2).as_subclass(Sub)
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(made) is Sub and type(made + 1) is Sub


def test_autocast_and_subclasses():
    x = flambeau.ones(2, 2).as_subclass(Sub)
    with flambeau.autocast("cpu", dtype=flambeau.bfloat16):
        found = x @ x
    assert type(found) is Sub and found.dtype is flambeau.bfloat16


def test_a_profile_shows_ops_on_subclasses_once():
    x = flambeau.ones(2).as_subclass(Sub)
    with flambeau.profiler.profile() as prof:
        x + 1
    assert [e.name for e in prof.events()] == ["aten::add"]


def test_what_is_overridable():
    found = flambeau.overrides.get_overridable_functions()
    assert flambeau.add in found[flambeau] and flambeau.Tensor.add in found[flambeau.Tensor]
    assert flambeau.Tensor.as_subclass not in found[flambeau.Tensor]
    assert flambeau.Tensor.as_subclass in flambeau.overrides.get_ignored_functions()


def test_modes_end_with_their_blocks_in_every_thread():
    class Mode(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append(threading.get_ident())
            return func(*args, **(kwargs or {}))

    log = []
    with Mode():
        thread = threading.Thread(target=lambda: flambeau.ones(2))
        thread.start()
        thread.join()
        flambeau.ones(2)
    flambeau.ones(2)
    assert log == [threading.get_ident()]


def test_methods_that_a_program_keeps_under_another_name_are_not_asked_about():
    text = """
import flambeau
Tensor, kept = flambeau.Tensor, flambeau.Tensor.as_subclass
Tensor._kept = kept
Tensor.as_subclass = lambda self, cls: kept(self, cls)
class Sub(Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        asked.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})
asked = []
x = flambeau.ones(2).as_subclass(Sub)
x.as_subclass(Tensor)
assert not asked, asked
x + 1
assert asked == ["add"], asked
"""
    subprocess.run([sys.executable, "-c", text], check=True)


def test_every_function_has_a_stand_in():
    found = flambeau.overrides.get_testing_overrides()
    assert found[flambeau.add](1, 2) == -1
    names = list(inspect.signature(found[flambeau.nn.functional.relu]).parameters)
    assert names == ["input", "inplace"]


class Pair(flambeau.Tensor):
    """A tensor that holds another one, twice."""

    @staticmethod
    def __new__(cls, a, b):
        return flambeau.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(parts, facts, size, stride):
        return Pair(parts["a"], parts["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        sides = [
            func(*[getattr(x, side) if isinstance(x, cls) else x for x in args], **(kwargs or {}))
            for side in ("a", "b")
        ]
        return return_and_correct_aliasing(func, args, kwargs, Pair(*sides))


def test_wrappers_give_back_what_was_written_to():
    pair = Pair(flambeau.zeros(2), flambeau.ones(2))
    assert pair.add_(1) is pair and pair.b.tolist() == [2, 2]
    assert (pair + 1) is not pair and (pair * 2).a.tolist() == [2, 2]
    other = transform_subclass(pair, lambda name, part: part * 3)
    assert type(other) is Pair and other.a.tolist() == [3, 3]
    assert is_traceable_wrapper_subclass_type(Pair)
    assert not is_traceable_wrapper_subclass_type(flambeau.Tensor)


def test_schemas_tell_of_aliases():
    aten = flambeau.ops.aten
    first = aten.add_.Tensor._schema.arguments[0]
    assert first.alias_info.is_write and first.alias_info.before_set == {"a"}
    assert aten.add.Tensor._schema.arguments[0].alias_info is None
    assert aten.view.default.is_view and not aten.add.Tensor.is_view
    assert aten.split.Tensor._schema.arguments[0].alias_info.after_set == {"*"}


PIECES = {  # what PyTorch runs in place of one op of ours
    "F.linear(w, w)": "t mm",
    "F.linear(w, w, b)": "t addmm",
    "F.linear(w[0], w)": "select t unsqueeze mm squeeze_",
    "F.linear(w[None], w, b)": "unsqueeze view t addmm view",
    "w[None] @ w.t()": "unsqueeze t view mm _unsafe_view",
}


@pytest.mark.parametrize("text", PIECES)
def test_dispatch_modes_see_pieces_of_products(text):
    class Mode(flambeau.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    log = []
    space = {"w": flambeau.arange(6.0).reshape(2, 3), "F": flambeau.nn.functional}
    space["b"] = flambeau.ones(2)
    with Mode():
        found = eval(text, space)
    assert log == PIECES[text].split()
    flambeau.testing.assert_close(found, eval(text, space))


# -- gradients of tensors that wrap others ---------------------------------------------------------


class Shell(flambeau.Tensor):
    """Wraps a tensor and answers by what it wraps."""

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        out = flambeau.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, requires_grad=requires_grad
        )
        out.inner = inner
        return out

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def opened(value):
            return value.inner if isinstance(value, cls) else value

        result = func(*tree_map(opened, args), **tree_map(opened, kwargs or {}))
        return tree_map(lambda t: cls(t) if isinstance(t, flambeau.Tensor) else t, result)


F = flambeau.nn.functional
DIFFERENTIATED = {
    "pointwise": lambda x: (x.exp() * 2 - x / 3) ** 2,
    "rsub": lambda x: 2 - x,
    "reductions": lambda x: x.mean() + x.var(0).sum() + x.norm(),
    "order": lambda x: x.max() + x.max(0).values + x.sort(1).values[0],
    "views": lambda x: x.t().reshape(9)[None, 2:, None],
    "select": lambda x: x[0] * x[..., 1],
    "index": lambda x: x[flambeau.tensor([1, 1])],
    "products": lambda x: x @ x + F.linear(x, x, x[0]),
    "softmax": lambda x: x.softmax(0),
    "norms": lambda x: F.layer_norm(x, (3,)) + F.group_norm(x[None], 1)[0],
    "losses": lambda x: (
        F.cross_entropy(x, flambeau.tensor([0, 1, 2])) + F.mse_loss(x, 2 * x.detach())
    ),
    "embedding": lambda x: F.embedding(flambeau.tensor([1, 2]), x),
    "lists": lambda x: flambeau.cat([x, x * x]) + flambeau.stack([x[0], x[1]]).sum(0),
    "conv": lambda x: F.conv2d(x[None, None], x[None, None, :2, :2]),
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_wrappers_have_gradients(name):
    function = DIFFERENTIATED[name]
    values = flambeau.rand(3, 3, dtype=flambeau.float64) + 0.1
    plain = values.clone().requires_grad_()
    (wanted,) = flambeau.autograd.grad(function(plain).square().sum(), plain)
    x = Shell(values.clone(), requires_grad=True)
    out = function(x)
    assert type(out) is Shell and out.grad_fn is not None
    (found,) = flambeau.autograd.grad(out.square().sum(), x)
    assert type(found) is Shell and flambeau.allclose(found.inner, wanted)


def test_second_gradients_of_wrappers():
    x = Shell(flambeau.tensor([1.0, 2.0]), requires_grad=True)
    (first,) = flambeau.autograd.grad((x * x.exp()).sum(), x, create_graph=True)
    (second,) = flambeau.autograd.grad(first.sum(), x)
    values = flambeau.tensor([1.0, 2.0])
    assert flambeau.allclose(second.inner, (2 + values) * values.exp())


def test_a_linear_layer_of_wrappers_learns():
    layer = flambeau.nn.Linear(2, 1)
    layer.weight = flambeau.nn.Parameter(Shell(layer.weight.detach().clone()))
    layer(flambeau.ones(4, 2)).sum().backward()
    assert type(layer.weight.grad) is Shell and layer.weight.grad.inner.tolist() == [[4, 4]]


LIKE = """
empty_like(o)
zeros_like(o, dtype=torch.int64)
ones_like(o, requires_grad=True)
full_like(o, 3, device="cpu")
rand_like(o)
randn_like(o, dtype=torch.float64)
randint_like(o, 3)
randint_like(o, 1, 3, dtype=torch.int32)
""".split("\n")[1:-1]
STRANGER = """
import flambeau as torch

class Stranger:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        given = [*map(repr, args[1:]), *(f"{k}={v!r}" for k, v in (kwargs or {}).items())]
        return func.__name__ + repr(given) + repr(types == (Stranger,))

o = Stranger()
print(torch."""


@pytest.mark.parametrize("call", LIKE)
def test_the_first_stranger_of_a_process_answers_for_functions_like_it(call):
    # one process each, for the first that is met changes what functions ask
    ran = subprocess.run(
        [sys.executable, "-c", f"{STRANGER}{call})"], capture_output=True, text=True
    )
    name, given = call.rstrip(")").split("(o")
    given = [x.strip().replace('"', "'") for x in given.split(",")[1:]]
    assert ran.stdout.strip() == name + repr(given) + "True", ran.stderr


SPARSE = (
    "mm(d, x); mm(x, d); sum(d); sum(d, dim=0); softmax(d, 1); log_softmax(d, 1); addmm(x, d, x); "
    "sampled_addmm(d, x, x); spsolve(d, x)"
).split("; ")


@pytest.mark.parametrize("call", SPARSE)
def test_strangers_answer_for_functions_of_sparse_tensors(call):
    class Stranger:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, types

    names = {**vars(flambeau.sparse), "d": Stranger(), "x": flambeau.ones(2, 2)}
    assert eval(call, names) == (call.partition("(")[0], (Stranger,))


class Redispatched(flambeau.Tensor):
    """Tells what is called, and stays away from the first step of it."""

    told: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.told.append(func.__name__)
        return flambeau.overrides.redispatch_function(func, types, args, kwargs)


def _shifted(a):
    if flambeau.overrides.has_torch_function((a,)):
        return flambeau.overrides.handle_torch_function(_shifted, (a,), a)
    return a * 2 + 1


REDISPATCHED = {
    "op": (lambda t: t + 1, ["add"]),
    "function of a program": (_shifted, ["_shifted", "mul"]),
    "function in Python": (lambda t: flambeau.nn.init.ones_(t), ["fill_"]),
    "function that asks": (lambda t: flambeau.nn.init.constant_(t, 2.0), ["constant_", "fill_"]),
}


@pytest.mark.parametrize("name", REDISPATCHED)
def test_redispatch_skips_one_level(name):
    function, told = REDISPATCHED[name]
    Redispatched.told.clear()
    result = function(flambeau.ones(2).as_subclass(Redispatched))
    del Redispatched.told[: -len(told)]
    assert Redispatched.told == told
    assert type(result) is flambeau.Tensor or name.startswith("function")


def test_a_mode_redispatches_within_itself():
    class Loud(flambeau.overrides.TorchFunctionMode):
        told: list = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.told.append(func.__name__)
            with self:
                return flambeau.overrides.redispatch_function(func, types, args, kwargs)

    x = flambeau.ones(2)
    with Loud():
        y = _shifted(x)
    assert y.tolist() == [3.0, 3.0]
    assert Loud.told == ["_shifted", "mul", "add"]


def test_modes_must_not_be_told_as_classes():
    class Wrong(flambeau.overrides.TorchFunctionMode):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with pytest.raises(RuntimeError, match="as a classmethod is not supported"), Wrong():
        flambeau.ones(2).abs()


def test_plain_methods_warn():
    class Old:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 3

    with pytest.warns(UserWarning, match="as a plain method is deprecated"):
        assert flambeau.abs(Old()) == 3
    with pytest.warns(DeprecationWarning, match="as a plain method is deprecated"):
        assert flambeau.nn.functional.dropout(Old()) == 3


class Slotted(flambeau.Tensor):
    __slots__ = ("inner", "unset")


def _slotted():
    t = flambeau.ones(2).as_subclass(Slotted)
    t.inner, t.name_of = flambeau.zeros(3), "one"
    return t


def _through_file(t):
    file = io.BytesIO()
    flambeau.save(t, file)
    file.seek(0)
    with flambeau.serialization.safe_globals([Slotted]):
        return flambeau.load(file)


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, _through_file, lambda t: pickle.loads(pickle.dumps(t))],
    ids=["copy", "deepcopy", "file", "pickle"],
)
def test_what_is_in_slots_of_a_subclass_travels(again):
    found = again(_slotted())
    assert type(found) is Slotted and found.name_of == "one"
    assert found.inner.tolist() == [0.0, 0.0, 0.0] and not hasattr(found, "unset")


def test_nobody_is_asked_about_makers_and_settings():
    ignored = flambeau.overrides.get_ignored_functions()
    listed = flambeau.overrides.get_overridable_functions()[flambeau]
    assert {flambeau.zeros, flambeau.manual_seed, flambeau.as_tensor} <= ignored
    assert flambeau.view_copy in listed and not ignored.intersection(listed)
    with pytest.raises(TypeError, match="expected a sequence"):
        flambeau.overrides.has_torch_function(object())


def test_a_mode_that_does_not_know_hears_what_arguments_call():
    class Choosy(flambeau.overrides.TorchFunctionMode):
        told: list = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.told.append([kind.__name__ for kind in types])
            return NotImplemented if types else func(*args, **(kwargs or {}))

    with Choosy():
        result = flambeau.neg(flambeau.ones(2).as_subclass(Slotted))
    assert type(result) is Slotted
    assert ["Slotted"] in Choosy.told and Choosy.told[-1] == []


def test_modes_are_told_of_sparse_tensors_that_are_made():
    class Loud(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func.__name__, sorted(kwargs or {})

    with Loud():
        found = flambeau.sparse_coo_tensor([[0]], [1.0], (1, 1), check_invariants=False)
        assert found == ("sparse_coo_tensor", ["check_invariants"])
        assert flambeau.sparse_csr_tensor([0, 1], [0], [1.0])[0] == "sparse_csr_tensor"


@pytest.mark.parametrize("name", ["view_copy", "dequantize", "nn.init.uniform_", "sparse.mm"])
def test_functions_that_ask_are_found_by_pickles(name):
    function = operator.attrgetter(name)(flambeau)
    assert pickle.loads(pickle.dumps(function)) is function
