"""Pointwise rows meet patterns of arguments: recording their nodes and running them backward.

A `Variant` is a row for one pattern: its `Family` (call.py), its node class, the text that
records a node and, per set of arguments that need gradients, a `Backward`: one fused kernel with
generated text around it, or the formulas on tensors when the pass itself is recorded. As in
call.py, speed outranks prose in the generated text.
"""

from flambeau import _dtype, errors
from flambeau._layout import Layout, broadcast_shape, overlaps_itself
from flambeau._tensor import Tensor, make_tensor
from flambeau.autograd.node import (
    Node,
    SavedInput,
    SavedOutput,
    edge_of,
    init_node,
    next_sequence,
    save_input,
    save_output,
    unpack,
)
from flambeau.codegen import scalar
from flambeau.eager.call import Family
from flambeau.eager.flat import connected
from flambeau.eager.fragments import allocated, compile_text
from flambeau.eager.overlaps import check_overlap
from flambeau.eager.plan import result_types
from flambeau.eager.plans import Plans
from flambeau.ops.table import names_of

FAMILIES: dict = {}  # other kinds of families, by the `family` option of a row


class PointwiseNode(Node):
    """History of a pointwise op. Ordinary backward is one fused kernel for all wanted gradients."""

    __slots__ = ("layouts", "needs", "number_types")
    variant: "Variant"
    backwards: dict = {}  # the variant's, by set of arguments that need gradients
    flat = False  # see ops/table.py

    def narrow(self, edges):
        self.edges = edges
        self.needs = sum([1 << k for k, e in enumerate(edges) if e is not None])

    def apply(self, grads, create_graph):
        backwards, needs = self.backwards, self.needs
        backward = backwards.get(needs)
        if backward is None:
            backward = backwards[needs] = Backward(self.variant, needs)
        if create_graph or len(grads) > 1:
            results = backward.on_tensors(self, grads)
            return connected(self, self.layouts, results) if self.flat and create_graph else results
        return backward.quick(self, grads[0])


