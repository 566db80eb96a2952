"""Names that libraries written for PyTorch ask for: true answers, or a refusal that says so."""

import copy
import io
import pickle
import re
import sys

import pytest

import flambeau
from flambeau import library, overrides

# -- dtypes without tensors ------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
)
def test_small_floats_have_torchs_limits(name):
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(flambeau, name), getattr(torch, name)
    assert repr(flambeau.finfo(ours)) == repr(torch.finfo(theirs))
    assert (ours.itemsize, ours.is_floating_point) == (1, True)
    assert flambeau.finfo(ours).max == torch.finfo(theirs).max


@pytest.mark.parametrize(
    "use",
    [
        lambda d: flambeau.zeros(2, dtype=d),
        lambda d: flambeau.ones(2).to(d),
        lambda d: flambeau.tensor([1.0], dtype=d),
    ],
)
def test_packed_floats_make_no_tensors(use):
    with pytest.raises(NotImplementedError, match=r"torch\.float4_e2m1fn_x2 are not implemented"):
        use(flambeau.float4_e2m1fn_x2)


SMALL = [f"{kind}{bits}" for kind in ("int", "uint") for bits in range(1, 8)]
OF_SMALL = [
    "d.itemsize, d.is_signed, d.is_floating_point, d.is_complex",
    "torch.iinfo(d)",
    "torch.finfo(d)",
    "torch.empty(3, dtype=d).shape",
    "torch.ones(2, dtype=torch.uint8).view(d).view(torch.uint8).tolist()",
    "torch.empty(2, 3, dtype=d).t()[1:].stride()",
    "repr(torch.empty(3, dtype=d))",
    "torch.promote_types(d, torch.uint8)",
    "torch.promote_types(d, torch.float32)",
    "torch.empty(3, dtype=d).element_size()",
]


@pytest.mark.oracle
@pytest.mark.parametrize("case", OF_SMALL)
@pytest.mark.parametrize("name", ["int1", "uint4"])
def test_integers_of_less_than_a_byte_as_in_torch(name, case):
    torch = pytest.importorskip("torch")

    def told(module):
        try:
            return repr(eval(case, {"torch": module, "d": getattr(module, name)}))
        except Exception as error:
            return type(error), str(error).partition(" (Could")[0]

    if "info" in case:  # PyTorch names itself in the place of the dtype
        assert told(flambeau)[0] is told(torch)[0] is TypeError
    elif name == "int1" and "promote" in case:  # an internal assertion of PyTorch's
        assert told(torch)[0] is RuntimeError
    else:
        assert told(flambeau) == told(torch)


@pytest.mark.parametrize("name", SMALL)
def test_integers_of_less_than_a_byte_are_names(name):
    found = getattr(flambeau, name)
    assert (found.itemsize, found.is_signed) == (1, name.startswith("int"))
    assert not found.is_floating_point and not found.is_complex
    assert pickle.loads(pickle.dumps(found)) is found
    bytes_ = flambeau.tensor([3, 200], dtype=flambeau.uint8)
    assert bytes_.view(found).view(flambeau.uint8).tolist() == [3, 200]
    with pytest.raises(TypeError, match="requires an integer input type"):
        flambeau.iinfo(found)
    with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not"):
        flambeau.promote_types(found, flambeau.int32)
    for use in (lambda t: t + 1, lambda t: t.tolist(), lambda t: t.clone(), lambda t: t.int()):
        with pytest.raises(NotImplementedError, match="not implemented"):
            use(bytes_.view(found))


def test_small_floats_are_found_again():
    assert pickle.loads(pickle.dumps(flambeau.float8_e5m2)) is flambeau.float8_e5m2
    with pytest.raises(TypeError, match="couldn't find storage object Float8_e5m2Storage"):
        flambeau.set_default_dtype(flambeau.float8_e5m2)
    with pytest.raises(TypeError, match="limits"):
        flambeau.finfo(flambeau.float4_e2m1fn_x2)


# -- checks ----------------------------------------------------------------------------------------

CHECKS = [
    "torch._check(True)",
    "torch._check(False)",
    "torch._check(False, lambda: 'why')",
    "torch._check(1)",
    "torch._check(False, 'why')",
    "torch._check_with(KeyError, False, lambda: 'why')",
    "torch._check_value(False)",
    "torch._check_index(False, lambda: 'why')",
    "torch._check_tensor_all(torch.tensor([True, True]))",
    "torch._check_tensor_all(torch.tensor([True, False]))",
    "torch._check_tensor_all_with(ValueError, torch.tensor([1]), lambda: 'why')",
    "torch.get_device_module('meta')",
]


