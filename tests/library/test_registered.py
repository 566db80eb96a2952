"""torch.library: ops of a program, their schemas, gradients, rules for vmap, what is refused."""

# ruff: noqa: UP006, UP007, UP035, UP045  (older spellings of types are what is tested)

from typing import Callable, List, Optional, Sequence, Tuple, Union

import pytest

import flambeau as torch
from flambeau import Tensor, library

# what annotations say, as PyTorch says it: (parameter, result) -> schema
PARAMETERS = {
    int: "SymInt", float: "float", bool: "bool", str: "str", Tensor: "Tensor",
    Optional[int]: "SymInt?", List[int]: "SymInt[]", Sequence[Tensor]: "Tensor[]",
    torch.dtype: "ScalarType", torch.device: "Device", Union[int, float, bool]: "Scalar",
    List[Optional[Tensor]]: "Tensor?[]", Optional[Tensor]: "Tensor?", list[float]: "float[]",
}  # fmt: skip
NOT_PARAMETERS = [dict, tuple, complex, Callable, list[str], torch.layout, Optional[List[Tensor]]]
RESULTS = {
    int: "SymInt", Tensor: "Tensor", None: "()", Tuple[Tensor, int]: "(Tensor, SymInt)",
    List[Tensor]: "Tensor[]",
}  # fmt: skip
DEFAULTS = {1: "1", 1.5: "1.5", None: "None", "a": '"a"', torch.float32: "float32", 1e-5: "1e-05"}


def annotated(kind, result):
    def function(x):
        return x

    function.__annotations__ = {"x": kind, "return": result}
    return function


@pytest.mark.parametrize(("kind", "word"), PARAMETERS.items(), ids=str)
def test_annotations_of_parameters_say_a_schema(kind, word):
    found = library.infer_schema(annotated(kind, Tensor), mutates_args=())
    assert found == f"({word} x) -> Tensor"


@pytest.mark.parametrize("kind", NOT_PARAMETERS, ids=str)
def test_other_types_are_refused(kind):
    with pytest.raises(ValueError, match="Parameter x has unsupported type"):
        library.infer_schema(annotated(kind, Tensor), mutates_args=())


@pytest.mark.parametrize(("kind", "word"), RESULTS.items(), ids=str)
def test_annotations_of_results(kind, word):
    assert library.infer_schema(annotated(Tensor, kind), mutates_args=()) == f"(Tensor x) -> {word}"


@pytest.mark.parametrize(("value", "word"), DEFAULTS.items(), ids=str)
def test_defaults(value, word):
    def function(x: float = value) -> None: ...

    assert library.infer_schema(function, mutates_args=()) == f"(float x={word}) -> ()"


def test_written_arguments_have_marks():
    def function(x: List[Tensor], y: Tensor, n: int) -> None: ...

    found = library.infer_schema(function, mutates_args="unknown")
    assert found == "(Tensor(a0!)[] x, Tensor(a1!) y, SymInt n) -> ()"
    with pytest.raises(ValueError, match=r"\{'z'\} in mutates_args were not found"):
        library.infer_schema(function, mutates_args=("z",))
    with pytest.raises(ValueError, match="n is in mutable_args but only Tensors"):
        library.infer_schema(function, mutates_args=("n",))


# -- calls -----------------------------------------------------------------------------------------


@library.custom_op("testing::scaled", mutates_args=())
def scaled(x: Tensor, n: int = 3, *, s: float = 1.0) -> Tensor:
    return x * n * s


def test_arguments_by_position_and_by_name():
    x = torch.ones(1)
    assert scaled(x).item() == 3
    assert (
        scaled(x, 2, s=5.0).item() == torch.ops.testing.scaled.default(x, n=2, s=5.0).item() == 10
    )
    assert str(torch.ops.testing.scaled.default._schema) == (
        "testing::scaled(Tensor x, SymInt n=3, *, float s=1.) -> Tensor"
    )


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, r"testing::scaled\(\) is missing value for argument 'x'"),
        (("a",), {}, r"testing::scaled\(\) Expected a value of type 'Tensor' for argument 'x' but"),
        ((torch.ones(1), 2.5), {}, "Expected a value of type 'int' for argument 'n' but instead"),
        ((torch.ones(1), 2, 3), {}, r"expected at most 3 argument\(s\) but received 3"),
        ((torch.ones(1),), {"q": 1}, "Unknown keyword argument 'q' for operator 'testing::scaled'"),
    ],
)
def test_arguments_are_checked(args, kwargs, words):
    with pytest.raises(RuntimeError, match=words):
        scaled(*args, **kwargs)