class Backward:
    """The derivative of a pointwise op for a set of arguments that need gradients."""

    def __init__(self, variant, needs):
        self.variant, op = variant, variant.op
        self.formulas = [
            (k, op.grads[name])
            for k, name in enumerate(variant.tensors)
            if needs >> k & 1 and name in op.grads
        ]
        self.constants = dict(variant.statics)
        wanted = []
        for _, formula in self.formulas:
            wanted += [n for n in formula.names if n in variant.saved_names and n not in wanted]
        self.wanted = [(n, variant.saved_names.index(n)) for n in wanted]
        self.slots = len(variant.tensors)
        self.identities = [k for k, f in self.formulas if _is_identity(f, self.constants)]
        self.families = Plans(lambda mark: None, mixed=True)
        self.plans, self.sorts = Plans(self._plan, mixed=True), Plans(self._dense, mixed=True)
        self.quick = self._compile_quick()

    def _usual_slots(self):
        """Where gradients come from if all have g's dtype: see `_family`."""
        slots, outs = [None] * self.slots, 0
        for k, _ in self.formulas:
            slots[k] = -1 if k in self.identities else outs
            outs += slots[k] >= 0
        return slots

    def _compile_quick(self):
        """def quick(node, g): the usual case of `fused` as one piece of text.

        Usual: no hooks on saved values, every gradient of g's own dtype. Anything else goes to
        `fused`.
        """
        tensors, variant = self.variant.tensors, self.variant
        text = "def quick(node, g):\n    saved = node.saved\n"
        pointers, numbers, kinds, alike = [], [], [], []
        for n, k in self.wanted:
            if n in tensors or n in ("out", "out0", "out1"):
                saved, mark = (
                    ("SavedInput", f"s{k}.tensor._storage")
                    if n in tensors
                    else ("SavedOutput", f"s{k}.storage")
                )
                text += f"    s{k} = saved[{k}]\n"
                text += f"    if type(s{k}) is not {saved} or {mark}.version != s{k}.version:\n"
                text += "        return fused(node, g)\n"
                owner = f"s{k}.{'tensor._' if n in tensors else ''}"
                pointers.append(f"{mark}.pointer + {owner}offset")
                kinds.append(f", {owner}layout")
                alike.append(f"{owner}layout is layout0")
            else:
                numbers.append(f"saved[{k}]")
                kinds.append(f", type(saved[{k}])")
        usual = self._usual_slots()
        slots = [None if s is None else "g" if s < 0 else f"out{s}" for s in usual]
        outs = sum(s is not None and s >= 0 for s in usual)
        types = "node.number_types" if "s" in variant.pattern else "()"
        # all of one dense layout: the kernel is told how many elements there are
        alike = [f"layouts[{k}] is layout0" for k in range(self.slots)] + alike
        text += "    layout0, layouts = g._layout, node.layouts\n"
        text += f"    if {' and '.join(alike)}:\n"
        typed = "".join(f", {kind[2:]}" for kind in kinds if kind.startswith(", type"))
        text += f"        found = sorts[layout0.sort, {types}{typed}]\n"
        text += "    else:\n        found = None\n"
        text += "    if found is not None:\n        kernel, desc, sums = found\n"
        for k in range(outs):
            text += f"        layout{k} = layout0\n" if k else ""
        text += f"    else:\n        found = plans[layout0, layouts, {types}{''.join(kinds)}]\n"
        text += "        if found is None:\n            return fused(node, g)\n"
        unpacked = "".join(f"layout{k}, " for k in range(outs))
        if outs:
            text += f"        {unpacked}kernel, desc, sums = found\n"
            text += allocated(outs)
            arguments = [
                "desc",
                *(f"p{k}" for k in range(outs)),
                "g._storage.pointer + g._offset",
                *pointers,
                *numbers,
                "layout0.numel",
            ]
            text += f"    kernel({', '.join(arguments)})\n"
        else:
            text += "        sums = found\n"
        text += f"    if not sums:\n        return ({', '.join(map(str, slots))},)\n"
        text += f"    results = [{', '.join(map(str, slots))}]\n"
        text += "    for k in sums:\n        results[k] = fit(results[k], node.layouts[k])\n"
        text += "    return results\n"
        space = {
            "SavedInput": SavedInput,
            "SavedOutput": SavedOutput,
            "fused": self.fused,
            "plans": self.plans,
            "sorts": self.sorts,
            "fit": fit,
        }
        return compile_text(text, space, f"{variant.op.name} backward {variant.pattern}")["quick"]

    def _dense(self, key):
        """(kernel, description, no sums) where all have one layout without gaps."""
        sort, numbers, *types = key
        if sort is None or complex in types or not sort.device.runtime.computes:
            return None
        types, tensors = iter(types), (*self.variant.tensors, "out", "out0", "out1")
        kinds = tuple([sort if n in tensors else next(types) for n, _ in self.wanted])
        family, slots = self._family(sort, (sort,) * self.slots, numbers, kinds)
        if slots != self._usual_slots():
            return None
        if family is None:
            return None, None, ()
        found = family.sorts[(sort, *[k for k in kinds if k is not sort]) if kinds else sort]
        return None if found is None else (*found, ())

    def _plan(self, key):
        """What `quick` does for (layout of g, layouts of the arguments, types of numbers, kinds of
        saved values); None where it is not a usual case.
        """
        g, layouts, numbers, *kinds = key
        if complex in kinds:
            return None
        family, slots = self._family(g, layouts, numbers, tuple(kinds))
        if slots != self._usual_slots():
            return None
        sums = self._sums(slots, g, layouts)
        if family is None:
            return sums
        return (*family.plans[(g, *kinds) if kinds else g], sums)

    def _sums(self, slots, g, layouts):
        """Numbers of the arguments whose gradients are to be summed over what was broadcast."""
        return tuple(
            [k for k, s in enumerate(slots) if s is not None and layouts[k].sizes != g.sizes]
        )

    def arguments(self, node):
        saved = node.saved
        return [(n, unpack(saved[k], node)) for n, k in self.wanted]

    def on_tensors(self, node, grads):
        """The formulas on tensors, so that they are recorded."""
        values = self.constants | dict(self.arguments(node))
        values["g"] = grads[0]
        if len(grads) > 1:
            values["gs"] = grads
        results = [None] * self.slots
        for k, formula in self.formulas:
            args = [
                node.layouts[self.variant.tensors.index(n[:-7])]
                if n.endswith("_layout")
                else values[n]
                for n in formula.names
            ]
            grad = formula.function(*args)
            results[k] = fit(_as_tensor(grad, values["g"]), node.layouts[k])
        return results

    def fused(self, node, g):
        """One kernel for all gradients, in the general case."""
        args = [g, *[v for _, v in self.arguments(node)]]
        kinds = tuple(a._layout if isinstance(a, Tensor) else type(a) for a in args[1:])
        numbers = node.number_types if "s" in self.variant.pattern else ()
        family, slots = self._family(g._layout, node.layouts, numbers, kinds)
        if family is None:
            outs = ()
        elif complex in kinds:
            outs = family.run_any(args)  # two words per complex number
        else:
            outs = family.run(*args)
            if family.outputs == 1:
                outs = (outs,)
        results = [None if s is None else g if s < 0 else outs[s] for s in slots]
        for k in self._sums(slots, g._layout, node.layouts):
            results[k] = fit(results[k], node.layouts[k])
        return results

    def _family(self, g, layouts, numbers, kinds):
        """(family, slot per argument): dtypes alone decide.

        A slot is None, -1 for g itself or the number of an output.
        """
        mark = (
            g.dtype,
            tuple([(x.dtype, not x.ndim) for x in layouts]),
            numbers,
            tuple([x.dtype if type(x) is Layout else x for x in kinds]),
        )
        found = self.families[mark]
        if found is None:
            found = self.families[mark] = self._make_family(g, layouts, numbers, kinds)
        return found

    def _make_family(self, g, layouts, numbers, kinds):
        variant = self.variant
        pattern = "t" + "".join("t" if type(x) is Layout else "s" for x in kinds)
        compute = variant.compute_of(layouts, numbers)
        traced, slots, dtypes = [], [None] * self.slots, []
        for k, formula in self.formulas:
            target = layouts[k].dtype
            if k in self.identities and target is g.dtype:
                slots[k] = -1
                continue
            slots[k] = len(traced)
            traced.append(formula)
            dtypes.append(target if target.category >= _dtype.FLOATING else compute)
        if not traced:
            return None, slots
        names = ["g"] + [n for n, _ in self.wanted]
        key = (
            variant.op.name,
            "backward",
            variant.pattern,
            variant.statics,
            tuple(k for k, _ in self.formulas),
            pattern,
            compute.code,
            tuple(d.code for d in dtypes),
        )
        family = Family(
            key,
            _trace_formulas(traced, names, layouts, variant),
            pattern,
            lambda operands: (compute, tuple(dtypes)),
            len(traced),
        )
        title = f"{variant.op.name} backward kernel"
        family.run = family.compile_run([f"a{k}" for k in range(len(kinds) + 1)], title=title)
        return family, slots


