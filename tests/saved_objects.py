"""Objects to be saved, made in any library, and what can be seen of them after loading."""

import collections

DTYPES = (
    "float64 float32 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool "
    "complex64 complex128"
).split()


def make(lib):
    """One object of every kind that a file of weights may hold."""
    lib.manual_seed(3)
    base = lib.arange(24.0).reshape(4, 6)
    net = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 2))
    optimizer = lib.optim.SGD(net.parameters(), lr=0.5, momentum=0.5)
    for p in net.parameters():
        p.grad = lib.ones_like(p)
    optimizer.step()  # exact, so that all libraries agree to the bit
    marked = lib.ones(2)
    marked.note = "said"
    noted = lib.nn.Parameter(lib.ones(2), requires_grad=False)
    noted.note = [1, 2]
    return {
        "dtypes": {name: lib.tensor([0, 1, 1]).to(getattr(lib, name)) for name in DTYPES},
        "views": [base, base.t(), base[1:, ::2], base[3], base[2, 3], base.expand(2, 4, 6)],
        "shapes": (lib.ones(()), lib.zeros(0, 3), lib.ones(1, 1, 1), lib.arange(5)),
        "parameters": [lib.nn.Parameter(lib.ones(2)), noted],
        "buffers": [lib.nn.Buffer(lib.ones(2)), lib.nn.Buffer(lib.zeros(1), persistent=False)],
        "marked": marked,
        "leaf": lib.full((2,), 0.5, requires_grad=True),
        "meta": lib.empty(2, 3, device="meta", dtype=lib.float16),
        "state": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "named": [lib.float32, lib.bfloat16, lib.bool, lib.device("cpu"), lib.device("cuda", 1),
                  lib.Size([2, 3]), lib.strided],
        "numbers": [0, -1, 300, -70000, 1 << 40, -(1 << 70), 0.1, float("inf"), 1 + 2j, True, None],
        "texts": ["", "é", "\N{SNOWMAN}" * 100, b"\x00\xff", bytearray(b"ab"), "\ud800"],
        "holders": [{}, [], (), {1, 2}, {(1, 2): [3]}, (1,), (1, 2, 3, 4)],
        "counted": collections.Counter("hello"),
        "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    }  # fmt: skip


def seen(obj):
    """A description that is the same in every library."""
    if hasattr(obj, "untyped_storage"):
        facts = [str(obj.dtype), str(obj.device), list(obj.shape), list(obj.stride())]
        facts += [obj.storage_offset(), obj.requires_grad, obj.is_leaf]
        kinds = "Parameter" if getattr(obj, "_is_param", False) else ""
        attributes = {k: v for k, v in vars(obj).items() if k not in ("_is_buffer", "_is_param")}
        values = None if obj.device.type == "meta" else str(obj.tolist())
        return ["tensor", *facts, kinds, attributes, values]
    if isinstance(obj, dict):
        entries = [[seen(key), seen(value)] for key, value in obj.items()]
        return [type(obj).__name__, entries, seen(getattr(obj, "_metadata", None))]
    if isinstance(obj, (list, tuple)):
        return [type(obj).__name__, [seen(item) for item in obj]]
    return [type(obj).__name__, repr(obj)]
