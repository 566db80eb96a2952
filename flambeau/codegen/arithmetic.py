"""Functions on integers, written in Python, as native code.

Planners turn sizes into the words of launch descriptions: divisions, comparisons, short lists. This
compiles the plain Python source of such a function. It knows integers, tuples and lists of
integers, if, for, while, calls of other such functions, `min`, `max`, `abs`, `len`, named words
(`packed(Kind(chunks=1, ...))`); names of the module that are integers are constants.

The builtin has the Python function as its `self` and calls that with the same arguments where it
cannot tell: numbers beyond 64 bits, long lists, `raise`. So it may stand wherever the function
stood, and there is only one text of what is worked out.
"""

import ast
import textwrap

from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.loops import I1, I64, PTR, Module

MOST = 64  # elements of a list


class Unsupported(Exception):
    """The source says something that this does not compile."""


def build(function, source_of, name):
    """IR of a builtin `name` for a Python function.

    source_of(globals, name): (source, globals) of another function that may be called, or None.
    """
    module = Module()
    compiled = _Compiled(module, source_of).function(*source_of(function.__globals__, name), name)
    _entry(module, name, compiled)
    known = "".join(f"@Py{kind}_Type = external global i8\n" for kind in ("Long", "Bool"))
    return known + module_text(module)


class _Signature:
    """A compiled function: kinds of its parameters and results ("int", "list", "bytes")."""

    def __init__(self, fn, kinds, results, single):
        self.fn, self.kinds, self.results, self.single = fn, kinds, results, single

    @property
    def cells(self):
        return sum(1 if kind == "int" else MOST + 1 for kind in self.results)


class _Compiled:
    """The functions of one module, each compiled when a call to it is met."""

    def __init__(self, module, source_of):
        self.module, self.source_of, self.known = module, source_of, {}

    def function(self, source, scope, name):
        if name not in self.known:
            tree = ast.parse(textwrap.dedent(source)).body[0]
            self.known[name] = _Body(self, tree, scope).compiled()
        return self.known[name]

    def called(self, scope, name):
        found = self.source_of(scope, name)
        if found is None:
            raise Unsupported(f"a call of {name}")
        return self.function(*found, name)


class _Cells:
    """A list of integers: an array and a cell with its length."""

    def __init__(self, fn, items, length):
        self.fn, self.items, self.length = fn, items, fn.var(length)

    def place(self, k):
        return self.fn.gep(self.items, k, I64)


