"""Calls of torch.testing, as text: evaluated with flambeau and with torch, and told what they say.

`torch`, `np`, `collections`, `T` (torch.tensor), `P`, `CL` and torch.testing
are in reach.
"""

import collections
import warnings

import numpy as np

# pass silently or raise, with a text that both must say
CLOSE = [
    "assert_close(T([1.]), T([1.]))",
    "assert_close(1.0, 2.0)",
    "assert_close(1, 3)",
    "assert_close(1.0, 2.0, rtol=0, atol=0)",
    "assert_close(1.0, 0.0)",
    "assert_close(1+2j, 1+3j)",
    "assert_close(1, 1.0)",
    "assert_close(1, 1.0, check_dtype=False)",
    "assert_close(True, False)",
    'assert_close(float("nan"), float("nan"))',
    'assert_close(float("nan"), float("nan"), equal_nan=True)',
    "assert_close(T([1., 2., 3.]), T([1., 2.5, 7.]))",
    "assert_close(T(1.), T(2.))",
    "assert_close(T(1), T(2))",
    "assert_close(T([1, 2, 3]), T([1, 2, 4]))",
    "assert_close(T([1, 2, 3]), T([1, 2, 9]), rtol=0, atol=2)",
    "assert_close(T([1, 2, 3], dtype=torch.uint8), T([1, 2, 255], dtype=torch.uint8))",
    "assert_close(T([True, False]), T([True, True]))",
    'assert_close(T([1., float("nan")]), T([1., float("nan")]))',
    'assert_close(T([1., float("nan")]), T([1., float("nan")]), equal_nan=True)',
    'assert_close(T([1., float("inf")]), T([1., 1.]))',
    "assert_close(T([1., 2.]).half(), T([1., 2.1]).half())",
    "assert_close(T([1., 2.]).bfloat16(), T([1., 2.5]).bfloat16())",
    "assert_close(T([1+1j]), T([1+2j]))",
    "assert_close(T([1.]), T([1., 2.]))",
    "assert_close(T([1.]), T([1.], dtype=torch.float64))",
    "assert_close(T([1.]), T([1.], dtype=torch.float64), check_dtype=False)",
    "assert_close(T([1.]), T([3], dtype=torch.int64), check_dtype=False)",
    "assert_close(T([1.]).half(), T([1.5]).bfloat16(), check_dtype=False)",
    'assert_close(T([1.]), torch.ones(1, device="meta"))',
    'assert_close(T([1.]), torch.ones(1, device="meta"), check_device=False)',
    'assert_close(torch.ones(1, device="meta"), torch.ones(1, device="meta"))',
    "assert_close(torch.ones(2, 3).t(), torch.ones(3, 2), check_stride=True)",
    "assert_close(torch.ones(2, 3).t(), torch.ones(3, 2))",
    "assert_close(T(1.), T(2.), rtol=1e-3)",
    "assert_close(1., 2., atol=1e-3)",
    'assert_close(1., 2., msg="mine")',
    'assert_close(1., 2., msg=lambda m: "head\n"+m)',
    'assert_close([1., 2.], [1., 3.], msg=lambda m: "head\n"+m)',
    "assert_close([T(1.), T(2.)], [T(1.), T(3.)])",
    "assert_close([T(1.)], (T(1.), ))",
    "assert_close([1, 2], [1])",
    "assert_close([1, 2], [1, 3])",
    'assert_close({"a":T(1.), "b":2}, {"a":T(1.), "b":3})',
    'assert_close({"a":1, "b":2}, {"a":1, "c":3})',
    'assert_close({"a":1}, {"a":1, "c":3})',
    'assert_close({1:1, "b":2}, {1:1, "c":3})',
    'assert_close({"a":1}, collections.OrderedDict(a=1))',
    'assert_close({"a":[1, (2, T([1., 2.]))]}, {"a":[1, (2, T([1., 5.]))]})',
    "assert_close([T([1.]), T([2.])], [T([3.]), T([5.])])",
    "assert_close(np.array([1., 2.]), np.array([1., 3.]))",
    "assert_close(np.array([1., 2.]), T([1., 2.], dtype=torch.float64))",
    "assert_close(np.float32(1), np.float32(2))",
    "assert_close(np.float64(1), 1.0)",
    "assert_close(T([1.]), [1.])",
    "assert_close(T(1.), 1.)",
    'assert_close("a", "b")',
    'assert_close("a", "a")',
    "assert_close(None, None)",
    "assert_close(None, 1)",
    "assert_close([None], [None])",
    "assert_close({1}, {1})",
    'assert_close(["a"], ["a"])',
    'assert_close(np.array(["a"]), np.array(["a"]))',
    "assert_close(P(T([1.])), T([1.]))",
    "assert_close(P(T([1.])), P(T([1.])), allow_subclasses=False)",
    "assert_close(T([1.], requires_grad=True), T([2.]))",
    "assert_close(torch.empty(0), torch.empty(0))",
    "assert_close([], [])",
    "assert_close(torch.zeros(2, 3, 4), torch.ones(2, 3, 4))",
    "assert_close(T([0., 1.]), T([0., 0.]))",
    "assert_close(T([1.]), T([1.1]), rtol=0.01, atol=0.)",
    "assert_close([np.array([1.])], [np.array([2.])])",
    "assert_close([1.], T([1.]))",
    "assert_close(np.array([1.]), [1.])",
    'assert_close(float("inf"), float("inf"))',
    'assert_close(float("inf"), -float("inf"))',
    "assert_close(T([2**62]), T([2**62+1]))",
    "assert_close(range(2), range(2))",
    "assert_close(torch.Size([1, 2]), torch.Size([1, 3]))",
    'assert_close({"a":{"b":1}}, {"a":{"b":2}})',
    "assert_close({0:1}, {0:2})",
    'assert_close(torch.ones(2, device="meta"), torch.ones(1, device="meta"))',
    "assert_close(1., 1)",
    'assert_close({"x":[1., 2.], "y":3.}, {"x":[2., 2.], "y":4.})',
    "assert_close(T([0.0]), T([-0.0]))",
    "assert_close([T([1.]), [T([2.]), T([3.])]], [T([1.]), [T([2.]), T([4., 1.])]])",
    "assert_close(T([1+1j]).conj(), T([1-1j]))",
    "assert_close(T(True), T(False))",
    "assert_close(torch.ones(2, 3).t(), torch.ones(3, 2).double(), check_stride=True)",
    'assert_close(torch.ones(2, 3).t(), torch.ones(3, 2, device="meta"), check_stride=True)',
    'assert_close(torch.ones(2, 3).t(), torch.ones(3, 2, device="meta"), check_stride=True)',
    'assert_close([1., "a"], [2., "a"])',
    "assert_close([1., 1], [2., 1.])",
    "assert_close([1., [1]], [2., [1, 2]])",
    "assert_close([1., 2.], [2., 1.], rtol=1.)",
    "assert_close([], [], rtol=1.)",
    'assert_close({"b":1., "a":1.}, {"a":2., "b":2.})',
    'assert_close(1., float("nan"))',
    'assert_close(float("nan"), 0.)',
    'assert_close(T(float("nan")), T(0.))',
    "assert_close(T(1e-20), T(0., ))",
    "assert_close(np.array([1], dtype=np.int32), np.array([1.]))",
    "assert_close(np.array([1, 2]), np.array([1]))",
    "assert_close(np.float32(1), 1)",
    "assert_close(np.bool_(True), True)",
    "assert_close(np.bool_(True), False)",
    "assert_close([T([1.]), T([2.])], [T([1.]), T([2.], dtype=torch.float64)])",
    "assert_close(T([1, 2], dtype=torch.int8), T([1, 3], dtype=torch.int16), check_dtype=False)",
    "assert_close(T([1, 2], dtype=torch.uint16), T([1, 3], dtype=torch.uint16))",
    "assert_close(T([1., 2.]).half(), T([1., 3.]).double(), check_dtype=False)",
    "assert_close(1, 1.5, check_dtype=False)",
    "assert_close(1, 2, rtol=0.1, atol=0.1)",
    "assert_close(True, True, rtol=1)",
    "assert_close([None], [None], rtol=1)",
    "assert_close(1., 1., rtol=1)",
    'assert_close(T([[1., 2.], [3., 4.]]), T([[1., 2.], [3.5, 4.]]), msg="x\ny")',
    "assert_close(T([[1., 2.], [3., 4.]]), T([[1., 2.], [3.5, 4.]]), msg=lambda m: m[:10])",
    'assert_close([1], [2], msg="")',
    'assert_close([1], ["a"], msg="mm")',
    "assert_close(1., 2., rtol=-1, atol=0)",
    "assert_close((1, 2), [1, 3])",
    'assert_close("abc", ["a"])',
    'assert_close({"a":1}, [1])',
    'assert_close(b"a", b"b")',
    'assert_close(T([1., float("inf")]), T([1., float("-inf")]))',
    'assert_close(T([1+1j, 2]), T([1+1j, float("nan")]))',
    'assert_close([1], [1, 2], msg="mine")',
    'assert_close({"a":1}, {"b":1}, msg="mine")',
]