@pytest.mark.oracle
@pytest.mark.parametrize("case", CHECKS)
def test_checks_as_in_torch(case):
    torch = pytest.importorskip("torch")
    assert outcome(case, flambeau) == outcome(case, torch)


def outcome(case, torch):
    try:
        return eval(case, {"torch": torch})
    except Exception as error:
        return type(error), str(error).partition(" (Could")[0]


def test_checks():
    flambeau._check(True)
    with pytest.raises(RuntimeError, match="Expected cond to be True, but got False"):
        flambeau._check(False)
    with pytest.raises(KeyError, match="why"):
        flambeau._check_tensor_all_with(KeyError, flambeau.tensor([False]), lambda: "why")
    assert flambeau.get_device_module("cpu") is flambeau.cpu


# -- torch.overrides -------------------------------------------------------------------------------


class Speaker:
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return type(self).__name__, func.__name__, args


class Louder(Speaker):
    pass


class Silent:
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return NotImplemented


@pytest.mark.filterwarnings("ignore:Defining your:DeprecationWarning")
def test_arguments_speak_for_themselves():
    assert not overrides.has_torch_function((flambeau.ones(1), 3))
    assert overrides.has_torch_function((flambeau.ones(1), Speaker()))
    assert overrides.is_tensor_like(Speaker()) and not overrides.is_tensor_like([1])
    answer = overrides.handle_torch_function(len, (Speaker(), Louder()), 1, 2)
    assert answer == ("Louder", "len", (1, 2))  # subclasses are asked first
    assert overrides.handle_torch_function(len, (Silent(), Speaker()), 1)[0] == "Speaker"
    with pytest.raises(TypeError, match=r"no implementation found for 'builtins\.len' on types"):
        overrides.handle_torch_function(len, (Silent(),), 1)


# -- torch.library ---------------------------------------------------------------------------------


@pytest.fixture
def cube():
    def cube(x: flambeau.Tensor, scale: int) -> flambeau.Tensor:
        return x.detach() ** 3 * scale

    return library.custom_op("tests::cube", cube, mutates_args=())


def test_a_function_becomes_an_op(cube):
    assert flambeau.ops.tests.cube(flambeau.tensor([3.0]), 1).tolist() == [27]
    assert cube(flambeau.tensor([2.0]), 3).tolist() == [24]
    library.register_fake("tests::cube", lambda x, scale: x.new_empty(x.shape))
    assert cube(flambeau.ones(4, device="meta"), 1).shape == (4,)


