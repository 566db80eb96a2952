"""A product by cuBLASLt as one native call: what CPython calls fills in addresses and factors and
hands them to the library.

Arguments are those of gemm.py's kernel; the description is `LibraryProduct`. What was not foreseen
when the product was described (addresses that lie oddly, a factor of the bias, other switches) is
left to a function in Python, which gets the same arguments.
"""

from flambeau.codegen.descriptions import LibraryProduct
from flambeau.codegen.llvm_cpu import return_none, unpack
from flambeau.codegen.llvm_gpu import TF32
from flambeau.codegen.loops import I32, I64, PTR, Module, V

ALIGNED = 16  # bytes: what the library's fastest algorithms ask of addresses
BIAS = 8  # the attribute that says where a bias lies
FIXED = 6  # arguments before alpha: the description, C, A, B, two that mean nothing here
WORDS = {name: k for k, name in enumerate(LibraryProduct._fields)}


def build(double, scaled, addends, bias, added, turned):
    """bias, added: which addend is the bias, which is added as a matrix (None: no one)."""
    from flambeau.codegen.llvm_gpu import both_texts

    module = Module()
    module.host = Module()
    Entry(module.host, double, scaled, addends, bias, added, turned).write()
    return both_texts(module)


class Entry:
    """The function that CPython calls."""

    def __init__(self, module, double, scaled, addends, bias, added, turned):
        self.fn = module.function(
            "entry", [(PTR, "self"), (PTR, "args"), (I64, "count")], result=PTR
        )
        self.type = "double" if double else "float"
        self.scaled, self.bias, self.added, self.turned = scaled, bias, added, turned
        self.kinds = "ppppii" + "f" * scaled + "pf" * addends

    def write(self):
        fn = self.fn
        _, args, given = fn.params
        self.block = fn.alloca(I64, len(self.kinds), 16)
        unpack(fn, self.kinds, args, given, self.block)
        self.words = self._argument(0, PTR)
        with fn.when(self._foreseen()), fn.when(self._call() == 0):
            return_none(fn)
            fn.open(fn.label("dead"))
        other = self._word("otherwise")
        nothing = V(fn, PTR, "null")
        fn.ret(fn.call("PyObject_Vectorcall", PTR, other, args, given, nothing, pure=False))

    def _argument(self, k, type):
        return self.fn.load(self.fn.gep(self.block, k, I64), type, 8)

    def _addend(self, k):
        """Where the address of an addend is; its factor follows."""
        return FIXED + self.scaled + 2 * k

    def _word(self, name, type=PTR):
        return self.fn.load(self.fn.gep(self.words, WORDS[name], I64), type, 8)

    def _state(self, k, type=I64):
        state = V(self.fn, PTR, "@flambeau_device")
        return self.fn.load(self.fn.gep(state, k, I64), type, 8)

    def _foreseen(self):
        """Is everything as it was when the library was asked for an algorithm?"""
        places = [1, 2, 3, *[self._addend(k) for k in (self.bias, self.added) if k is not None]]
        all_bits = self._argument(places[0], I64)
        for place in places[1:]:
            all_bits = all_bits | self._argument(place, I64)
        good = (all_bits & (ALIGNED - 1)) == 0
        good = good & (self._state(TF32) == self._word("tf32", I64))
        if self.bias is not None:
            good = good & (self._argument(self._addend(self.bias) + 1, "double") == 1.0)
        return good

    def _call(self):
        fn = self.fn
        if self.bias is not None:
            self._set_bias()
        first, second = (2, 3) if self.turned else (3, 2)
        one, zero = fn.value(1.0, "double"), fn.value(0.0, "double")
        alpha = self._factor(self._argument(FIXED, "double") if self.scaled else one)
        source, beta = self._argument(1, PTR), zero
        if self.added is not None:
            place = self._addend(self.added)
            source, beta = self._argument(place, PTR), self._argument(place + 1, "double")
        given = [
            self._word("handle"), self._word("operation"), alpha,
            self._argument(first, PTR), self._word("a"), self._argument(second, PTR),
            self._word("b"), self._factor(beta), source, self._word("c"),
            self._argument(1, PTR), self._word("d"), self._word("algorithm"),
            self._word("workspace"), self._word("room", I64),
            fn.call("flambeau_stream", PTR, pure=False),
        ]  # fmt: skip
        act = self._word("matmul")
        return fn.emit(f"call i32 {act.name}({', '.join(map(repr, given))})", I32)

    def _factor(self, value):
        """The address of a factor as the library takes it."""
        fn = self.fn
        place = fn.alloca(self.type, 1, 8)
        fn.store(value if self.type == "double" else fn.convert("fptrunc", value, "float"), place)
        return place

    def _set_bias(self):
        fn = self.fn
        place = fn.alloca(I64, 1, 8)
        fn.store(self._argument(self._addend(self.bias), I64), place, 8)
        act = self._word("set_attribute")
        given = self._word("operation"), fn.value(BIAS, I32), place, fn.value(8, I64)
        fn.emit(f"call i32 {act.name}({', '.join(map(repr, given))})", I32)
