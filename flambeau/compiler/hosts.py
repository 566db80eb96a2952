"""Kernels that can take pointwise work in: what is known of them, and how they are built then."""

import math
from typing import Any

from flambeau._device import device
from flambeau.codegen import descriptions, scalar
from flambeau.codegen.descriptions import ITEM_BYTES
from flambeau.codegen.llvm_names import COMPUTE_TYPE
from flambeau.compiler.accesses import builder_of, key_of
from flambeau.compiler.expressions import HALVES, compute_type, exchanged, numbered, structure
from flambeau.compiler.fusing import Operand, dense_steps, extent
from flambeau.eager import gemm, kernels
from flambeau.eager.plan import cost
from flambeau.planning import reductions
from flambeau.runtime.cpu import name_of, packed, words_of
from flambeau.runtime.tapes import Launch

AGAIN = 24  # instructions that are cheaper to repeat in each pass than to store
MOST = 12  # operands of a kernel that took work in
SHORT = 10  # instructions that a product may go on with
SMALL = 1 << 13  # results of a product for which one launch less is worth more than its tiles


def host_of(launch: Any) -> Any:
    """What a launch can take in; None if it is of no such kind."""
    is_host = kernels.runtime_of(launch.definition).is_host
    make = (_HOSTS if is_host else _ON_GPUS).get(builder_of(launch.definition))
    return None if make is None else make(launch)


def _flat(work, count):
    """The operands of work over `count` elements side by side; None if it is of another kind."""
    if work.sizes != (count,):
        return None
    found = [*(o for o, _ in work.stored), *(load.operand for load in work.loads)]
    return found if all(o.steps == (ITEM_BYTES[o.code],) for o in found) else None


def _kernel(runtime, name, build, key, shown):
    """A kernel by what tells it apart; expressions in its key are shown by their structure."""
    found = runtime.kernels.get(shown)
    if found is None:
        found = runtime.kernels[shown] = runtime.load(name, build, key)
    return found


# -- row programs ----------------------------------------------------------------------------------