def _is_identity(formula, constants):
    """Is the derivative just g? (It may name constants, as the alpha of add that nobody gave.)"""
    if not all(n == "g" or n in constants for n in formula.names):
        return False
    g = scalar.as_complex(scalar.argument(0, "f32"), None)  # complex: conj(g) is not g
    return formula.function(*[g if n == "g" else constants[n] for n in formula.names]) is g


def _trace_formulas(formulas, names, layouts, variant):
    def trace(*values):
        known = dict(variant.statics) | dict(zip(names, values))
        results = []
        for formula in formulas:
            args = [
                layouts[variant.tensors.index(n[:-7])] if n.endswith("_layout") else known[n]
                for n in formula.names
            ]
            results.append(formula.function(*args))
        return tuple(results)

    return trace


def _as_tensor(value, like):
    return value if isinstance(value, Tensor) else like.new_full(like.shape, value)


def fit(grad, layout):
    """A gradient in shape, dtype and place of what it belongs to; what was broadcast is summed."""
    if grad is None:
        return None
    if grad._layout.dtype is not layout.dtype:
        if grad._layout.dtype.is_complex and not layout.dtype.is_complex:
            grad = grad.real
        if grad._layout.dtype is not layout.dtype:
            grad = grad.to(layout.dtype)
    if grad._layout.sizes != layout.sizes:
        grad = grad.sum_to_size(layout.shape)
    if grad._layout.device is not layout.device:
        grad = grad.to(layout.device)
    return grad


