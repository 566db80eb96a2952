"""Graphs that are changed, by PyTorch and by flambeau alike: what comes of it, as text."""

import contextlib
import copy
import math
import operator
import typing

from tests.fx.cases import MODULES, Color, Pair, names, trace

EDITS = {}


def edit(function):
    EDITS[function.__name__] = function
    return function


def attempt(function, *args, **kwargs):
    """What a call gives, or its error."""
    try:
        return str(function(*args, **kwargs))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def small_graph(n):
    torch, graph = n.torch, n.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y", int, 3)
    a = graph.call_function(torch.relu, (x,))
    b = graph.call_function(torch.add, (a, a), {"alpha": y})
    graph.output((b, {"k": [b]}))
    return graph


@edit
def node_names(n):
    torch, graph = n.torch, n.fx.Graph()
    x = graph.placeholder("x")
    for name in ("relu_7", None, "relu_7", "for", "a.b-c/1x", "0ab", "x_1_2", "torch", "inf",
                 "self", "device", "Tensor", "CamelCase", "list", "_", "relu_01",
                 None):  # fmt: skip
        graph.create_node("call_function", torch.relu, (x,), name=name)
    for name in ("max", "__len__", "HTTPServer", "LeNet5Block", "myNT", "__init__", "A1B2", "x_",
                 "Foo_Bar", "layer1.0.conv1", "a__b"):  # fmt: skip
        graph.call_method(name, (x,))
    graph.call_module("A.fooBar.0", (x,))
    graph.get_attr("a.b.0c")
    graph.call_function(max, (x, 1))
    graph.call_function(n.nn.functional.relu, (x,))
    return [str(node) for node in graph.nodes]


@edit
def spelled_code(n):
    torch, graph = n.torch, n.fx.Graph()
    x = graph.placeholder("x")
    calls = [
        (getattr, (x, "a b")), (getattr, (x, "ab")), (setattr, (x, "ab", 1)), (len, (x,)),
        (Color, (x, Color.RED)), (Pair, (x, Pair(x, 2))), (operator.iadd, (x, x)),
        (operator.setitem, (x, 1, x)), (operator.itemgetter, (x, 1)), (operator.not_, (x,)),
        (torch.ops.aten.add.Tensor, (x, x)), (torch.ops.aten.relu, (x,)), (math.floor, (x,)),
        (torch.linalg.norm, (x,)), (torch.fft.fft, (x,)), (torch.device, ("cpu",)),
        (n.F.max_pool2d, (x, 2)), (torch.conv2d, (x, x)), (torch.nn.ReLU, ()),
        (torch.ones, ([x, 2], torch.float32, torch.device("cpu"), torch.Size([1, 2]))),
        (torch.ones, ({"a": x, "b": (x,)}, slice(x, None), range(3), None, ..., 1e-5, 'q"')),
    ]  # fmt: skip
    for target, args in calls:
        graph.call_function(target, args)
    graph.call_method("foo", (x,), {"a": 1})
    graph.get_attr("a.0.b")
    graph.call_module("a.0.c", (x,))
    for kind in (n.Tensor, typing.Dict[str, int], list[n.Tensor], n.Tensor | None,  # noqa: UP006
                 typing.Any, torch.dtype, typing.Optional[int]):  # noqa: UP045  # fmt: skip
        graph.create_node("call_function", torch.relu, (x,), type_expr=kind)
    graph.output([x], typing.Tuple[n.Tensor])  # noqa: UP006
    return [str(graph), graph.python_code("self").src]


@edit
def inserted(n):
    torch, graph = n.torch, small_graph(n)
    x, y, a, b, out = graph.nodes
    with graph.inserting_after(x):
        graph.call_function(torch.neg, (x,))
        graph.call_function(torch.abs, (x,))
    with graph.inserting_before(b):
        c = graph.call_method("tanh", (a,))
    with graph.inserting_before():
        graph.placeholder("first")
    graph.inserting_before(out)
    graph.call_function(torch.sin, (c,))
    b.prepend(y)
    return [str(graph), attempt(graph.lint), str([a < b, sorted([c, x, a])])]


@edit
def replaced(n):
    torch, graph = n.torch, small_graph(n)
    x, y, a, b, out = graph.nodes
    with graph.inserting_after(a):
        c = graph.call_function(torch.sigmoid, (a,))
    found = a.replace_all_uses_with(c, delete_user_cb=lambda user: user is not c)
    b.update_arg(1, x)
    b.update_kwarg("alpha", 2)
    b.insert_arg(0, y)
    b.replace_input_with(y, a)
    return [
        str(graph),
        str(found),
        str(a.users),
        str(b.all_input_nodes),
        str(out.args),
        str(b.kwargs),
    ]