class _Rows:
    """A row program. result: what it stores last; sources: elements that it reads."""

    stores_elements = True

    def __init__(self, launch):
        from flambeau.codegen.templates.row_programs import Pass, program_of

        self.walk, self.name, *facts = key_of(launch.definition)
        self.given, self.facts = launch, tuple(facts)
        program = program_of(self.name, *facts)
        self.places = list(program.operands)
        self.passes = sum(isinstance(s, Pass) for s in program.steps)
        words = getattr(descriptions, self.walk.capitalize())(*words_of(launch.arguments[0]))
        self.count = {
            "rows": lambda: words.rows * words.length,
            "columns": lambda: words.height * words.inner,
            "planes": lambda: words.rows * words.segments * words.length,
        }[self.walk]()
        operands = {
            name: Operand(launch.arguments[1 + k], (ITEM_BYTES[code],), code)
            for k, (name, (code, place)) in enumerate(program.operands.items())
            if place == "element"
        }
        self.type = COMPUTE_TYPE[next(iter(program.operands.values()))[0]]
        self.result_name = next((n for n in ("y", "dx") if n == self.places[0]), None)
        usable = len({o.address for o in operands.values()}) == len(operands) and self.passes
        self.result = operands.get(self.result_name) if usable else None
        self.names = {o: n for n, o in operands.items() if n != self.result_name}
        self.sources = list(self.names) if usable else []
        self.head = self.tail = None
        self.more: list = []  # further operands
        self.numbers: list = []

    def take_tail(self, work, is_stored):
        return self._take("tail", self.result_name, self.result, work, is_stored)

    def take_head(self, work, operand, is_stored):
        stored = [o for o, _ in work.stored]
        if operand not in stored:
            return False
        values = [v for o, v in work.stored if o == operand]
        changed = [o for o in stored if o != operand and o in [x.operand for x in work.loads]]
        is_read = operand in self.more  # by the tail
        is_stored = is_stored or is_read or bool(changed)
        is_stored = is_stored or (self.passes > 1 and cost(values) > AGAIN)
        return self._take("head", self.names[operand], operand, work, is_stored)

    def _take(self, kind, name, own, work, is_stored):
        if _flat(work, self.count) is None or compute_type(own.code) != self.type:
            return False
        is_head = kind == "head"
        stored = [(o, v) for o, v in work.stored if not (is_head and o == own)]
        loads = [x for x in work.loads if is_head or x.operand != own]
        if len(self.places) + len(self.more) + len(stored) + len(loads) > MOST:
            return False
        values = [v for o, v in work.stored if is_head and o == own] + [v for _, v in stored]
        first = [] if is_head else [x for x in work.loads if x.operand == own]
        places = {id(x.expression): k for k, x in enumerate([*first, *loads])}
        places |= {id(n[2]): len(places) + k for k, n in enumerate(work.numbers)}
        if not is_head and own.code in HALVES:  # as memory would have it
            values = [_narrowed(v, first[0].expression, own.code) for v in values]
        memo: dict = {}
        part = {
            "name": name,
            "values": tuple(numbered(v, places, memo) for v in values),
            "inputs": tuple(self._operand(x.operand) for x in loads),
            "numbers": tuple(range(len(self.numbers), len(self.numbers) + len(work.numbers))),
            "outputs": tuple(self._operand(o) for o, _ in stored),
            "is_stored": is_stored,
        }
        self.numbers += [(letter, number) for letter, number, _ in work.numbers]
        setattr(self, kind, part)
        return True

    def _operand(self, operand):
        self.more.append(operand)
        return f"more{len(self.more) - 1}"

    def launch(self):
        from flambeau.codegen.templates.rows import Part

        parts = [p and Part(**p) for p in (self.head, self.tail)]
        operands = tuple((f"more{k}", o.code) for k, o in enumerate(self.more))
        kinds = "".join(letter for letter, _ in self.numbers)
        key = self.walk, self.name, self.facts, operands, kinds, *parts
        shown = [p and (structure(p.values), p._replace(values=())) for p in parts]
        runtime = kernels.runtime_of(self.given.definition)
        shown = *key[:5], *shown
        kernel = _kernel(runtime, self.name, "row_programs:build_joined", key, shown)
        description, *rest = self.given.arguments
        count = len(self.places)
        addresses = [*rest[:count], *(o.address for o in self.more), *rest[count:]]
        numbers = [n for _, n in self.numbers]
        return Launch(kernel.__self__, [description, *addresses, *numbers], True)


class _RowsOnGpus(_Rows):
    """The same on a GPU: threads take in what they load before anything is stored, and totals per
    position are added up by other threads than those that store results.
    """

    def __init__(self, launch):
        super().__init__(launch)
        if self.walk != "rows":
            self.result, self.sources = None, []

    def take_head(self, work, operand, is_stored):
        stored, loaded = {o for o, _ in work.stored}, {x.operand for x in work.loads}
        if stored & (loaded | set(self.more)):
            return False
        return super().take_head(work, operand, is_stored)


def _narrowed(value, argument, code):
    """An expression of an argument that went through memory."""
    rounded = scalar.narrowed(argument, code)
    return exchanged(value, {}, lambda e: rounded if e is argument else None)


# -- reductions ------------------------------------------------------------------------------------