# the deprecated forerunner
ALLCLOSE = [
    "assert_allclose(torch.ones(2), torch.ones(2)*2)",
    "assert_allclose([1., 2.], [1., 3.])",
    "assert_allclose(1., torch.ones(()))",
    "assert_allclose(torch.ones(2), 1, rtol=0.1)",
    "assert_allclose(torch.ones(2), torch.ones(2).double())",
    'assert_allclose(torch.ones(2), [1., float("nan")])',
    "assert_allclose(torch.ones(2).half(), torch.full((2, ), 1.002).half())",
    'assert_allclose(torch.ones(2), torch.zeros(2), msg="mine")',
]

# tensors that a seed decides
MADE = [
    *(
        f'make_tensor(6, dtype=torch.{d}, device="cpu", {more}).float()'
        for d in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
        for more in ("", "low=0, high=1000", "noncontiguous=True", "low=1, high=1")
    ),
    'make_tensor(2, dtype=torch.float8_e5m2, device="cpu", requires_grad=True).requires_grad',
    'make_tensor(dtype=torch.float32, device="cpu")',
    'make_tensor((), dtype=torch.float32, device="cpu")',
    'make_tensor([2, 3], dtype=torch.float32, device="cpu")',
    'make_tensor(torch.Size([2]), dtype=torch.float32, device="cpu")',
    'make_tensor(2, 3, dtype=torch.float32, noncontiguous=True, device="cpu")',
    'make_tensor(1, dtype=torch.float32, noncontiguous=True, device="cpu")',
    'make_tensor((), dtype=torch.float32, noncontiguous=True, device="cpu")',
    'make_tensor(2, 3, dtype=torch.float32, requires_grad=True, device="cpu")',
    'make_tensor(2, dtype=torch.int64, requires_grad=True, device="cpu")',
    'make_tensor(2, 3, dtype=torch.int64, exclude_zero=True, low=0, high=2, device="cpu")',
    'make_tensor(2, 3, dtype=torch.float32, exclude_zero=True, low=0, high=0.5, device="cpu")',
    'make_tensor(3, dtype=torch.bool, exclude_zero=True, device="cpu")',
    'make_tensor(3, dtype=torch.complex64, exclude_zero=True, device="cpu")',
    'make_tensor(3, dtype=torch.float32, low=2, high=1, device="cpu")',
    'make_tensor(3, dtype=torch.float32, low=1, high=1, device="cpu")',
    'make_tensor(3, dtype=torch.int64, low=1, high=1, device="cpu")',
    'make_tensor(3, dtype=torch.float32, low=float("nan"), device="cpu")',
    'make_tensor(3, dtype=torch.float32, low=-float("inf"), high=float("inf"), device="cpu")',
    'make_tensor(3, dtype=torch.uint8, low=-5, high=900, device="cpu")',
    'make_tensor(3, dtype=torch.int64, low=1.5, high=3.5, device="cpu")',
    'make_tensor(3, dtype=torch.int8, low=300, high=400, device="cpu")',
    'make_tensor(3, dtype=torch.float32, low=5, device="cpu")',
    'make_tensor(3, dtype=torch.float32, low=50, device="cpu")',
    'make_tensor(3, dtype=torch.float32, high=-50, device="cpu")',
    'make_tensor(3, dtype=torch.int32, low=50, device="cpu")',
    'make_tensor(3, dtype=torch.bool, low=0, high=1, device="cpu")',
    'make_tensor(3, dtype=torch.bool, low=2, high=3, device="cpu")',
    'make_tensor(3, dtype=torch.bool, low=-1, high=3, device="cpu")',
    'make_tensor(3, dtype=torch.float16, low=-1e9, high=1e9, device="cpu")',
    'make_tensor(3, dtype=torch.float64, low=-1e308, high=1e308, device="cpu")',
    'make_tensor(1, 2, 3, 3, dtype=torch.float32, memory_format=CL, device="cpu")',
    'make_tensor(1, 2, 3, 3, dtype=torch.half, memory_format=CL, noncontiguous=True, device="cpu")',
    'make_tensor(0, 3, dtype=torch.float32, device="cpu")',
    'make_tensor(3, dtype=torch.int64, low=-2**63, high=2**63-1, device="cpu")',
    'make_tensor(3, dtype=torch.int64, low=float("-inf"), high=float("inf"), device="cpu")',
    'make_tensor(3, dtype=torch.int64, low=0.2, high=0.8, device="cpu")',
    'make_tensor(3, dtype=torch.uint8, low=0, high=255, device="cpu")',
    'make_tensor(3, dtype=torch.uint8, low=0, high=256, device="cpu")',
    'make_tensor(2, dtype=torch.float16, low=1e6, high=1e7, device="cpu")',
    'make_tensor(2, dtype=torch.int32, low=float("nan"), high=2, device="cpu")',
    'make_tensor(2, dtype=torch.float32, low=float("inf"), high=float("inf"), device="cpu")',
    'make_tensor(3, device="cpu")',
]

DTYPES = [
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
]
for _dtype in DTYPES:
    MADE += [
        f"make_tensor(2, 3, dtype=torch.{_dtype}, device='cpu')",
        f"make_tensor((4,), dtype=torch.{_dtype}, low=-1, high=3, device='cpu')",
    ]


def said(torch, case: str) -> str:
    """What a call gives: its value, or the kind of its error and the text."""
    testing = torch.testing
    names = {"torch": torch, "T": torch.tensor, "np": np, "collections": collections}
    names |= {"P": torch.nn.Parameter, "CL": torch.channels_last}
    names |= {name: getattr(testing, name) for name in NAMES}
    torch.manual_seed(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            text = shown(eval(case, names))
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
    first = "".join(f"{w.category.__name__}: {w.message}"[:60] + "\n" for w in caught)
    return first + text


NAMES = ["assert_close", "assert_allclose", "make_tensor"]


def shown(value) -> str:
    if value is None:
        return "None"
    return f"{value.tolist()} {value.dtype} {tuple(value.stride())} {value.requires_grad}"