def op(function, **options):
    return library.custom_op(f"testing::{function.__name__}", function, mutates_args=(), **options)


def test_results_are_checked():
    def same(x: Tensor) -> Tensor:
        return x

    def number(x: Tensor) -> Tensor:
        return 5

    def something(x: Tensor) -> None:
        return x

    for function, words in (
        (same, "may not alias any inputs"),
        (number, "Unable to cast 5 to Tensor"),
        (something, "to return None but it returned something else"),
    ):
        with pytest.raises(RuntimeError, match=words):
            op(function)(torch.ones(1))


def test_functions_by_device():
    def twice(x: Tensor) -> Tensor:
        return x * 2

    found = op(twice, device_types="cuda")
    with pytest.raises(NotImplementedError, match="Could not run 'testing::twice' with arguments"):
        found(torch.ones(1))
    found.register_kernel("cpu")(lambda x: x * 3)
    assert found(torch.ones(1)).item() == 3
    with pytest.raises(RuntimeError, match="There was no fake impl registered for <CustomOpDef"):
        found(torch.ones(1, device="meta"))


def test_tensors_in_lists_have_gradients():
    def doubled(x: List[Tensor], y: Tensor) -> List[Tensor]:
        return [a * 2 for a in x]

    found = op(doubled)
    found.register_autograd(lambda ctx, grads: ([g * 2 for g in grads], None))
    x = torch.ones(1, requires_grad=True)
    out = found([x, x.detach()], x)
    assert type(out) is list
    assert type(out[0].grad_fn).__name__ == "GeneratedBackwardFor_testing_doubled_defaultBackward"
    out[0].backward()
    assert x.grad.item() == 2


def test_a_written_argument_is_counted():
    @library.custom_op("testing::more", mutates_args={"x"})
    def more(x: Tensor) -> None:
        x.numpy()[:] += 1

    x = torch.ones(2)
    more(x)
    assert x.tolist() == [2, 2]
    assert x._version == 1
    with pytest.raises(RuntimeError, match="formula for non-functional operator"):
        more.register_autograd(lambda ctx, g: g)


def test_vmap_asks_the_rule():
    @library.custom_op("testing::rows", mutates_args=())
    def rows(x: Tensor) -> Tensor:
        return x * 2

    told = []

    @rows.register_vmap
    def _(info, in_dims, x):
        told.append((info.batch_size, in_dims))
        return rows(x), in_dims[0]

    assert torch.vmap(rows)(torch.ones(3, 2)).tolist() == [[2, 2]] * 3
    assert told == [(3, (0,))]


def test_compiled_programs_call_them():
    @library.custom_op("testing::numpy_sin", mutates_args=())
    def numpy_sin(x: Tensor) -> Tensor:
        return torch.from_numpy(__import__("numpy").sin(x.numpy()))

    library.register_fake("testing::numpy_sin", torch.empty_like)
    library.register_autograd(
        "testing::numpy_sin",
        lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )

    @torch.compile(fullgraph=True)
    def program(x):
        return torch.ops.aten.add.Tensor(numpy_sin(x), torch.ops.testing.numpy_sin(x))

    x = torch.ones(2, requires_grad=True)
    program(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach().cos())


# -- in two steps ----------------------------------------------------------------------------------


def test_a_library_defines_and_implements():
    with library._scoped_library("testing_steps", "DEF") as found:
        assert found.define("power(Tensor x, int n=2) -> Tensor") == "power"
        with pytest.raises(NotImplementedError, match="Could not run 'testing_steps::power'"):
            torch.ops.testing_steps.power(torch.ones(1))
        found.impl("power", lambda x, n=2: x**n, "CPU")
        assert torch.ops.testing_steps.power(torch.tensor(3.0)).item() == 9
        with pytest.raises(RuntimeError, match="with the same name and overload name multiple"):
            found.define("power(Tensor x, int n=2) -> Tensor")
        with pytest.raises(RuntimeError, match="could not parse dispatch key: FOO"):
            found.impl("power", abs, "FOO")
    with pytest.raises(AttributeError, match="'_OpNamespace' 'testing_steps' object has no attri"):
        torch.ops.testing_steps.power  # noqa: B018