class _Reduction:
    """A reduction of elements, which are computed in place of being loaded."""

    result = None
    stores_elements = False

    def __init__(self, launch):
        _, (self.reduction, *self.pattern), _ = kernels.sources[launch.definition]
        self.build = builder_of(launch.definition)
        shape = self.pattern[0]
        self.given, self.sources, self.work = launch, [], None
        if shape[3] != "elements" or self.reduction.input[0] == "c":
            return
        results = len(self.reduction.state if shape[4] == "states" else self.reduction.outputs)
        self.place = 1 + results
        self.item = ITEM_BYTES[self.reduction.input]
        self.base = launch.arguments[self.place]
        self.description = self._whole(shape) or launch.arguments[0]
        self.sources = [Operand(self.base, (self.item,), self.reduction.input)]

    def _whole(self, shape):
        """The description of a launch that is told only how many elements there are."""
        words = words_of(self.given.arguments[0])
        if words[0]:
            return None
        n = self.given.arguments[-1]
        return packed(reductions.Reducing(1, 1, 1, 1, n, n, self.item, n, 1, 0))

    def _span(self):
        """First and last byte of what is read, from the base."""
        kept, reduced, access, *_ = self.pattern[0]
        fields = len(reductions.Reducing._fields)
        words = words_of(self.description)
        head, rest = reductions.Reducing(*words[:fields]), words[fields:]
        sizes = [*rest[:kept], *rest[3 * kept : 3 * kept + reduced], head.length]
        steps = [*rest[kept : 2 * kept], *rest[3 * kept + reduced :][:reduced]]
        steps.append(head.stride if access == "n" else self.item)
        return extent(Operand(self.base, tuple(steps), self.reduction.input), sizes)

    def take_head(self, work, operand, is_stored):
        """Only what nobody else wants: a reduction stores no elements."""
        if is_stored or len(work.stored) > 1 or len(work.sizes) > 1:
            return False
        (own, _), reach = work.stored[0], self._span()
        steps = [(ITEM_BYTES[x.operand.code],) for x in work.loads]
        if any(x.operand.steps not in ((0,), s) for x, s in zip(work.loads, steps)):
            return False
        low, high = extent(own, work.sizes)
        fits = own.code == operand.code and own.steps == (self.item,)
        if not fits or reach[0] < low or reach[1] > high or len(work.loads) > MOST:
            return False
        self.work, self.first = work, (self.base - own.address) // self.item
        return True

    def launch(self):
        from flambeau.codegen.templates.reduction import Head

        work = self.work
        places = {id(x.expression): k for k, x in enumerate(work.loads)}
        places |= {id(n[2]): len(places) + k for k, n in enumerate(work.numbers)}
        value = numbered(work.stored[0][1], places, {})
        inputs = tuple((x.operand.code, "c" if any(x.operand.steps) else "s") for x in work.loads)
        head = Head(inputs, "".join(letter for letter, *_ in work.numbers), value)
        reduction = self.reduction._replace(head=head)
        name = self.build.partition("build_")[2]
        shown = self.build, self.reduction, *self.pattern, head[:2], structure([value])
        runtime = device("cpu").runtime
        kernel = _kernel(runtime, f"joined_{name}", self.build, (reduction, *self.pattern), shown)
        addresses = [x.operand.address + self.first * x.operand.steps[0] for x in work.loads]
        _, *given = self.given.arguments
        scalars = given[self.place :][: len(self.reduction.scalars)]
        given = [*given[: self.place - 1], *addresses, *scalars, *(n for _, n, _ in work.numbers)]
        return Launch(kernel.__self__, [self.description, *given], True)


# -- convolutions, products, pooling ---------------------------------------------------------------


