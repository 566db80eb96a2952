"""`torch.jit.trace`: a function or a module runs on examples, and what it computes is a program."""

import inspect
import warnings
from typing import Any

from flambeau import interposing
from flambeau._tensor import Tensor
from flambeau.jit import types as T
from flambeau.jit.compiling import Function
from flambeau.jit.functions import ScriptFunction
from flambeau.jit.ir import Value
from flambeau.jit.modules import (
    ScriptModule,
    TopLevelTracedModule,
    TracedModule,
    fill_module,
    new_module,
    python_class,
)
from flambeau.jit.passes import draws, inlined
from flambeau.jit.recording import Recorder, TracerWarning
from flambeau.jit.regions import Lifting, traced_types
from flambeau.jit.schemas import Argument
from flambeau.jit.state import state
from flambeau.jit.units import unit
from flambeau.nn import Module


class TracingCheckError(Exception):
    """A recording that does not do what the function does."""

    def __init__(
        self, graph_diff_error: Any, tensor_compare_error: Any, extra_msg: Any = None
    ) -> None:
        self.message = "Tracing failed sanity checks!\n"
        if extra_msg is not None:
            self.message += extra_msg + "\n"
        if graph_diff_error is not None:
            self.message += f"ERROR: Graphs differed across invocations!\n{graph_diff_error}\n"
        if tensor_compare_error is not None:
            self.message += (
                "ERROR: Tensor-valued Constant nodes differed in value across invocations. This "
                f"often indicates that the tracer has encountered untraceable code.\n"
                f"{tensor_compare_error}\n"
            )
        super().__init__(self.message)


_DICT = (
    "Encountering a {0} at the output of the tracer might cause the trace to be incorrect, this is "
    "only valid if the container structure does not change based on the module's inputs. Consider "
    "using a constant container instead (e.g. for `list`, use a `tuple` instead. for `dict`, use a "
    "`NamedTuple` instead). If you absolutely need this and know the side effects, pass "
    "strict=False to trace() to allow this behavior."
)
_ONLY_TENSORS = (
    "Type '{}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of "
    "Tensors can be traced"
)


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict | None = None,
    _store_inputs: bool = True,
) -> Any:
    """A program of what a function or a module does with examples.

    Branches are taken as the examples take them; a TracerWarning tells where that may be wrong.
    Sizes follow the inputs. With check_trace the program runs once on the examples (and on
    check_inputs) and is compared with the function.
    """
    if isinstance(func, (ScriptModule, ScriptFunction)):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the "
            "object as is.",
            stacklevel=2,
        )
        return func
    settings = _Settings(check_trace, check_inputs, check_tolerance, strict)
    inputs = _as_tuple(example_inputs) if example_inputs is not None else ()
    named = example_kwarg_inputs or {}
    if isinstance(func, Module):
        return _trace_module(func, {"forward": (inputs, named)}, settings)
    owner = getattr(func, "__self__", None)
    if isinstance(owner, Module) and getattr(func, "__name__", "") == "forward":
        return _trace_module(owner, {"forward": (inputs, named)}, settings)
    return _trace_function(func, inputs, named, settings)