class _Body:
    """One function under construction: its statements and expressions."""

    def __init__(self, owner, tree, scope):
        self.owner, self.tree, self.scope = owner, tree, scope
        self.locals, self.results, self.single, self.ends = {}, None, True, []

    # -- the function ----------------------------------------------------------------------------
    def compiled(self):
        args = self.tree.args.args
        self.kinds = [_kind_of(arg.annotation) for arg in args]
        parameters = []
        for arg, kind in zip(args, self.kinds):
            several = [(PTR, f"p_{arg.arg}"), (I64, f"n_{arg.arg}")]
            parameters += several if kind == "list" else [(I64, f"p_{arg.arg}")]
        name = f"plan_{self.tree.name}"
        parameters.append((PTR, "results"))
        self.fn = fn = self.owner.module.function(name, parameters, result=I64, internal=True)
        values = iter(fn.params)
        for arg, kind in zip(args, self.kinds):
            if kind == "list":
                self.locals[arg.arg] = _Cells(fn, next(values), next(values))
            else:
                self.locals[arg.arg] = fn.var(next(values))
        self.statements(self.tree.body)
        fn.ret(fn.value(0, I64))  # an end without a result
        return _Signature(fn, self.kinds, self.results, self.single)

    def leave(self, code):
        self.fn.ret(self.fn.value(code, I64))
        self.fn.open(self.fn.label("dead"))

    def refuse_if(self, condition):
        """Leave it to Python."""
        with self.fn.when(condition):
            self.leave(0)

    # -- statements ------------------------------------------------------------------------------
    def statements(self, lines):
        for line in lines:
            getattr(self, f"on_{type(line).__name__}", self.unknown)(line)

    def unknown(self, node):
        raise Unsupported(f"{type(node).__name__} in {self.tree.name}, line {node.lineno}")

    def on_Pass(self, _):
        pass

    def on_Raise(self, _):
        self.leave(0)

    def on_Expr(self, line):
        call = line.value
        if isinstance(call, ast.Constant):
            return  # a docstring
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            self.unknown(line)
        if call.func.attr != "append":
            self.unknown(line)
        self.append(self.cells(call.func.value), self.number(call.args[0]))

    def on_Assign(self, line):
        if len(line.targets) == 1 and isinstance(line.targets[0], ast.Tuple):
            targets = line.targets[0].elts
            values = self.several(line.value, len(targets))
            for target, value in zip(targets, values):
                self.assign(target, value)
            return
        if self.is_list(line.value):
            (target,) = line.targets
            self.assign(target, self.listed(line.value))
            return
        value = self.number(line.value)
        for target in line.targets:
            self.assign(target, value)

    def on_AnnAssign(self, line):
        self.on_Assign(ast.copy_location(ast.Assign([line.target], line.value), line))

    def on_AugAssign(self, line):
        load = ast.copy_location(ast.parse(ast.unparse(line.target), mode="eval").body, line.target)
        self.assign(line.target, self.arithmetic(line.op, self.number(load), line.value, line))

    def assign(self, target, value):
        if isinstance(value, _Cells):
            self.assign_list(target.id, value)
        elif isinstance(target, ast.Subscript):
            cells = self.cells(target.value)
            self.fn.store(value, self.item_place(cells, self.number(target.slice)))
        elif target.id in self.locals:
            self.locals[target.id].set(value)
        else:
            self.locals[target.id] = self.fn.var(value)

    def assign_list(self, name, made):
        known = self.locals.get(name)
        if isinstance(known, _Cells):
            known.length.set(0)
            self.extend_by(known, made)
        elif known is not None or self.fn.known[1:]:
            raise Unsupported(f"the list {name} begins inside a branch of {self.tree.name}")
        else:
            self.locals[name] = made

    def on_If(self, line):
        self.declare([*line.body, *line.orelse])
        self.fn.if_else(
            self.truth(line.test),
            lambda: self.statements(line.body),
            lambda: self.statements(line.orelse),
        )

    def declare(self, lines):
        """Cells for names that a branch or a loop is first to assign."""
        for line in lines:
            for node in ast.walk(line):
                is_set = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                if is_set and node.id not in self.locals:
                    self.locals[node.id] = self.fn.var(self.fn.value(0, I64))

    def on_While(self, line):
        self.declare(line.body)
        with self.looped() as done:
            with self.fn.when(~self.truth(line.test)):
                self.jump(done)
            self.statements(line.body)

    def on_For(self, line):
        self.declare([*line.body, line.target])
        counted = line.iter
        if isinstance(counted, ast.Call) and counted.func.id == "range":
            bounds = [self.number(arg) for arg in counted.args]
            low, high, step = (
                self.fn.value(x, I64)
                for x in ((0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3])
            )
            take = self.locals[line.target.id].set
        else:
            cells = self.cells(counted)
            low, high, step = self.fn.value(0, I64), cells.length.get(), self.fn.value(1, I64)

            def take(k):
                self.locals[line.target.id].set(self.fn.load(cells.place(k), I64))

        turn, forward = self.fn.var(low), step > 0
        with self.looped() as done:
            k = turn.get()
            over = self.fn.select(forward, k >= high, k <= high)
            with self.fn.when(over):
                self.jump(done)
            turn.set(k + step)
            take(k)
            self.statements(line.body)

    def looped(self):
        return _Loop(self)

    def on_Break(self, _):
        self.jump(self.ends[-1][1])

    def on_Continue(self, _):
        self.jump(self.ends[-1][0])

    def jump(self, label):
        self.fn.jump(label)
        self.fn.open(self.fn.label("dead"))

    def on_Return(self, line):
        parts = line.value.elts if isinstance(line.value, ast.Tuple) else [line.value]
        kinds = [self.result_kind(part) for part in parts]
        if self.results is None:
            self.results, self.single = kinds, not isinstance(line.value, ast.Tuple)
        if self.results != kinds:
            raise Unsupported(f"results of different kinds in {self.tree.name}")
        at = 0
        for part, kind in zip(parts, kinds):
            place = self.fn.gep(self.fn.params[-1], at, I64)
            if kind == "int":
                self.fn.store(self.number(part), place)
                at += 1
                continue
            cells = self.listed(part.args[0])
            self.fn.store(cells.length.get(), place)
            with self.fn.loop(0, cells.length.get()) as k:
                item = self.fn.load(cells.place(k), I64)
                self.fn.store(item, self.fn.gep(self.fn.params[-1], k + (at + 1), I64))
            at += MOST + 1
        self.leave(1)

    def result_kind(self, part):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
            return {"packed": "bytes", "tuple": "list"}.get(part.func.id, "int")
        return "int"

    # -- lists -----------------------------------------------------------------------------------
    def new_list(self):
        return _Cells(self.fn, self.fn.alloca(I64, MOST, align=8), self.fn.value(0, I64))

    def is_list(self, node):
        """Is this expression a list, as far as its form tells?"""
        if isinstance(node, ast.Subscript):
            return isinstance(node.slice, ast.Slice)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if self.owner.source_of(self.scope, node.func.id) is None:
                return node.func.id == "list"
            return self.owner.called(self.scope, node.func.id).results == ["list"]
        return isinstance(node, (ast.List, ast.ListComp))

    def cells(self, node):
        found = self.locals.get(node.id) if isinstance(node, ast.Name) else None
        return found if isinstance(found, _Cells) else self.listed(node)

    def append(self, cells, value):
        length = cells.length.get()
        self.refuse_if(length >= MOST)
        self.fn.store(value, cells.place(length))
        cells.length.set(length + 1)

    def listed(self, node):
        """A new list: a display, a comprehension over a list, words by name, `x[::-1]`."""
        made = self.new_list()
        if isinstance(node, ast.ListComp):
            (part,) = node.generators
            loop = ast.For(part.target, part.iter, [], [])
            loop.body = [_Append(made, node.elt, part.ifs)]
            self.on_For(loop)
        elif isinstance(node, (ast.List, ast.Tuple)):
            for item in node.elts:
                if isinstance(item, ast.Starred):
                    self.extend(made, item.value)
                else:
                    self.append(made, self.number(item))
        else:
            self.extend(made, node)
        return made

    def on__Append(self, line):
        keep = self.fn.value(True, I1)
        for test in line.tests:
            keep = keep & self.truth(test)
        with self.fn.when(keep):
            self.append(line.cells, self.number(line.value))

    def extend(self, made, node):
        if isinstance(node, ast.Call) and node.func.id in ("list", "tuple"):
            self.extend(made, node.args[0])
            return
        if isinstance(node, ast.Call) and node.func.id == "range":
            loop = ast.For(ast.Name("_", ast.Store()), node, [], [])
            loop.body = [_Append(made, ast.Name("_", ast.Load()), [])]
            self.on_For(loop)
            return
        if isinstance(node, ast.Call) and self.is_list(node):
            (found,) = self.taken(*self.call(node))
            self.extend_by(made, found)
            return
        if isinstance(node, ast.Call):
            for word in self.words(node):
                self.append(made, word)
            return
        if isinstance(node, ast.Subscript):
            self.sliced(made, node)
            return
        known = self.locals.get(node.id) if isinstance(node, ast.Name) else self.listed(node)
        if not isinstance(known, _Cells):
            self.unknown(node)
        self.extend_by(made, known)

    def extend_by(self, made, more):
        with self.fn.loop(0, more.length.get()) as k:
            self.append(made, self.fn.load(more.place(k), I64))

    def sliced(self, made, node):
        """x[::-1], x[low:], x[:high], x[low:high] with bounds inside the list."""
        cells, part = self.cells(node.value), node.slice
        if not isinstance(part, ast.Slice):
            self.unknown(node)
        length, zero = cells.length.get(), self.fn.value(0, I64)
        low, high = (
            default if bound is None else self.from_start(self.number(bound), length)
            for bound, default in ((part.lower, zero), (part.upper, length))
        )
        self.refuse_if((low < 0) | (high > length) | (low > high))
        if part.step is not None and ast.unparse(part.step) != "-1":
            self.unknown(node)
        with self.fn.loop(low, high) as k:
            at = k if part.step is None else length - 1 - k
            self.append(made, self.fn.load(cells.place(at), I64))

    def words(self, call):
        """Kind(name=value, ...) in the order of its fields."""
        kind = self.scope.get(call.func.id)
        if not hasattr(kind, "_fields"):
            self.unknown(call)
        given = {word.arg: self.number(word.value) for word in call.keywords}
        given |= zip(kind._fields, [self.number(arg) for arg in call.args])
        given = kind._field_defaults | given
        if set(given) != set(kind._fields):
            raise Unsupported(f"words of {kind.__name__} in {self.tree.name}")
        return [self.fn.value(given[name], I64) for name in kind._fields]

    def from_start(self, k, length):
        return self.fn.select(k < 0, k + length, k)

    def item_place(self, cells, k):
        length = cells.length.get()
        k = self.from_start(k, length)
        self.refuse_if((k < 0) | (k >= length))
        return cells.place(k)

    # -- numbers ---------------------------------------------------------------------------------
    def several(self, node, count):
        """The values of a display, a call or a list."""
        if isinstance(node, ast.Tuple):
            return [self.number(item) for item in node.elts]
        if isinstance(node, ast.Call):
            found, results = self.call(node)
            if len(found.results) != count:
                self.unknown(node)
            return self.taken(found, results)
        cells = self.cells(node)
        self.refuse_if(cells.length.get() != count)
        return [self.fn.load(cells.place(k), I64) for k in range(count)]

    def truth(self, node):
        if isinstance(node, ast.Compare):
            return self.compared(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self.truth(node.operand)
        if isinstance(node, ast.BoolOp):
            first, *rest = node.values
            rest = ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0]
            known = self.fn.value(isinstance(node.op, ast.Or), I1)
            sides = (lambda: self.truth(rest), lambda: known)
            if isinstance(node.op, ast.Or):
                sides = sides[::-1]
            return self.fn.if_else(self.truth(first), *sides)
        if isinstance(node, ast.Name) and isinstance(self.locals.get(node.id), _Cells):
            return self.locals[node.id].length.get() > 0
        return self.number(node) != 0

    def compared(self, node):
        found, left = None, self.number(node.left)
        for op, right in zip(node.ops, node.comparators):
            if isinstance(op, (ast.In, ast.NotIn)):
                now = self.fn.value(False, I1)
                for item in right.elts:
                    now = now | (left == self.number(item))
                now = ~now if isinstance(op, ast.NotIn) else now
            else:
                other = self.number(right)
                now = getattr(left, _COMPARED[type(op).__name__])(other)
                left = other
            found = now if found is None else found & now
        return found

    def number(self, node):
        """An expression as an integer; conditions are 0 or 1."""
        name = type(node).__name__
        if name == "Compare" or (name == "UnaryOp" and isinstance(node.op, ast.Not)):
            return self.fn.convert("zext", self.truth(node), I64)
        return getattr(self, f"as_{name}", self.unknown)(node)

    def as_Constant(self, node):
        if type(node.value) not in (int, bool):
            self.unknown(node)
        return self.fn.value(int(node.value), I64)

    def as_Name(self, node):
        cell = self.locals.get(node.id)
        if cell is None:
            value = self.scope.get(node.id)
            if type(value) not in (int, bool):
                raise Unsupported(f"{node.id} in {self.tree.name}")
            return self.fn.value(int(value), I64)
        if isinstance(cell, _Cells):
            self.unknown(node)
        return cell.get()

    def as_BinOp(self, node):
        return self.arithmetic(node.op, self.number(node.left), node.right, node)

    def as_UnaryOp(self, node):
        value = self.number(node.operand)
        if isinstance(node.op, ast.USub):
            return self.checked("ssub", self.fn.value(0, I64), value)
        return ~value if isinstance(node.op, ast.Invert) else value

    def as_BoolOp(self, node):
        first, *rest = node.values
        rest = ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0]
        value = self.number(first)
        sides = (lambda: self.number(rest), lambda: value)
        if isinstance(node.op, ast.Or):
            sides = sides[::-1]
        return self.fn.if_else(value != 0, *sides)

    def as_IfExp(self, node):
        return self.fn.if_else(
            self.truth(node.test), lambda: self.number(node.body), lambda: self.number(node.orelse)
        )

    def as_Subscript(self, node):
        return self.fn.load(self.item_place(self.cells(node.value), self.number(node.slice)), I64)

    def as_Call(self, node):
        name = node.func.id
        if name == "len":
            return self.cells(node.args[0]).length.get()
        if name in ("min", "max"):
            pick = getattr(self.fn, name)
            found, *rest = [self.number(arg) for arg in node.args]
            for value in rest:
                found = pick(found, value)
            return found
        if name == "abs":
            value = self.number(node.args[0])
            return self.fn.select(value < 0, -value, value)
        found, results = self.call(node)
        if found.results != ["int"]:
            self.unknown(node)
        return self.fn.load(results, I64)

    def call(self, node):
        """Another function of this kind; its results in an array."""
        found = self.owner.called(self.scope, node.func.id)
        if node.keywords or len(node.args) != len(found.kinds):
            self.unknown(node)
        values = []
        for arg, kind in zip(node.args, found.kinds):
            if kind == "list":
                cells = self.cells(arg)
                values += [cells.items, cells.length.get()]
            else:
                values.append(self.number(arg))
        results = self.fn.alloca(I64, found.cells, align=8)
        done = self.fn.call(found.fn.name, I64, *values, results, pure=False)
        self.refuse_if(done == 0)
        return found, results

    def taken(self, found, results):
        """The results of a call, which lie one after the other."""
        values, at = [], 0
        for kind in found.results:
            first = self.fn.load(self.fn.gep(results, at, I64), I64)
            if kind == "int":
                values.append(first)
                at += 1
            else:
                values.append(_Cells(self.fn, self.fn.gep(results, at + 1, I64), first))
                at += MOST + 1
        return values

    def arithmetic(self, op, left, right, node):
        name, fn = type(op).__name__, self.fn
        right = self.number(right)
        if name in _CHECKED:
            return self.checked(_CHECKED[name], left, right)
        if name in ("FloorDiv", "Mod"):
            self.refuse_if((right == 0) | (left == -(1 << 63)))  # which would trap
            whole = fn.emit(f"sdiv {left}, {right.name}", I64)
            rest = fn.emit(f"srem {left}, {right.name}", I64)
            crosses = (rest != 0) & ((rest ^ right) < 0)
            if name == "FloorDiv":
                return fn.select(crosses, whole - 1, whole)
            return fn.select(crosses, rest + right, rest)
        if name in ("LShift", "RShift"):
            self.refuse_if((right < 0) | (right > 62))
            if name == "RShift":
                return fn.emit(f"ashr {left}, {right.name}", I64)
            moved = left << right
            self.refuse_if(fn.emit(f"ashr {moved}, {right.name}", I64) != left)
            return moved
        if name not in _BITS:
            self.unknown(node)
        return getattr(left, _BITS[name])(right)

    def checked(self, name, left, right):
        """left op right, where it has 64 bits."""
        pair = f"{{{I64}, {I1}}}"
        called = f"llvm.{name}.with.overflow.i64"
        self.owner.module.declare(called, pair, [I64, I64])
        both = self.fn.emit(f"call {pair} @{called}({left}, {right})", pair)
        self.refuse_if(self.fn.emit(f"extractvalue {both}, 1", I1))
        return self.fn.emit(f"extractvalue {both}, 0", I64)