def test_an_op_has_the_gradient_it_is_given(cube):
    def keep(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.scale = inputs[1]

    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x**2 * ctx.scale, None

    library.register_autograd("tests::cube", backward, setup_context=keep)
    x = flambeau.tensor([2.0], requires_grad=True)
    cube(x, 5).backward()
    assert x.grad.tolist() == [60]


def test_a_gradient_that_nobody_gave_is_refused(cube):
    x = flambeau.tensor([2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"through tests\.cube\.default but no autograd"):
        cube(x, 5).backward()


def test_library_refuses():
    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        library.custom_op("tests::cube", lambda x: x, mutates_args=())
    with pytest.raises(RuntimeError, match="operator tests::none does not exist"):
        library.register_fake("tests::none", len)


def test_ops_by_their_schemas():
    library.define("tests1::scale", "(Tensor x, float by=2.0, *, bool up=True) -> Tensor")
    scale, x = flambeau.ops.tests1.scale, flambeau.ones(2)
    assert str(scale.default) == "tests1.scale.default" and scale.overloads() == ["default"]
    with pytest.raises(NotImplementedError, match="Could not run 'tests1::scale' with arguments"):
        scale(x)

    @library.impl("tests1::scale", "cpu")
    def _(x, by=2.0, *, up=True):
        return x * by if up else x / by

    assert scale(x).tolist() == [2, 2] and scale.default(x=x, by=4, up=False).tolist() == [0.25] * 2
    with pytest.raises(NotImplementedError, match="no fake impl or Meta kernel registered"):
        scale(x.to("meta"))
    library.register_fake("tests1::scale", lambda x, by=2.0, *, up=True: flambeau.empty_like(x))
    assert scale(x.to("meta")).shape == (2,)
    y = x.clone().requires_grad_()
    scale(y, 3).sum().backward()
    assert y.grad.tolist() == [3, 3]
    library.register_autograd("tests1::scale", lambda ctx, g: (g * 7, None))
    scale(y).sum().backward()
    assert y.grad.tolist() == [10, 10]


@pytest.mark.parametrize("args, kwargs, says", [
    ((3,), {}, r"Expected a value of type 'List\[Tensor\]' for argument 'xs' but instead found"),
    ((), {}, "missing value for argument 'xs'"),
    (([], 1, 2), {}, "expected at most 2 argument"),
    (([],), {"bad": 1}, "Unknown keyword argument 'bad' for operator"),
])  # fmt: skip
def test_arguments_are_those_of_the_schema(args, kwargs, says):
    if not hasattr(flambeau.ops.tests2, "join"):
        library.define("tests2::join", "(Tensor[] xs, int? n=None) -> (Tensor, Tensor?)")
    with pytest.raises(RuntimeError, match=says):
        flambeau.ops.tests2.join(*args, **kwargs)


def test_a_library_has_kernels_by_dispatch_keys():
    mine = library.Library("tests3", "DEF")
    mine.impl("twice", lambda x: x + x, "CPU")  # before it is defined
    assert mine.define("twice(Tensor x) -> Tensor") == "twice"
    mine.define("twice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")

    @library.impl(mine, "twice.out", "CompositeExplicitAutograd")
    def _(x, *, out):
        return out.copy_(x * 2)

    twice, x = flambeau.ops.tests3.twice, flambeau.ones(2)
    assert twice(x).tolist() == twice(x, out=flambeau.empty(2)).tolist() == [2, 2]
    assert twice.overloads() == ["default", "out"]

    class Squared(flambeau.autograd.Function):
        forward = staticmethod(lambda ctx, x: x * 2)
        backward = staticmethod(lambda ctx, g: g * 11)

    mine.impl("twice", Squared.apply, "Autograd")
    y = x.clone().requires_grad_()
    twice(y).sum().backward()
    assert y.grad.tolist() == [11, 11]
    library.register_kernel("tests3::twice", "cpu", lambda x: x * 5)
    assert twice(x).tolist() == [2, 2]
    with flambeau._C._AutoDispatchBelowAutograd():
        assert twice(x).tolist() == [5, 5]
    assert twice(x).tolist() == [2, 2]


@pytest.mark.parametrize("call, kind, says", [
    (lambda: library.define("bad", "() -> ()"), ValueError, 'form "namespace::name", but got bad'),
    (lambda: library.define("tests4::x", "no"), ValueError, "expected schema to look like"),
    (lambda: library.Library("tests4", "BAD"), ValueError, "Unsupported kind: BAD"),
    (lambda: library.Library("aten", "DEF"), RuntimeError, "Only a single TORCH_LIBRARY"),
    (lambda: library.impl("aten::add", "cpu", len), NotImplementedError, "are flambeau's own"),
    (lambda: library.Library("tests4", "IMPL", "CPUU").impl("x", len), RuntimeError,
     "could not parse dispatch key: CPUU"),
    (lambda: flambeau.ops.load_library("a.so"), OSError, "Could not load this library: .*a.so"),
])  # fmt: skip
def test_libraries_refuse(call, kind, says):
    with pytest.raises(kind, match=says):
        call()


def test_ops_that_may_call_triton_are_ops(cube):
    @library.triton_op("tests::twice", mutates_args=())
    def twice(x: flambeau.Tensor) -> flambeau.Tensor:
        return x * 2

    assert repr(twice) == "<CustomOpDef(tests::twice)>"
    assert flambeau.ops.tests.twice(flambeau.ones(2)).tolist() == [2, 2]
    assert flambeau.vmap(twice)(flambeau.ones(2, 1)).tolist() == [[2], [2]]
    with pytest.raises(NotImplementedError, match="wrap_triton is not implemented"):
        library.wrap_triton(cube)


# -- what cannot be made ---------------------------------------------------------------------------


def test_nothing_is_an_instance_of_what_cannot_be_made():
    module = flambeau.nn.Linear(1, 1)
    kinds = flambeau._dynamo.OptimizedModule, flambeau.fx.GraphModule, flambeau.ScriptModule
    assert not isinstance(module, kinds)
    assert isinstance(flambeau.compile(module), flambeau._dynamo.eval_frame.OptimizedModule)
    assert not flambeau.utils._python_dispatch.is_traceable_wrapper_subclass(module.weight)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scans(dim, reverse):
    x = flambeau.arange(24.0).reshape(2, 3, 4)
    scan = flambeau._higher_order_ops.associative_scan
    total = scan(lambda a, b: a + b, x, dim, reverse=reverse)
    turned = x.flip(dim).cumsum(dim).flip(dim) if reverse else x.cumsum(dim)
    assert flambeau.equal(total, turned)


def test_scans_of_trees_have_gradients():
    # h' = a h + b, as states of recurrent layers go
    a = flambeau.tensor([2.0, 3.0, 4.0], requires_grad=True)
    b = flambeau.tensor([1.0, 1.0, 1.0], requires_grad=True)
    scan = flambeau._higher_order_ops.associative_scan
    _, states = scan(lambda s, t: (s[0] * t[0], t[0] * s[1] + t[1]), (a, b), 0)
    assert states.tolist() == [1, 4, 17]
    states[2].backward()
    assert b.grad.tolist() == [12, 4, 1] and a.grad.tolist() == [0, 4, 4]
    with pytest.raises(ValueError, match="Combine_mode must either"):
        scan(lambda s, t: s, a, 0, combine_mode="other")


def test_gradients_through_remote_calls_are_refused():
    from flambeau.distributed import autograd

    assert not autograd.is_available()
    refused = pytest.raises(NotImplementedError, match=r"distributed\.autograd is not implemented")
    with refused, autograd.context():
        pass
    with pytest.raises(NotImplementedError, match="no remote calls"):
        autograd.backward(1, [flambeau.ones(1)])


def test_what_waits_for_a_gpu_is_called_where_there_is_one():
    called = []
    flambeau.cuda._lazy_call(lambda: called.append(1), seed=True)
    assert called == [1] * flambeau.cuda.is_available()


# -- odds and ends ---------------------------------------------------------------------------------


def test_events_of_the_cpu_have_happened():
    event = flambeau.Event(device="cpu", blocking=True)
    event.record()
    event.synchronize()
    assert event.query() and flambeau.Stream().record_event().query()
    with pytest.raises(RuntimeError, match=r"torch\.Event of cuda"):
        flambeau.Event(device="cuda")


def test_records_of_a_saved_file():
    file = io.BytesIO()
    flambeau.save({"a": flambeau.ones(3)}, file)
    with flambeau.PyTorchFileReader(io.BytesIO(file.getvalue())) as reader:
        assert {"data.pkl", "data/0", "version"} <= set(reader.get_all_records())
        assert reader.has_record("data/0") and not reader.has_record("data/1")
        assert len(reader.get_record("data/0")) == 12
        with pytest.raises(RuntimeError, match="failed locating file data/1"):
            reader.get_record("data/1")


def test_extra_state_has_its_name():
    class Counted(flambeau.nn.Module):
        def get_extra_state(self):
            return 5

    assert list(Counted().state_dict()) == [flambeau.nn.modules.module._EXTRA_STATE_KEY_SUFFIX]


def test_storages_tell_their_size():
    assert 4000 < sys.getsizeof(flambeau.ones(1000).untyped_storage()) < 4200


def test_compiled_part():
    from flambeau import _C

    assert _C._log_api_usage_once("library") is None
    assert isinstance(flambeau.Tensor, _C._TensorMeta)
    device, dtype = _C._nn._parse_to("cpu", flambeau.float64)[:2]
    assert (str(device), dtype) == ("cpu", flambeau.float64)


# -- torch._utils, torch._tensor_str and other homes of small functions ----------------------------


def test_dense_tensors_are_laid_in_a_row_and_found_again():
    from flambeau import _utils

    parts = [flambeau.arange(6.0).view(2, 3), flambeau.ones(2).t(), flambeau.tensor(7.0)]
    flat = _utils._flatten_dense_tensors(parts)
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 1, 1, 7]
    again = _utils._unflatten_dense_tensors(flat, parts)
    assert all(flambeau.equal(a, b) for a, b in zip(again, parts))
    again[0].zero_()
    assert flat[:6].sum() == 0


def test_tensors_are_rebuilt_over_storages():
    from flambeau import _utils

    typed = flambeau.arange(6.0).storage()
    t = _utils._rebuild_tensor_v2(typed, 1, (2, 2), (2, 1), True, None)
    assert t.tolist() == [[1, 2], [3, 4]] and t.requires_grad
    p = _utils._rebuild_parameter(t.detach(), False, None)
    assert isinstance(p, flambeau.nn.Parameter) and not p.requires_grad
    assert flambeau.storage.UntypedStorage is flambeau.UntypedStorage


DEVICE_NUMBERS = [
    ("cpu", {"allow_cpu": True}, -1),
    ("cuda:2", {}, 2),
    (3, {}, 3),
    ("cpu", {}, "Expected a non cpu device, but got: cpu"),
    ("cuda", {}, "Expected a torch.device with a specified index or an integer, but got:cuda"),
    (2.5, {}, "Expected a torch.device with a specified index or an integer, but got:2.5"),
]


@pytest.mark.parametrize("given, options, expected", DEVICE_NUMBERS)
def test_numbers_of_devices(given, options, expected):
    from flambeau._utils import _get_device_index

    if isinstance(expected, int):
        assert _get_device_index(given, **options) == expected
    else:
        with pytest.raises(ValueError) as raised:
            _get_device_index(given, **options)
        assert str(raised.value) == expected


def test_pieces_of_texts():
    from flambeau import _tensor_str

    t = flambeau.arange(6.0).view(2, 3)
    assert _tensor_str._tensor_str(t, 8) == "[[0., 1., 2.],\n         [3., 4., 5.]]"
    assert _tensor_str._add_suffixes("X([1]", ["a=1", "b"], 2, False) == "X([1], a=1, b)"
    assert _tensor_str._add_suffixes("X([1]", ["a=1"], 2, True) == "X([1],\n  a=1)"
    assert _tensor_str._str_intern(t, tensor_contents="XX") == "tensor(XX)"
    with _tensor_str.printoptions(precision=1):
        assert _tensor_str.PRINT_OPTS.precision == 1


def test_inputs_are_cut_over_devices_and_joined():
    from flambeau.nn.parallel.scatter_gather import gather, scatter, scatter_kwargs

    x = flambeau.arange(4.0)
    parts = scatter({"x": x, "n": 3, "l": [x, (x,)]}, ["cpu", "cpu"])
    assert [p["x"].tolist() for p in parts] == [[0, 1], [2, 3]] and parts[1]["n"] == 3
    assert parts[1]["l"][1][0].tolist() == [2, 3]
    joined = gather([{"x": p["x"], "none": None} for p in parts], "cpu")
    assert flambeau.equal(joined["x"], x) and joined["none"] is None
    assert gather([flambeau.tensor(1.0), flambeau.tensor(2.0)], "cpu").tolist() == [1, 2]
    args, words = scatter_kwargs((x,), {}, ["cpu", "cpu"])
    assert len(args) == len(words) == 2 and words[0] == {}


def test_answers_of_the_compiled_part():
    from flambeau import _C

    t = flambeau.ones(3)
    assert _C._is_alias_of(t, t[1:]) and not _C._is_alias_of(t, t.clone())
    assert _C._get_default_device() == "cpu" and _C._get_tracing_state() is None
    assert _C._jit_set_profiling_mode(True) is False


def test_parts_of_dimensions():
    from flambeau.distributed.tensor.placement_types import Shard, _StridedShard

    parts = [Shard.local_shard_size_and_offset(10, 4, rank) for rank in range(4)]
    assert parts == [(3, 0), (3, 3), (3, 6), (1, 9)]
    assert str(_StridedShard(1, split_factor=2)) == "_S(1, 2)"


def test_numbers_for_numpy_without_recording():
    p = flambeau.nn.Parameter(flambeau.ones(2))
    with pytest.raises(RuntimeError, match="requires grad"):
        p.numpy()
    with flambeau.no_grad():
        assert p.numpy().tolist() == [1, 1]


def test_weak_dictionaries_tell_keys_apart_by_identity():
    from flambeau.utils.weak import TensorWeakRef, WeakIdKeyDictionary

    a, b = flambeau.ones(2), flambeau.ones(2)
    found = WeakIdKeyDictionary({a: 1})
    found[b] = 2
    assert found[a] == 1 and a in found and len(found) == 2 and 3 not in found
    assert found.copy()[b] == 2
    reference = TensorWeakRef(b)
    assert reference() is b
    del b
    assert len(found) == 1 and reference() is None
    with pytest.raises(KeyError):
        found[flambeau.ones(2)]


def test_managers_before_functions():
    from flambeau.utils._contextlib import (
        _DecoratorContextManager,
        _NoParamDecoratorContextManager,
    )

    log = []

    class Manager(_DecoratorContextManager):
        def __init__(self, name="m"):
            self.name = name

        def clone(self):
            return Manager(self.name)

        def __enter__(self):
            log.append("+" + self.name)

        def __exit__(self, *error):
            log.append("-" + self.name)

    @Manager("a")
    def function(x):
        log.append("call")
        return x + 1

    @Manager("g")
    def numbers():
        got = yield 1
        yield got

    assert function(1) == 2 and log == ["+a", "call", "-a"]
    log.clear()
    steps = numbers()
    assert next(steps) == 1 and steps.send(5) == 5 and list(steps) == []
    assert log == ["+g", "-g"] * 3

    class Plain(_NoParamDecoratorContextManager):
        def __enter__(self):
            log.append("+")

        def __exit__(self, *error):
            log.append("-")

    log.clear()
    assert Plain(lambda: 3)() == 3 and log == ["+", "-"]


def test_lists_by_device_and_dtype():
    from flambeau.utils._foreach_utils import _group_tensors_by_device_and_dtype

    t = [flambeau.ones(1), flambeau.ones(2).double(), flambeau.zeros(3)]
    found = _group_tensors_by_device_and_dtype([t, [1, 2, 3]], with_indices=True)
    lists, places = found[flambeau.device("cpu"), flambeau.float32]
    assert lists[1] == [1, 3] and places == [0, 2]


def test_tensors_of_modules_change_places():
    from flambeau.nn.utils._named_member_accessor import set_tensor, swap_submodule, swap_tensor

    net = flambeau.nn.Sequential(flambeau.nn.Linear(2, 2))
    weight, other = net[0].weight, flambeau.zeros(2, 2)
    assert swap_tensor(net[0], "weight", other) is weight and net[0].weight is other
    set_tensor(net[0], "extra", other)
    assert net[0].extra is other
    old = swap_submodule(net, "0", flambeau.nn.ReLU())
    assert isinstance(old, flambeau.nn.Linear) and isinstance(net[0], flambeau.nn.ReLU)
    with pytest.raises(AttributeError, match="has no attribute `none`"):
        swap_tensor(old, "none", other)


def test_a_dtype_of_half_complex_numbers_has_a_name():
    d = flambeau.complex32
    assert d.is_complex and d.itemsize == 4 and repr(d) == "torch.complex32"
    assert flambeau.chalf is d and flambeau.zeros(2).chalf().dtype is d


def test_conditions_of_one_element():
    flambeau._assert_async(flambeau.tensor(True))
    with pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value, but got"):
        flambeau._assert_async(flambeau.tensor(0))
    assert flambeau.torch is flambeau


def test_methods_that_programs_add_are_not_interposed():
    seen = []

    class Watching(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    flambeau.Tensor.kind_of_mine = lambda self: type(self).__name__
    try:
        t = flambeau.ones(2).as_subclass(Watching)
        assert t.kind_of_mine() == "Watching" and not seen
        assert (t + 1).kind_of_mine() == "Watching" and seen == ["add"]
    finally:
        del flambeau.Tensor.kind_of_mine


def test_wrapped_tensors_are_known_as_such():
    from flambeau._C import _are_functorch_transforms_active, _functorch

    def inside(x):
        assert _are_functorch_transforms_active() and _functorch.is_batchedtensor(x)
        assert _functorch.maybe_get_level(x) == 1
        assert _functorch.get_unwrapped(x).shape == (3, 2)
        whole = _functorch._remove_batch_dim(x * 2, 1, 3, 1)
        assert whole.shape == (2, 3)
        return x + _functorch._add_batch_dim(whole, 1, 1)

    x = flambeau.arange(6.0).view(3, 2)
    assert flambeau.equal(flambeau.vmap(inside)(x), 3 * x)
    assert not _are_functorch_transforms_active() and not _functorch.is_batchedtensor(x)
    with pytest.raises(RuntimeError, match="No wrappers present"):
        _functorch.get_unwrapped(x)


def test_patterns_of_functorch():
    from flambeau._functorch.older.einops import _parsing, rearrange

    assert rearrange(flambeau.zeros(2, 3), "a b -> b a").shape == (3, 2)
    left, right = _parsing.parse_pattern("a (b 1 4) ... 1 -> (a ...)", {})
    (alone,) = (i for i in left.identifiers if isinstance(i, _parsing.AnonymousAxis))
    assert left.composition == [["a"], ["b", alone], _parsing._ellipsis, []] and alone.value == 4
    assert left.has_non_unitary_anonymous_axes and not left.has_ellipsis_parenthesized
    assert right.composition == [["a", _parsing._ellipsis]] and right.has_ellipsis_parenthesized


@pytest.mark.filterwarnings("ignore:We.ve integrated functorch")  # each of them says so
def test_modules_as_functions_of_their_parameters():
    from flambeau._functorch import older as functorch

    nn = flambeau.nn
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()
    x = flambeau.randn(3, 2)
    function, params, buffers = functorch.make_functional_with_buffers(net)
    assert flambeau.equal(function(params, buffers, x), net(x))
    zeros = tuple(flambeau.zeros_like(p) for p in params)
    assert function(zeros, buffers, x).abs().sum() == 0 and len(buffers) == 3
    with pytest.raises(RuntimeError, match="has buffers"):
        functorch.make_functional(net)
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        functorch.combine_state_for_ensemble([net, nn.Sequential()])
    with pytest.raises(RuntimeError, match="of the same class"):
        functorch.combine_state_for_ensemble([nn.Linear(2, 2), nn.Conv2d(3, 3, 3)])
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    function, params = functorch.make_functional(tied)
    assert len(params) == 3 and flambeau.equal(function(params, x), tied(x))
    models = [nn.Linear(2, 1) for _ in range(4)]
    function, params, buffers = functorch.combine_state_for_ensemble(models)
    out = functorch.vmap(function, (0, 0, None))(params, buffers, x)
    assert flambeau.allclose(out, flambeau.stack([m(x) for m in models]))


def test_a_transform_may_be_a_module():
    class Scaled(flambeau.distributions.Transform, flambeau.nn.Module):
        __hash__ = flambeau.nn.Module.__hash__

        def __init__(self):
            super().__init__()
            self.scale = flambeau.nn.Parameter(flambeau.tensor(2.0))

    assert [name for name, _ in Scaled().named_parameters()] == ["scale"]


# -- found by libraries ----------------------------------------------------------------------------


def test_parts_of_complex_tensors_are_written():
    x = flambeau.ones(3, dtype=flambeau.complex64)
    x.real = flambeau.arange(3.0)
    x.imag = -1.5
    x.imag *= -2
    assert x.tolist() == [3j, 1 + 3j, 2 + 3j]


def test_vmap_lets_no_grad_through():
    w = flambeau.ones(3, requires_grad=True)
    hidden = flambeau.no_grad()(lambda v: (v * w).sum())
    assert not flambeau.vmap(hidden)(flambeau.ones(2, 3)).requires_grad
    assert flambeau.vmap(lambda v: (v * w).sum())(flambeau.ones(2, 3)).requires_grad
    one = flambeau.ones(())
    found = flambeau.vmap(lambda v: flambeau.func.vjp(lambda u: (u * u * w).sum(), v)[1](one)[0])
    assert found(flambeau.ones(2, 3)).requires_grad


def test_losses_written_elsewhere_find_reductions():
    from flambeau.nn import _reduction

    assert [_reduction.get_enum(n) for n in ("none", "mean", "sum")] == [0, 1, 2]
    assert _reduction.legacy_get_string(False, None, emit_warning=False) == "sum"


def test_errors_of_workers_are_recorded(tmp_path, monkeypatch):
    from flambeau.distributed.elastic.multiprocessing.errors import record

    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    with pytest.raises(ZeroDivisionError):
        record(lambda: 1 / 0)()
    assert "ZeroDivisionError: division by zero" in path.read_text()
    assert record(lambda: sys.exit(0))() is None


def test_names_that_are_passed_on():
    from flambeau import hub
    from flambeau.nn import parameter

    assert parameter._disabled_torch_function_impl is flambeau._C._disabled_torch_function_impl
    assert isinstance(flambeau.nn.Parameter, parameter._ParameterMeta)
    pytest.importorskip("tqdm")
    assert hub.tqdm.__name__ == "tqdm"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("forward", "must implement the forward function"),
        ("backward", "must implement either the backward or vjp method"),
        ("vjp", "must implement either the backward or vjp method"),
        ("jvp", "must implement the jvp function"),
        ("vmap", "override the vmap staticmethod or set generate_vmap_rule=True"),
    ],
)
def test_functions_say_what_they_lack(name, words):
    with pytest.raises(NotImplementedError, match=words):
        getattr(flambeau.autograd.Function, name)(None, None, None)