@edit
def erased(n):
    graph = small_graph(n)
    x, _, a, _, out = graph.nodes
    said = [attempt(graph.erase_node, a), attempt(graph.eliminate_dead_code)]
    out.args = (x,)
    said += [attempt(graph.eliminate_dead_code), str(graph), len(graph.nodes)]
    return said


@edit
def refusals(n):
    torch, graph, other = n.torch, small_graph(n), n.fx.Graph()
    x, _, _, b, _ = graph.nodes
    z = other.placeholder("z")
    other.call_function(torch.relu, (x,))
    return [
        attempt(graph.create_node, "foo", "bar"),
        attempt(graph.create_node, "call_function", torch.relu, [x]),
        attempt(graph.create_node, "call_function", torch.relu, (x,), [1]),
        attempt(graph.create_node, "call_function", "relu", (x,)).split(":")[0],
        attempt(graph.create_node, "call_module", torch.relu, (x,)).split(":")[0],
        attempt(other.lint),
        attempt(z.append, x),
        attempt(graph.inserting_before, z),
        attempt(graph.inserting_after, z),
        attempt(z.update_arg, 3, 1),
        attempt(z.insert_arg, 5, 1),
        attempt(other.output_node),
        attempt(graph.find_nodes, op="call_function"),
        attempt(b.kwargs.update, {"a": 1}),
        attempt(lambda: graph.output_node().args[0][1]["k"].append(1)),
        attempt(n.fx.GraphModule, {}, _calling(n)),
        attempt(n.fx.GraphModule, 3, graph),
        attempt(n.fx.wrap, 3),
        attempt(n.fx.wrap, "f"),
    ]


def _calling(n):
    graph = n.fx.Graph()
    graph.output(graph.call_module("a.b", (graph.placeholder("x"),)))
    return graph


@edit
def unordered(n):
    graph = small_graph(n)
    _, _, a, b, _ = graph.nodes
    b.append(a)
    return [attempt(graph.lint), str(graph)]


@edit
def copied(n):
    torch, graph, new = n.torch, small_graph(n), n.fx.Graph()
    values = {}
    result = new.graph_copy(graph, values)
    new.output(new.call_function(torch.neg, (result[0],)))
    twin = copy.deepcopy(graph)
    found = twin.find_nodes(op="call_function", target=torch.relu)
    return [str(new), str(values), str(twin), str(found), str(twin.find_nodes(op="placeholder"))]


@edit
def transformed_code(n):
    graph = small_graph(n)
    with graph.on_generate_code(lambda old: lambda body: ["x = x + 1\n", *body]):
        first = graph.python_code("self").src
    return [first, graph.python_code("me").src, graph.python_code("self", verbose=True).src]


@edit
def recorded_by_hand(n):
    """Proxies of nodes of a graph that is there."""
    torch, graph = n.torch, small_graph(n)
    _, _, a, b, _ = graph.nodes
    with graph.inserting_after(b):
        value = n.fx.Proxy(a)
        made = (torch.sigmoid(value) + value.shape[0]).relu()
    made.node.meta["why"] = 1
    return [str(graph), repr(made), str(made.node.prev)]


@edit
def own_tracer(n):
    class All(n.fx.Tracer):
        def is_leaf_module(self, m, path):
            return False

    class Blocks(n.fx.Tracer):
        def is_leaf_module(self, m, path):
            return path.startswith("blocks") or super().is_leaf_module(m, path)

        def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
            node = super().create_node(kind, target, args, kwargs, name, type_expr)
            node.meta["seen"] = kind
            return node

    model = MODULES["nested"](n)
    tracer = Blocks()
    graph = tracer.trace(model)
    layers = n.nn.Sequential(n.nn.Linear(3, 3), n.nn.ReLU(), n.nn.GELU(),
                                n.nn.Dropout(), n.nn.MaxPool2d(2))  # fmt: skip
    stacks = {node.name: list(node.meta.get("nn_module_stack", ())) for node in graph.nodes}
    return [str(graph), str(All().trace(layers)), stacks, {v.meta["seen"] for v in graph.nodes}]