def trace_module(
    mod: Module,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """A program of several methods of a module, each with its examples."""
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    settings = _Settings(check_trace, check_inputs, check_tolerance, strict)
    if example_inputs_is_kwarg:
        return _trace_module(mod, {n: ((), given) for n, given in inputs.items()}, settings)
    return _trace_module(mod, {n: (_as_tuple(given), {}) for n, given in inputs.items()}, settings)


class _Settings:
    def __init__(self, checks, more, tolerance, strict):
        self.checks, self.more, self.tolerance, self.strict = checks, more, tolerance, strict


def _as_tuple(inputs):
    if isinstance(inputs, (Tensor, dict)):
        return (inputs,)
    return tuple(inputs)


# -- recording -------------------------------------------------------------------------------------


def _record(root, function, inputs, named, strict, kind=Recorder):
    """(recorder, arguments, their values, the result's value) of a run."""
    recorder = kind(root)
    names = _names(function, len(inputs), named)
    examples = [*inputs, *named.values()]
    arguments, parameters, given = [], [], []
    for name, example in zip(names, examples):
        type_ = _type_of(example)
        value = recorder.graph.param.add_output(type_, name)
        parameters.append(value)
        arguments.append(Argument(name, type_))
        given.append(_entered(recorder, example, value))
    state.tracers.append(recorder)
    try:
        with interposing.handling(recorder):
            count = len(inputs)
            result = function(*given[:count], **dict(zip(named, given[count:])))
    finally:
        state.tracers.remove(recorder)
    return recorder, arguments, parameters, _given_back(recorder, result, strict, 0)


def _names(function, count, named):
    try:
        found = [p.name for p in inspect.signature(function).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]  # fmt: skip
    except (TypeError, ValueError):
        found = []
    found += [f"argument_{k + 1}" for k in range(len(found), count)]
    return [*found[:count], *named]


def _type_of(example):
    if isinstance(example, Tensor):
        return T.TENSOR
    if isinstance(example, tuple):
        return T.TupleOf(*[_type_of(e) for e in example])
    if isinstance(example, list) and example:
        return T.ListOf(_type_of(example[0]))
    if isinstance(example, dict) and example:
        return T.DictOf(T.STR, _type_of(next(iter(example.values()))))
    raise RuntimeError(_ONLY_TENSORS.format(type(example).__name__))


def _entered(recorder, example, value):
    """An example as the recording sees it: tensors that are values of the program."""
    if isinstance(example, Tensor):
        own = example.detach().requires_grad_(example.requires_grad)
        own = own if example.is_leaf else example.view_as(example)
        recorder.track(own, value)
        return own
    if isinstance(example, dict):
        found = {}
        for key, item in example.items():
            at = recorder.constant(key)
            part = recorder.builtin("aten::__getitem__", None, [value, at])
            found[key] = _entered(recorder, item, part)
        return found
    op = "prim::TupleUnpack" if isinstance(example, tuple) else "prim::ListUnpack"
    node = recorder.graph.add(op, [value])
    recorder._place(node)
    kinds = value.type_.parts if isinstance(example, tuple) else value.type_.parts * len(example)
    parts = [_entered(recorder, e, node.add_output(k)) for e, k in zip(example, kinds)]
    return type(example)(*parts) if hasattr(example, "_fields") else type(example)(parts)


def _given_back(recorder, result, strict, depth) -> Value:
    """The value of what a function returns."""
    if isinstance(result, Tensor):
        return recorder.value_for(result)
    if isinstance(result, tuple):
        parts = [_given_back(recorder, r, strict, depth + 1) for r in result]
        made = recorder.tuple_of(parts, None)
        return made
    if isinstance(result, list):
        if strict:
            raise RuntimeError(_DICT.format("list"))
        return recorder.list_of([_given_back(recorder, r, strict, depth + 1) for r in result], None)
    if isinstance(result, dict):
        if strict:
            raise RuntimeError(_DICT.format("dict"))
        keys = [recorder.constant(key) for key in result]
        values = [_given_back(recorder, r, strict, depth + 1) for r in result.values()]
        return recorder.dict_of(keys, values, None, None)
    raise RuntimeError(
        "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from "
        f"traced functions; found {type(result).__name__}"
    )


def _lifted(recorder, arguments, parameters, result, name, types) -> Function:
    lifting = Lifting(recorder, types)
    lifting.final = frozenset({result})
    return lifting.function(recorder.root, name, arguments, [result], parameters)


def _trace_function(func, inputs, named, settings):
    name = getattr(func, "__name__", "function")
    name = name if name.isidentifier() else "lambda_"
    recorder, *rest = _record(None, func, inputs, named, settings.strict)
    function = _lifted(recorder, *rest, name, {})
    function.qualified_name = unit.unique_name(f"__torch__.{name}")
    made = ScriptFunction(function, func if inspect.isfunction(func) else None)
    if settings.checks:
        again = lambda: _lifted_again(None, func, inputs, named, settings, name, {})
        _check(made, function, func, inputs, named, settings, again)
    return made


def _trace_module(module, methods, settings):
    types = traced_types(module)
    kind = types[""]
    for name, (inputs, named) in methods.items():
        method = module if name == "forward" else getattr(module, name)
        recorder, arguments, parameters, result = _record_method(
            module, method, name, inputs, named, settings
        )
        kind.methods[name] = _lifted(recorder, arguments, parameters, result, name, types)
    made = _made(module, types, "", {}, TopLevelTracedModule)
    if settings.checks:
        for name, (inputs, named) in methods.items():
            function = kind.methods[name]
            plain = module if name == "forward" else getattr(module, name)
            again = lambda name=name, inputs=inputs, named=named: _retraced(
                module, name, inputs, named, settings
            )
            _check(getattr(made, name), function, plain, inputs, named, settings, again)
    return made


def _record_method(module, method, name, inputs, named, settings):
    recorder, arguments, parameters, result = _record(
        module, method, inputs, named, settings.strict
    )
    names = _names(getattr(module, name), len(inputs), named)
    for value, argument in zip(parameters, names):
        value.name = argument
    arguments = [a._replace(name=n) for a, n in zip(arguments, names)]
    return recorder, arguments, parameters, result


def _retraced(module, name, inputs, named, settings):
    types = traced_types(module)
    method = module if name == "forward" else getattr(module, name)
    found = _record_method(module, method, name, inputs, named, settings)
    return _lifted(*found, name, types)


def _lifted_again(root, func, inputs, named, settings, name, types):
    recorder, *rest = _record(root, func, inputs, named, settings.strict)
    return _lifted(recorder, *rest, name, types)


def _made(module, types, path, memo, base=TracedModule):
    """A traced module for a module, and for those it holds."""
    if isinstance(module, ScriptModule):
        return module
    if id(module) in memo:
        return memo[id(module)]
    kind: Any = types[path]
    made = memo[id(module)] = new_module(kind, base)
    made.__dict__["original_name"] = type(module).__name__
    inner = {id(m): f"{path}.{n}" if path else n for n, m in module._modules.items()}
    fill_module(made, kind, module, lambda m: _made(m, types, inner[id(m)], memo))
    python_class(kind, base)
    return made


# -- checking --------------------------------------------------------------------------------------


def _check(made, function, plain, inputs, named, settings, again):
    """Compare a program with the function it was made of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)
        other = again()
    if _shape_of(other.graph) != _shape_of(function.graph):
        raise TracingCheckError(_difference(str(function.graph), str(other.graph)), None)
    _compare_constants(function.graph, other.graph)
    _warn_of_draws(function.graph)
    more = settings.more or []
    for given in [inputs, *[_as_tuple(g) for g in more]]:
        _compare(made, plain, given, named if given is inputs else {}, settings.tolerance)


def _shape_of(graph):
    """What a graph computes, without the names of values and types of modules."""
    numbers: dict[Value, int] = {}
    lines = []
    for node in graph.all_nodes():
        for value in node.outs:
            numbers[value] = len(numbers)
        shown = {k: v for k, v in node.attributes.items() if not isinstance(v, (Tensor, Function))
                 and k[0] != "_"}  # fmt: skip
        if node.op == "prim::CallMethod":  # "forward1": that of another method that was recorded
            shown["name"] = shown["name"].rstrip("0123456789")
        lines.append((node.op, [numbers.get(v, -1) for v in node.ins], str(shown)))
    return lines


def _compare_constants(graph, other):
    """Tensors that were not computed from the inputs have to be the same in each recording."""
    import flambeau

    for node, twin in zip(graph.all_nodes(), other.all_nodes()):
        value, again = node.attributes.get("value"), twin.attributes.get("value")
        if isinstance(value, Tensor) and isinstance(again, Tensor):
            try:
                flambeau.testing.assert_close(value, again, equal_nan=True)
            except AssertionError as error:
                told = f"\tNode:\n\t\t{node}\n\tComparison exception: \t{error}"
                found = _difference(str(graph), str(other))
                raise TracingCheckError(found, told) from None


def _warn_of_draws(graph):
    found = [str(node).rstrip() for node in inlined(graph).all_nodes() if draws(node)]
    if found:
        warnings.warn(
            "Trace had nondeterministic nodes. Did you forget call .eval() on your model? Nodes:\n"
            + "\n".join(f"\t{node}" for node in found)
            + "\nThis may cause errors in trace checking. To disable trace checking, pass "
            "check_trace=False to torch.jit.trace()",
            TracerWarning,
            stacklevel=5,
        )


def _difference(first, second):
    import difflib

    lines = difflib.ndiff(first.splitlines(True), second.splitlines(True))
    return "Graph diff:\n" + "".join("\t" + line for line in lines)


def _copies(inputs):
    if isinstance(inputs, Tensor):
        return inputs.detach().clone().requires_grad_(inputs.requires_grad)
    if isinstance(inputs, (list, tuple)):
        copied = [_copies(i) for i in inputs]
        return type(inputs)(*copied) if hasattr(inputs, "_fields") else type(inputs)(copied)
    if isinstance(inputs, dict):
        return {key: _copies(value) for key, value in inputs.items()}
    return inputs


def _compare(made, plain, inputs, named, tolerance):
    import flambeau

    before = flambeau.get_rng_state()
    try:
        found = _tensors(made(*_copies(inputs), **_copies(named)))
        flambeau.set_rng_state(before)
        wanted = _tensors(plain(*_copies(inputs), **_copies(named)))
    finally:
        flambeau.set_rng_state(before)
    for k, (a, b) in enumerate(zip(found, wanted)):
        try:
            flambeau.testing.assert_close(
                a.double(), b.double(), rtol=tolerance, atol=tolerance, equal_nan=True
            )
        except (AssertionError, RuntimeError) as error:
            warnings.warn(
                f"Output nr {k + 1}. of the traced function does not match the corresponding "
                f"output of the Python function. Detailed error:\n{error}",
                TracerWarning,
                stacklevel=5,
            )


def _tensors(found):
    if isinstance(found, Tensor):
        return [found.detach()]
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, (list, tuple)):
        return [t for item in found for t in _tensors(item)]
    return []
