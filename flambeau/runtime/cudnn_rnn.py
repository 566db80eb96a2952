"""Recurrent layers by cuDNN: a stack of them over batches of equal length.

The frontend has no such graphs, so the library itself is called. A `Stack` is described once; it
says how much memory weights and intermediate results take.
"""

import ctypes
import os
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

MODES = {"relu": 0, "tanh": 1, "lstm": 2, "gru": 3}
TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 9}
ITEM = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2}
# ways of computing: a kernel per step, or weights that stay on the chip while one kernel walks
STANDARD, PERSISTENT = 0, 1
ROUNDED, EXACT, HALVES = 0, 3, 1  # kinds of arithmetic: TF32 for float32, float32, tensor cores
TRAINING, ADD, NO_BIAS, BOTH_BIASES = 1, 0, 0, 2


class Failed(RuntimeError):
    """The library refused something."""


def loaded():
    """The library that the frontend has loaded."""
    return ctypes.CDLL("libcudnn.so.9", mode=os.RTLD_NOLOAD | os.RTLD_NOW)


class Stack:
    """Sizes and descriptions of layers; all their matrices lie one after the other, then biases."""

    def __init__(
        self, library, kind, code, steps, batch, inputs, width, layers, both, biased, tf32, way
    ):
        self.library, self.handle = library, c_void_p(library.handle)
        self.api = loaded()
        library.follow()
        type, item = TYPES[code], ITEM[code]
        rounding = HALVES if code in ("f16", "bf16") else ROUNDED if tf32 else EXACT
        sums = TYPES["f64" if code == "f64" else "f32"]
        drop, self.layer = self._new("Dropout"), self._new("RNN")
        self._do(
            "SetDropoutDescriptor", drop, self.handle, ctypes.c_float(0), None, c_size_t(0),
            c_ulonglong(0),
        )  # fmt: skip
        self._do(
            "SetRNNDescriptor_v8", self.layer, way, MODES[kind], BOTH_BIASES if biased else NO_BIAS,
            int(both), 0, type, sums, rounding, inputs, width, width, layers, drop, c_uint(0),
        )  # fmt: skip
        lengths = (c_int * batch)(*[steps] * batch)
        self.x, self.y, self.h = self._new("RNNData"), self._new("RNNData"), self._new("Tensor")
        directions = 2 if both else 1
        for data, size in ((self.x, inputs), (self.y, directions * width)):
            self._do("SetRNNDataDescriptor", data, type, 0, steps, batch, size, lengths, None)
        sizes = (c_int * 3)(directions * layers, batch, width)
        strides = (c_int * 3)(batch * width, width, 1)
        self._do("SetTensorNdDescriptor", self.h, type, 3, sizes, strides)
        self.weight_bytes, self.room, self.kept = c_size_t(), c_size_t(), c_size_t()
        self._do("GetRNNWeightSpaceSize", self.handle, self.layer, byref(self.weight_bytes))
        self._do(
            "GetRNNTempSpaceSizes", self.handle, self.layer, TRAINING, self.x, byref(self.room),
            byref(self.kept),
        )  # fmt: skip
        gates = 4 if kind == "lstm" else 3 if kind == "gru" else 1
        sizes = [
            (gates * width * (inputs if k == 0 else directions * width), gates * width * width)
            for k in range(layers)
            for _ in range(directions)
        ]
        self._check_places(gates, sizes, gates * width if biased else 0, item)

    def _do(self, name, *given):
        code = getattr(self.api, f"cudnn{name}")(*given)
        if code:
            raise Failed(f"cudnn{name}: {code}")

    def _new(self, name):
        found = c_void_p()
        self._do(f"Create{name}Descriptor", byref(found))
        return found

    def _check_places(self, gates, sizes, bias, item):
        """Does every matrix and bias lie where it should? sizes: of w_ih and w_hh by layer."""
        matrix, vector = self._new("Tensor"), self._new("Tensor")
        base = 1 << 20  # no memory is touched
        wanted, bias_wanted = base, base + item * sum(map(sum, sizes))
        for number, (first, second) in enumerate(sizes):
            for gate, size in ((0, first), (gates, second)):
                at, bias_at = c_void_p(), c_void_p()
                self._do(
                    "GetRNNWeightParams", self.handle, self.layer, number, self.weight_bytes,
                    c_void_p(base), gate, matrix, byref(at), vector, byref(bias_at),
                )  # fmt: skip
                if at.value != wanted or (bias and bias_at.value != bias_wanted):
                    raise Failed("weights lie elsewhere")
                wanted, bias_wanted = wanted + item * size, bias_wanted + item * bias
        if bias_wanted - base != self.weight_bytes.value:
            raise Failed("there is more than weights")

    def forward(self, _, x, y, hx, hy, cx, cy, weights, room, kept):
        """Called as kernels are: nothing for a description, addresses; 0 for what is not there."""
        self.library.follow()
        p = c_void_p
        self._do(
            "RNNForward", self.handle, self.layer, TRAINING, None, self.x, p(x), self.y, p(y),
            self.h, p(hx), p(hy), self.h, p(cx), p(cy), self.weight_bytes, p(weights), self.room,
            p(room), self.kept, p(kept),
        )  # fmt: skip

    def backward(self, _, y, dy, x, dx, hx, dhy, dhx, cx, dcy, dcx, weights, dweights, room, kept):
        """The same; dweights are added to, what was kept is changed."""
        self.library.follow()
        p = c_void_p
        self._do(
            "RNNBackwardData_v8", self.handle, self.layer, None, self.y, p(y), p(dy), self.x, p(dx),
            self.h, p(hx), p(dhy), p(dhx), self.h, p(cx), p(dcy), p(dcx), self.weight_bytes,
            p(weights), self.room, p(room), self.kept, p(kept),
        )  # fmt: skip
        self._do(
            "RNNBackwardWeights_v8", self.handle, self.layer, ADD, None, self.x, p(x), self.h,
            p(hx), self.y, p(y), self.weight_bytes, p(dweights), self.room, p(room), self.kept,
            p(kept),
        )  # fmt: skip