class _Append(ast.stmt):
    """A line that the comprehension stands for: append a value, if all tests hold."""

    def __init__(self, cells, value, tests):
        self.cells, self.value, self.tests = cells, value, tests


class _Loop:
    """Repeat a body until it jumps to the end."""

    def __init__(self, body):
        self.body = body

    def __enter__(self):
        fn = self.body.fn
        self.again, self.done = fn.label("again"), fn.label("done")
        self.body.ends.append((self.again, self.done))
        fn.jump(self.again)
        fn.open(self.again)
        fn.known.append({})
        return self.done

    def __exit__(self, *_):
        fn = self.body.fn
        fn.jump(self.again)
        fn.known.pop()
        self.body.ends.pop()
        fn.open(self.done)


_COMPARED = dict(Lt="__lt__", LtE="__le__", Gt="__gt__", GtE="__ge__", Eq="__eq__", NotEq="__ne__")
_CHECKED = dict(Add="sadd", Sub="ssub", Mult="smul")
_BITS = dict(BitAnd="__and__", BitOr="__or__", BitXor="__xor__")


def _kind_of(annotation):
    """ "list" for a parameter that is a tuple of integers."""
    return "list" if isinstance(annotation, ast.Name) and annotation.id == "tuple" else "int"


# -- between Python and integers -------------------------------------------------------------------