@edit
def shapes_of_parameters(n):
    class Shape(n.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = n.nn.Parameter(n.torch.ones(2, 3))

        def forward(self, x):
            if self.w.shape[0] == 2 and self.w.dim() == 2:
                return x @ self.w.T
            return x

    tracer = n.fx.Tracer(param_shapes_constant=True)
    return [str(tracer.trace(Shape()))]


@edit
def decided(n):
    """A tracer that knows what to do with branches and loops."""

    class Knowing(n.fx.Tracer):
        def to_bool(self, obj):
            return True

        def iter(self, obj):
            return iter([obj[0], obj[1]])

    def program(x):
        return [v * 2 for v in x] if x.sum() > 0 else x

    return [str(Knowing().trace(program))]


@edit
def patterns(n):
    torch, fx = n.torch, n.fx

    def program(x):
        a = torch.relu(x) + 1
        b = torch.relu(a) + 1
        c = torch.relu(b)
        return a + b + c + (c + 1)

    found = []
    for pattern, replacement in (
        (lambda x: torch.relu(x) + 1, lambda x: torch.sigmoid(x) - 1),
        (lambda x: torch.relu(x), lambda x: x.tanh()),
        (lambda a, b: a + b, lambda a, b: torch.mul(a, b)),
        (lambda x: torch.neg(x), lambda x: x),
    ):
        made = fx.symbolic_trace(program)
        matches = fx.replace_pattern(made, pattern, replacement)
        found += [str(matches), made.code]
    return found


@edit
def patterns_of_modules(n):
    F, nn, fx = n.F, n.nn, n.fx

    class Pattern(nn.Module):
        def forward(self, x, w):
            return F.linear(x, w).relu()

    class Replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Linear(3, 3)

        def forward(self, x, w):
            return self.c(x)

    class Big(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(n.torch.ones(2, 2))

        def forward(self, x):
            return F.linear(x, self.w).relu().max(0)

    made = fx.symbolic_trace(Big())
    matches = fx.replace_pattern(made, Pattern(), Replacement())
    wrong = attempt(fx.replace_pattern, fx.symbolic_trace(Big()), Pattern(), lambda x: x)
    return [str(matches), str(made), wrong]


@edit
def patterns_with_filters(n):
    torch, fx = n.torch, n.fx
    replace = n.part("fx.subgraph_rewriter").replace_pattern_with_filters
    made = fx.symbolic_trace(lambda x: torch.add(x, 1) + torch.add(x, 2))
    is_one = lambda match, graph, pattern: graph.find_nodes(
        op="call_function", target=torch.add)[0] in match.nodes_map.values()  # fmt: skip
    done = replace(made, lambda x: torch.add(x, 5), lambda x: x * 7, [is_one], True)
    return [made.code, str([r.replacements for r in done])]


@edit
def split(n):
    torch, fx = n.torch, n.fx
    split_module = n.part("fx.passes.split_module").split_module

    def program(x, y=1):
        a = x + y
        b = a * 2
        c = torch.relu(b) + x
        return c, a

    count = iter(range(9))
    parts = split_module(fx.symbolic_trace(program), None, lambda node: next(count) // 2)
    model = MODULES["nested"](n)
    one = split_module(fx.symbolic_trace(model), model, lambda node: "head" in node.name)
    cycle = attempt(split_module, fx.symbolic_trace(model), model, lambda node: "conv" in node.name)
    names = {}
    split_module(fx.symbolic_trace(model), model, lambda node: 0, names)
    return [str(parts), parts.submod_0.code, parts.submod_1.code, str(one), names, cycle]


@edit
def readable(n):
    torch, fx = n.torch, n.fx
    made = trace(n, "plain")
    n.part("fx.passes.shape_prop").ShapeProp(made).propagate(torch.ones(2, 3))
    metas = [(v.name, str(v.meta.get("tensor_meta"))) for v in made.graph.nodes]
    inner = fx.GraphModule({"inner": made}, _calling_inner(n))
    return [made.print_readable(print_output=False), metas, inner.print_readable(False)]


def _calling_inner(n):
    graph = n.fx.Graph()
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
    return graph


@edit
def submodules(n):
    nn = n.nn
    made = trace(n, "nested")
    found = [
        made.add_submodule("a.b.c", nn.ReLU()), made.delete_submodule("a.b.c"),
        made.delete_submodule("q"), made.add_submodule("stem.weight.x", nn.ReLU()),
        attempt(made.graph.call_module, "none.at.all"),
    ]  # fmt: skip
    made.delete_all_unused_submodules()
    return [
        found,
        [name for name, _ in made.named_modules()],
        made.get_submodule("head")._get_name(),
    ]


@edit
def folded(n):
    class Constant(n.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = n.nn.Parameter(n.torch.ones(2))
            self.b = n.nn.Parameter(n.torch.ones(2))

        def forward(self, x):
            return x + (self.a + self.b).relu()

    made = n.part("fx.experimental.const_fold").split_const_subgraphs(Constant())
    made.run_folding()
    return [made._FX_CONST_FOLDED_ATTRS.tolist(), made(n.torch.ones(2)).tolist()]


@edit
def fused(n):
    optimization = n.part("fx.experimental.optimization")
    made = optimization.fuse(MODULES["nested"](n))
    return [str(made), attempt(optimization.fuse, MODULES["nested"](n).train())]


@edit
def arguments_by_name(n):
    schemas = n.part("fx.operator_schemas")
    F, torch = n.F, n.torch
    made = trace(n, "nested")
    by_name = [str(v.normalized_arguments(made, normalize_to_only_use_kwargs=True))
               for v in made.graph.nodes if v.op == "call_module"]  # fmt: skip
    return [
        str(schemas.normalize_function(F.relu, (1,))),
        str(schemas.normalize_function(F.dropout, (1,), {"p": 0.1},
                                       normalize_to_only_use_kwargs=True)),
        str(schemas.normalize_function(torch.relu, (1,), arg_types=(torch.Tensor,),
                                       normalize_to_only_use_kwargs=True)),
        by_name,
    ]  # fmt: skip


@edit
def missing_modules(n):
    nn, graph = n.nn, n.fx.Graph()
    graph.output(graph.call_module("one", (graph.placeholder("x"),)))
    graph.get_attr("a.b")
    root = nn.Module()
    root.one, root.a = nn.ReLU(), nn.Module()
    root.a.b = nn.Parameter(n.torch.ones(1))
    made = n.fx.GraphModule(root, graph)
    del made.one
    said = [attempt(made.graph.lint)]
    made.one = nn.ReLU()
    del made.a.b
    return [*said, attempt(made.graph.lint)]


@edit
def taken_apart(n):
    """A function replaced by what it is made of, by recording that with proxies."""
    rules = {n.F.relu: lambda x, inplace: (x > 0) * x}
    old = n.fx.Tracer().trace(MODULES["nested"](n))
    old_relu = n.fx.symbolic_trace(lambda x: n.F.relu(x) + n.F.relu(x * 2)).graph
    texts = []
    for graph in (old, old_relu):
        new, values = n.fx.Graph(), {}
        tracer = n.part("fx.proxy").GraphAppendingTracer(new)
        for node in graph.nodes:
            if node.op == "call_function" and node.target in rules:
                args = [n.fx.Proxy(values[arg], tracer) for arg in node.args]
                values[node] = rules[node.target](*args, **node.kwargs).node
            else:
                values[node] = new.node_copy(node, lambda arg, values=values: values[arg])
        texts.append(str(new))
    return texts


@edit
def observed(n):
    """A module put after every call of a module; dropout taken out; what is unused goes."""
    nn = n.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.d = nn.Linear(2, 2), nn.Dropout()
            self.register_buffer("b", n.torch.ones(2))
            self.many = nn.ParameterList([nn.Parameter(n.torch.ones(2))])
            self.named = nn.ModuleDict({"k": nn.Linear(2, 2)})

        def forward(self, x):
            return self.named["k"](self.d(self.a(x))) * self.many[0] + self.b

    made = n.fx.symbolic_trace(Net())
    first = made.code
    for node in list(made.graph.nodes):
        if node.op == "call_module" and isinstance(made.get_submodule(node.target), nn.Dropout):
            node.replace_all_uses_with(node.args[0])
            made.graph.erase_node(node)
    made.add_submodule("seen.x", nn.Identity())
    for node in list(made.graph.nodes):
        if node.op == "call_module":
            with made.graph.inserting_after(node):
                new = made.graph.call_module("seen.x", (node,))
            node.replace_all_uses_with(new, lambda user, new=new: user is not new)
    made.delete_all_unused_submodules()
    made.recompile()
    made.graph.lint()

    class Buffers(n.fx.Tracer):
        proxy_buffer_attributes = True

    return [first, str(made), str(Buffers().trace(Net()))]


@edit
def hooked(n):
    """Hooks of leaves run with them, those of other modules are recorded."""
    nn = n.nn

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x):
            return self.act(self.act(x))

    model = nn.Sequential(Twice(), nn.Linear(2, 2))
    model[0].register_forward_hook(lambda module, args, out: out * 2)
    model[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    model[1].register_forward_hook(lambda module, args, out: out * 3)
    return [n.fx.symbolic_trace(model).code]


def edited(torch, name):
    with contextlib.redirect_stdout(None):
        return EDITS[name](names(torch))