@pytest.mark.parametrize(
    "asked, text",
    [
        ({"size": [3]}, "Tensor sizes mismatch! Expected: [3], Got: [3, 4]"),
        ({"stride": [1, 2]}, "Tensor strides mismatch! Expected: [1, 2], Got: [4, 1]"),
        ({"dtype": flambeau.int32}, "Tensor dtype mismatch! Expected: Int, Got: float"),
        ({"layout": flambeau.sparse_coo}, "layout mismatch! Expected: Sparse, Got: Strided"),
        ({"device": "meta"}, "Tensor device mismatch! Expected: meta, Got: cpu"),
    ],
)
def test_what_a_tensor_is_said_to_be(asked, text):
    t = flambeau.ones(3, 4)
    flambeau._assert_tensor_metadata(t, [3, 4], [4, 1], flambeau.float32, device="cpu")
    with pytest.raises(RuntimeError, match=re.escape(text)):
        flambeau._assert_tensor_metadata(t, **asked)


def test_futures_tell_what_went_wrong():
    from flambeau.futures import Future, collect_all, wait_all

    def bad(future):
        raise ValueError("bad")

    done = Future()
    done.add_done_callback(bad)  # said, and forgotten
    done.set_result(1)
    assert done.wait() == 1
    with pytest.raises(RuntimeError, match="can only be marked completed once"):
        done.set_result(2)
    for wait in (Future.wait, lambda f: wait_all([done, f]), lambda f: collect_all([f]).wait()):
        with pytest.raises(RuntimeError, match="running the callback: ValueError: bad"):
            wait(done.then(bad))
    for wait in (wait_all, collect_all, lambda them: flambeau.jit.wait(them[0])):
        with pytest.raises(RuntimeError, match="Future can't be None"):
            wait([None])
    with pytest.raises(RuntimeError, match="Can not pickle"):
        flambeau.save(done, io.BytesIO())