def _entry(module, name, compiled):
    """The builtin: arguments become integers, results become objects."""
    fn = module.function(name, [(PTR, "self"), (PTR, "args"), (I64, "count")], result=PTR)
    own, args, count = fn.params
    refused = fn.label("refused")

    def refuse_if(condition):
        with fn.when(condition):
            fn.jump(refused)
            fn.open(fn.label("dead"))

    refuse_if(count != len(compiled.kinds))
    values = []
    for k, kind in enumerate(compiled.kinds):
        item = fn.load(fn.gep(args, k, PTR), PTR)
        values += (_listed if kind == "list" else _single)(fn, item, refuse_if)
    results = fn.alloca(I64, compiled.cells, align=8)
    done = fn.call(compiled.fn.name, I64, *values, results, pure=False)
    refuse_if(done == 0)
    fn.ret(_object(fn, compiled, results))
    fn.open(refused)
    fn.known = [{}]
    fn.ret(fn.call("PyObject_Vectorcall", PTR, own, args, count, fn.value(0, PTR), pure=False))


def _is_a(fn, item, name):
    kind = fn.load(fn.gep(item, 1, I64), PTR)
    return fn.emit(f"icmp eq {kind}, @{name}", I1)


def _single(fn, item, refuse_if):
    refuse_if(~(_is_a(fn, item, "PyLong_Type") | _is_a(fn, item, "PyBool_Type")))
    value = fn.call("PyLong_AsLongLong", I64, item, pure=False)
    with fn.when(value == -1):
        error = fn.call("PyErr_Occurred", PTR, pure=False)
        beyond = fn.var(error != fn.value(0, PTR))
        with fn.when(beyond.get()):
            fn.call("PyErr_Clear", "void")
        refuse_if(beyond.get())
    return [value]