def test_gradients_go_through_kernels_or_formulas():
    library.define("testing::flows", "(Tensor x) -> Tensor")
    library.impl("testing::flows", "cpu", lambda x: x.exp())
    x = torch.ones(1, requires_grad=True)
    assert type(torch.ops.testing.flows(x).grad_fn).__name__ == "ExpBackward0"
    library.register_autograd("testing::flows", lambda ctx, g: g * 5)
    torch.ops.testing.flows(x).backward()
    assert x.grad.item() == 5


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("(Tensor x -> Tensor", "expected ) but found 'arrow' here:"),
        ("(Tensor x", "expected ) but found 'eof' here:"),
        ("(Foo x) -> Tensor", "unknown type specifier"),
    ],
)
def test_bad_schemas_are_refused(schema, words):
    with pytest.raises(RuntimeError, match=words.replace(")", r"\)")):
        library.define("testing::bad", schema)
    with pytest.raises(ValueError, match='Expected `qualname` to be of the form "namespace::name"'):
        library.define("bad", schema)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("(Tensor A, Tensor! out) -> ()", "(Tensor A, Tensor($0! -> ) out) -> ()"),
        ("(Tensor(a!) x, Tensor! y) -> Tensor", "(Tensor(a!) x, Tensor($0! -> ) y) -> Tensor"),
        ("(Tensor! x, Tensor![] y) -> ()", "(Tensor($0! -> ) x, Tensor($1! -> )[] y) -> ()"),
        ("(Tensor!? x=None) -> ()", "(Tensor($0! -> )? x=None) -> ()"),
        ("(Tensor! x) -> Tensor!", "(Tensor($0! -> ) x) -> Tensor($1! -> )"),
    ],
)
def test_what_is_written_to_needs_no_mark(given, shown):
    with library._scoped_library("testing_marks", "FRAGMENT") as found:
        found.define("op" + given)
        schema = torch.ops.testing_marks.op.default._schema
        assert str(schema) == f"testing_marks::op{shown}"
        assert schema.is_mutable
        last = schema.arguments[-1]
        assert last.alias_info.is_write
        assert last.type.startswith("Tensor") and "$" not in last.type


def test_ops_write_to_what_has_no_mark():
    with library._scoped_library("testing_writes", "FRAGMENT") as found:
        found.define("twice(Tensor x, Tensor! out) -> ()")
        found.impl("twice", lambda x, out: (out.copy_(x * 2), None)[1], "CPU")
        out = torch.zeros(2)
        torch.ops.testing_writes.twice(torch.ones(2), out)
        assert out.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x", "NOPE"), "Unsupported kind: NOPE"),
        (("prim", "DEF"), "prim is a reserved namespace"),
        (("aten", "DEF"), "Only a single TORCH_LIBRARY can be used to register the namespace aten"),
    ],
)
def test_libraries_that_cannot_be(arguments, words):
    with pytest.raises((ValueError, RuntimeError), match=words):
        library.Library(*arguments)


# -- opcheck ---------------------------------------------------------------------------------------


def test_opcheck():
    def good(x: Tensor) -> Tensor:
        return x * 2

    found = op(good)
    found.register_fake(torch.empty_like)
    outcome = library.opcheck(found, (torch.ones(2),))
    assert set(outcome.values()) == {"SUCCESS"}
    assert len(outcome) == 4
    found.register_fake(lambda x: x.new_empty(5))
    with pytest.raises(library.OpCheckError, match=r"test_faketensor failed .* mismatched tensor"):
        library.opcheck(found, (torch.ones(2),))

    def writes(x: Tensor) -> Tensor:
        return x.add_(1).clone()

    with pytest.raises(library.OpCheckError, match="x is not defined as mutable but was mutated"):
        library.opcheck(op(writes), (torch.ones(2),))
    with pytest.raises(ValueError, match=r"op must be instance of torch\._ops\.OpOverload"):
        library.opcheck(torch.sin, (torch.ones(2),))


def test_modes_are_told_by_functions_of_their_own():
    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    def plain(x: Tensor) -> Tensor:
        return x * 2

    found = op(plain)
    library.register_torch_dispatch(found, Mode, lambda mode, func, types, args, kwargs: 7)
    with Mode():
        assert found(torch.ones(1)) == 7