NAMED_TYPES = {"FloatType": "float", "NumberType": "number", "TensorType": "Tensor"}


@pytest.mark.parametrize("kind", NAMED_TYPES)
def test_types_of_programs_have_names(kind):
    assert getattr(flambeau._C, kind) is getattr(flambeau, kind)
    assert getattr(flambeau, kind).get().annotation_str == NAMED_TYPES[kind]


def test_no_mode_makes_fake_tensors():
    assert flambeau._guards.active_fake_mode() is None
    assert flambeau._guards.detect_fake_mode([flambeau.ones(2)]) is None


def test_methods_of_scripted_modules_have_a_class():
    scripted = flambeau.jit.script(flambeau.nn.ReLU())
    assert isinstance(scripted.forward, flambeau._C.ScriptMethod)


def test_weak_dictionaries_are_joined_copied_and_compared_by_identity():
    from flambeau.utils.weak import WeakIdKeyDictionary

    a, b, value = flambeau.ones(2), flambeau.ones(2), [1]
    d = WeakIdKeyDictionary({a: value})
    joined, turned = d | {b: 2}, {b: 3, a: 4} | d
    assert joined[a] is value and joined[b] == 2 and type(turned) is WeakIdKeyDictionary
    assert turned[a] is value and turned[b] == 3
    assert joined == {a: value, b: 2} and joined != {b: value, a: 2} and joined != d
    deep, flat = copy.deepcopy(d), copy.copy(d)
    assert flat[a] is value and deep[a] == value and deep[a] is not value
    d |= [(b, 5)]
    assert d[b] == 5 and b not in flat
    del b
    assert list(joined.values()) == [value]