def _listed(fn, item, refuse_if):
    length = fn.call("PyTuple_Size", I64, item, pure=False)
    with fn.when(length < 0):
        fn.call("PyErr_Clear", "void")
    refuse_if((length < 0) | (length > MOST))
    cells = fn.alloca(I64, MOST, align=8)
    with fn.loop(0, length) as k:
        inner = fn.call("PyTuple_GetItem", PTR, item, k, pure=False)
        fn.store(_single(fn, inner, refuse_if)[0], fn.gep(cells, k, I64))
    return [cells, length]


def _object(fn, compiled, results):
    """Results as a Python object; NULL where there is no memory."""
    made, at = [], 0
    for kind in compiled.results:
        place = fn.gep(results, at, I64)
        if kind == "int":
            number = fn.load(place, I64)
            made.append(fn.call("PyLong_FromLongLong", PTR, number, pure=False))
            at += 1
            continue
        length, items = fn.load(place, I64), fn.gep(results, at + 1, I64)
        if kind == "bytes":
            size = length * 8
            made.append(fn.call("PyBytes_FromStringAndSize", PTR, items, size, pure=False))
        else:
            made.append(_tuple(fn, length, items))
        at += MOST + 1
    if compiled.single:
        return made[0]
    whole = fn.call("PyTuple_New", PTR, fn.value(len(made), I64), pure=False)
    for k, item in enumerate(made):
        fn.call("PyTuple_SetItem", "i32", whole, fn.value(k, I64), item, pure=False)
    return whole


def _tuple(fn, length, items):
    made = fn.call("PyTuple_New", PTR, length, pure=False)
    with fn.loop(0, length) as k:
        value = fn.load(fn.gep(items, k, I64), I64)
        number = fn.call("PyLong_FromLongLong", PTR, value, pure=False)
        fn.call("PyTuple_SetItem", "i32", made, k, number, pure=False)
    return made