class _Tailed:
    """A kernel whose results may go on: `count` of them side by side, from `result` on."""

    sources: list = []
    stores_elements = True
    key: tuple  # of the builder

    def __init__(self, launch, code, count):
        self.given, self.count = launch, count
        own = Operand(launch.arguments[1], (ITEM_BYTES[code],), code)
        self.result = own if code in ("f32", "f64") and count else None

    def take_tail(self, work, is_stored):
        own = self.result
        if _flat(work, self.count) is None or len(work.loads) + len(work.stored) > MOST:
            return False
        self.work, self.is_stored = work, is_stored
        self.loads = [x for x in work.loads if x.operand != own]
        return True

    def launch(self):
        tail, more = self.tail()
        definition = self.given.definition
        name, build = name_of(definition), builder_of(definition)
        kernel = device("cpu").runtime.kernel(name, build, *self.key, tail)
        return Launch(kernel.__self__, [*self.given.arguments, *more], True)

    def tail(self):
        """(the Tail, its arguments)."""
        from flambeau.codegen.templates.tails import Tail

        work = self.work
        first = [x for x in work.loads if x.operand == self.result]
        places = {id(x.expression): k for k, x in enumerate([*first, *self.loads])}
        places |= {id(n[2]): len(places) + k for k, n in enumerate(work.numbers)}
        memo: dict = {}
        values = tuple(numbered(v, places, memo) for _, v in work.stored)
        found = Tail(
            tuple(o.code for o, _ in work.stored),
            tuple(x.operand.code for x in self.loads),
            "".join(letter for letter, *_ in work.numbers),
            values,
            self.is_stored,
            structure(values),
        )
        operands = [*(o for o, _ in work.stored), *(x.operand for x in self.loads)]
        return found, [*(o.address for o in operands), *(n for _, n, _ in work.numbers)]


class _Convolution(_Tailed):
    def __init__(self, launch):
        _, self.key, _ = kernels.sources[launch.definition]
        fields = len(descriptions.Convolution._fields)
        given = words_of(launch.arguments[0])
        words = descriptions.Convolution(*given[:fields])
        if words.tiles:
            images = words.tiles // (words.tiles_h * words.tiles_w)
            count = images * words.out_h * words.out_w * words.m
        else:
            phase = descriptions.ConvolutionPhase(*given[words.phase_table :][: len(_PHASE)])
            is_whole = (
                words.phases == 1 and phase.blocks_count > 0
            )  # else zeros come from elsewhere
            count = phase.pixels * words.m * words.group_count if is_whole else 0
        super().__init__(launch, self.key[0], count)


class _Pooling(_Tailed):
    """The way back of pooling along rows."""

    def __init__(self, launch):
        _, self.key, _ = kernels.sources[launch.definition]
        fields = len(descriptions.Windows._fields)
        words = descriptions.Windows(*words_of(launch.arguments[0])[:fields])
        super().__init__(launch, self.key[0], words.pieces * words.width)


class _Product(_Tailed):
    """A small product: in large ones a tile's few vectors gain less than a loop over all does."""

    def __init__(self, launch):
        _, self.key, _ = kernels.sources[launch.definition]
        self.description = launch.arguments[0]
        fields, rank = len(descriptions.Product._fields), self.key[7]
        given = words_of(self.description)
        words = descriptions.Product(*given[:fields])
        code, activation = self.key[1], self.key[6]
        sizes, steps = given[fields:][:rank], given[fields + rank :][:rank]
        dense = dense_steps((*sizes, words.m, words.n), ITEM_BYTES[code])
        is_dense = (*steps, words.c_row) == dense[:-1] or (words.m == 1 and not rank)
        count = math.prod([*sizes, words.m, words.n])
        is_plain = len(self.key) == 8 and not activation
        is_small = count <= SMALL
        super().__init__(launch, code, count if is_plain and is_dense and is_small else 0)

    def take_tail(self, work, is_stored):
        return cost([v for _, v in work.stored]) <= SHORT and super().take_tail(work, is_stored)

    def launch(self):
        tail, more = self.tail()
        kernel, description = gemm.with_tail(
            device("cpu").runtime, self.key, self.description, tail
        )
        return Launch(kernel.__self__, [description, *self.given.arguments[1:], *more], True)


_ON_GPUS = {"row_programs:build": _RowsOnGpus}
_PHASE = descriptions.ConvolutionPhase._fields
_HOSTS = {
    "gemm:build": _Product,
    "pooling_rows:build_largest_rows_backward": _Pooling,
    "pooling_rows:build_mean_rows_backward": _Pooling,
    "conv:build": _Convolution,
    "conv_winograd:build": _Convolution,
    "row_programs:build": _Rows,
    "reduction:build_rows": _Reduction,
    "reduction:build_columns": _Reduction,
}