def test_tensors_are_taken_in_lists_of_one_type():
    from flambeau._utils import _take_tensors

    given = [flambeau.zeros(n) for n in (1, 2, 3)] + [flambeau.zeros(1).double()]
    given += [flambeau.zeros(5), flambeau.sparse_coo_tensor([[0]], [1.0], (9,))]
    found = [[len(t) for t in part] for part in _take_tensors(given, 12)]
    assert found == [[1, 2], [3], [5], [1], [9]]


def test_exceptions_travel_with_their_text():
    from flambeau._utils import ExceptionWrapper

    try:
        raise ValueError("no")
    except ValueError:
        wrapper = ExceptionWrapper(where="in a thread")
    assert wrapper.exc_type is ValueError and wrapper.exc_msg.endswith("ValueError: no\n")
    with pytest.raises(ValueError, match=r"(?s)Caught ValueError in a thread\.\nOriginal.*no"):
        wrapper.reraise()


def test_names_of_trainers():
    from flambeau.distributed.fsdp import api, fully_sharded_data_parallel
    from flambeau.nn.modules.conv import _ConvTransposeMixin, _ConvTransposeNd

    assert issubclass(_ConvTransposeMixin, _ConvTransposeNd)
    for name in "FullOptimStateDictConfig", "FullStateDictConfig", "ShardedStateDictConfig":
        assert getattr(fully_sharded_data_parallel, name) is getattr(api, name)