class Variant:
    """A pointwise op for one pattern of arguments: its family, its nodes, its backward kernels."""

    def __init__(self, op, pattern, statics=()):
        self.op, self.pattern = op, pattern
        self.statics = statics
        names = [
            p.name for p in op.params if p.kind in ("tensor", "optional", "float", "int", "scalar")
        ]
        self.names = [n for n in names if n not in dict(statics)]
        self.tensors = [n for n, c in zip(self.names, pattern) if c == "t"]
        key = (op.name, statics) if statics else op.name
        body = op.body
        if statics or any(p.keyword_only for p in op.params):
            constants = dict(statics)
            order = [p.name for p in op.params]

            def traced(*values, _names=tuple(self.names)):
                given = dict(zip(_names, values)) | constants
                return body(
                    *[given[n] for n in names_of(body) if n in given],
                    **{n: given[n] for n in order if n not in names_of(body)},
                )

            trace = traced
        else:
            trace = body
        kind = FAMILIES.get(op.options.get("family"), Family)
        self.family = kind(key, trace, pattern, self._types, op.outputs, op.error)
        self.family.narrows = not op.options.get("exact_numbers", False)
        if op.options.get("settled"):
            self.family.check = settled_check(op, self)
        if self.family.elementwise:
            self.family.check_target = self._check_target
        self.backwards = {}
        self.saved_names = self._saved_names()
        self.differentiable = [
            k for k, (n, c) in enumerate(zip(self.names, pattern)) if c == "t" and n in op.grads
        ]
        name = (
            op.node_name
            if isinstance(op.node_name, str)
            else op.node_name(self.tensors, dict(statics))
        )
        self.node_class = type(
            name,
            (PointwiseNode,),
            {
                "__slots__": (),
                "variant": self,
                "backwards": self.backwards,
                "saved_names": tuple(self.saved_names),
                "flat": op.flat,
                "shown": (shown := self._shown(name)),
                # a number that PyTorch wraps counts as a tensor here, too
                "frees": -1 in (shown or ()) or any(map(self._is_tensor, self.saved_names)),
            },
        )
        self.slow_record = None
        self.record = self._compile_record() if self.differentiable else None
        self.run = self.family.compile_run(self.names, self.record, self.differentiable)
        if pattern == "ts" and "fold" in op.options:
            self.run = self._folding(op.options["fold"])

    def _folding(self, values):
        """A run that makes some values of the number constants of the kernel (x ** 2 is x * x)."""
        op, plain, name = self.op, self.run, self.names[1]
        folded, check, first = dict.fromkeys(values), op.options.get("check"), self.names[0]

        def run(input, number):
            dtype = input._layout.dtype
            if dtype.category >= _dtype.FLOATING and number in folded:
                variant = folded[number]
                if variant is None:
                    variant = folded[number] = Variant(op, "t", (*self.statics, (name, number)))
                return variant.run(input)
            if check is not None:
                check({first: input, name: number})
            return plain(input, number)

        return run

    def _types(self, operands):
        if self.op.dtypes is not None:
            self.op.dtypes(self.op, operands)
        return self.promoted(operands)

    def promoted(self, operands):
        """(compute dtype, those of the results), whether there are such kernels or not."""
        compute, result = result_types(self.op.rule, operands)
        return compute, result if isinstance(result, tuple) else (result,) * self.op.outputs

    def _check_target(self, key, target):
        """Refuse to write where the result does not fit."""
        operands = [k for k, c in zip(key, self.family.keyed) if c != "n"]
        result = self.promoted(operands)[1][0]
        shape = broadcast_shape(*[k.shape for k in key if type(k) is Layout])
        if result.category > target.dtype.category:
            raise errors.cannot_cast(result, target.dtype)
        if shape != target.shape:
            raise RuntimeError(
                f"output with shape {list(target.shape)} doesn't match the broadcast shape "
                f"{list(shape)}"
            )
        if not self.op.options.get("overlapping") and overlaps_itself(target):
            check_overlap(make_tensor(target, None, 0), ())

    def compute_of(self, layouts, numbers):
        """The compute dtype of the forward pass, for its backward."""
        operands, layouts, numbers = [], iter(layouts), iter(numbers)
        for c in self.pattern:
            if c == "t":
                operands.append(next(layouts))
            elif c == "s":
                operands.append(next(numbers))
        compute, result = result_types(self.op.rule, operands)
        if isinstance(result, _dtype.dtype) and result.is_complex and not compute.is_complex:
            compute = result  # complex(re, im): its gradient is complex
        return compute if compute.category >= _dtype.FLOATING else _dtype.default_dtype()

    def _is_tensor(self, name):
        return name in self.tensors or name.startswith("out")

    def _shown(self, name):
        """Edges as PyTorch lists them: numbers that it wraps as tensors count, flags do not."""
        given = dict(zip(self.names, self.pattern))
        absent = [n for n, value in self.statics if value is None and n in self.op.grads]
        every = [
            p.name
            for p in self.op.params
            if p.name in self.op.grads and (given.get(p.name, "") in ("t", "s") or p.name in absent)
        ]
        wraps = isinstance(self.op.node_name, str)
        if not wraps:
            wraps = self.op.node_name(every, dict(self.statics)) == name
        shown = [
            self.tensors.index(n) if n in self.tensors else -1
            for n in every
            if wraps or n in self.tensors
        ]
        return None if shown == list(range(len(self.tensors))) else tuple(shown)

    def _saved_names(self):
        found, constants = [], dict(self.statics)
        for name in self.tensors:
            if name in self.op.grads:
                for n in self.op.grads[name].names:
                    if (
                        n != "g"
                        and not n.endswith("_layout")
                        and n not in constants
                        and n not in found
                    ):
                        found.append(n)
        return found

    def users(self, name):
        """Numbers of the tensor arguments whose derivative wants a saved name."""
        return [
            k
            for k, t in enumerate(self.tensors)
            if t in self.op.grads and name in self.op.grads[t].names
        ]

    def _compile_record(self):
        """def record(out, *args): make the node. Saves only what the wanted gradients need.

        There are two texts: the quick one, and one that asks hooks and anomaly mode, made when
        there are such.
        """
        return self._compiled("record", True, {"watched": self._watched})

    def _watched(self, *values):
        if self.slow_record is None:
            self.slow_record = self._compiled("watched", False, {})
        return self.slow_record(*values)

    def _compiled(self, name, quick, more):
        space = {
            "NodeClass": self.node_class,
            "edge_of": edge_of,
            "next_sequence": next_sequence,
            "save_input": save_input,
            "save_output": save_output,
            "init_node": init_node,
            "SavedInput": SavedInput,
            "SavedOutput": SavedOutput,
            **more,
        }
        title = f"{self.op.name} {name} {self.pattern}"
        return compile_text(self._record_text(name, quick), space, title)[name]

    def _record_text(self, title, quick):
        names, outs = self.names, [f"out{k}" for k in range(self.op.outputs)]
        arguments = f"{', '.join(outs)}, {', '.join(names)}"
        text = f"def {title}({arguments}):\n"
        if quick:
            text += f"    if modes.watched:\n        return watched({arguments})\n"
        text += "    node = new(NodeClass)\n"
        for k, t in enumerate(self.tensors):
            text += (
                f"    n{k} = {t}._requires_grad\n" if t in self.op.grads else f"    n{k} = False\n"
            )
        text += "    node.edges = (\n"
        for k, t in enumerate(self.tensors):
            text += f"        None if not n{k} else edge_of({t}) if {t}._view is not None else\n"
            text += f"        ({t}._grad_fn or {t}, {t}._output_nr),\n"
        text += "    )\n"
        text += "".join(self._saving(k, n, quick) for k, n in enumerate(self.saved_names))
        text += (
            "    node.saved = (" + "".join(f"s{k}, " for k in range(len(self.saved_names))) + ")\n"
        )
        text += (
            f"    node.needs = {' + '.join(f'n{k} * {1 << k}' for k in range(len(self.tensors)))}\n"
        )
        text += f"    node.layouts = ({''.join(f'{t}._layout, ' for t in self.tensors)})\n"
        text += f"    node.outputs = {self.op.outputs}\n    node.seq = next_sequence()\n"
        text += "    node.hooks = None\n"
        numbers = [n for n, c in zip(names, self.pattern) if c == "s"]
        text += f"    node.number_types = ({''.join(f'type({n}), ' for n in numbers)})\n"
        if not quick:
            text += "    init_node(node, node.edges, node.saved, node.outputs)\n"
        for k, o in enumerate(outs):
            text += f"    if {o}._layout.dtype.category >= 2:\n" if len(outs) > 1 else ""
            pad = "    " if len(outs) > 1 else ""
            text += f"{pad}    {o}._grad_fn = node\n{pad}    {o}._requires_grad = True\n"
            text += f"{pad}    {o}._output_nr = {k}\n" if k else ""
        return text + "    return node\n"

    def _saving(self, k, name, quick):
        """Lines that put a saved value into s{k}."""
        users = self.users(name)
        condition = " or ".join(f"n{u}" for u in users) if len(self.tensors) > 1 else ""
        number = {"out": 0, "out0": 0, "out1": 1}.get(name)
        if number is None and name not in self.tensors:
            return f"    s{k} = {name}\n"
        if not quick:
            lines = [
                f"s{k} = save_input({name})"
                if number is None
                else f"s{k} = save_output(out{number}, {number})"
            ]
        elif number is None:
            lines = [
                f"s{k} = new(SavedInput)",
                f"s{k}.tensor = {name}",
                f"s{k}.version = +{name}._storage.version",
            ]
        else:
            o = f"out{number}"
            lines = [
                f"s{k} = new(SavedOutput)",
                f"s{k}.layout = {o}._layout",
                f"s{k}.storage = st = {o}._storage",
                f"s{k}.offset = {o}._offset",
                f"s{k}.version = st.version",
                f"s{k}.output_nr = {number}",
            ]
        if not condition:
            return "".join(f"    {line}\n" for line in lines)
        return f"    s{k} = None\n    if {condition}:\n" + "".join(
            f"        {line}\n" for line in lines
        )


def settled_check(op, variant):
    """A row's check of layouts, types and static values, as a function of a plan's key."""
    check, statics = op.options["check"], dict(variant.statics)
    names = [n for n, c in zip(variant.names, variant.pattern) if c in "tsn"]
    others = {n: 1.0 for n, c in zip(variant.names, variant.pattern) if c in "fi"}

    def look(key):
        known = {n: k if type(k) is Layout else k(1) for n, k in zip(names, key)}
        check(statics | others | known)

    return look
