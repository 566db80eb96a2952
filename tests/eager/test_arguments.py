"""Arguments that PyTorch's parser refuses: exception and first words are PyTorch's."""

import pickle
import subprocess
import sys

import pytest

import flambeau

# What is written, which exception comes, how its text begins. x is 3 x 3 floats, i 3 x 3 zeros of
# int64, b two of int8. The words are those of PyTorch 2.13.
REFUSED = """
torch.cumsum(x, 1.0) | TypeError | cumsum(): argument 'dim' (position 2) must be int, not float
torch.cumsum(x, True) | TypeError | cumsum(): argument 'dim' (position 2) must be int, not bool
torch.cumsum(x, 10**30) | ValueError | Overflow when unpacking long long
torch.cumsum(x, 0, dtype='a') | TypeError | cumsum(): argument 'dtype' must be torch.dtype, not str
torch.topk(x, 1, largest=1) | TypeError | topk(): argument 'largest' must be bool, not int
torch.topk(x, 1, sorted=None) | TypeError | topk(): argument 'sorted' must be bool, not NoneType
torch.linalg.cholesky(x, upper=1) | TypeError | linalg_cholesky(): argument 'upper' must be bool
torch.renorm(x, 2, 0, None) | TypeError | renorm(): argument 'maxnorm' (position 4) must be Number
torch.fft.fft(x, norm=3) | TypeError | fft_fft(): argument 'norm' must be str, not int
torch.flip(x, [True]) | TypeError | flip(): argument 'dims' (position 2) must be tuple of ints, but
torch.roll(x, (1, 2.5), (0, 1)) | TypeError | roll(): argument 'shifts' failed to unpack the object
torch.flip(x, [0, 10**30]) | TypeError | flip(): argument 'dims' failed to unpack the object at pos
torch.abs([1]) | TypeError | abs(): argument 'input' (position 1) must be Tensor, not list
torch.prelu(x, 1) | TypeError | prelu(): argument 'weight' (position 2) must be Tensor, not int
F.linear(x, x, 1) | TypeError | linear(): argument 'bias' (position 3) must be Tensor, not int
torch.cat(x) | TypeError | cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tens
torch.cat([x, 1]) | TypeError | expected Tensor as element 1 in argument 0, but got int
torch.as_strided(x, 1, [1]) | TypeError | as_strided(): argument 'size' (position 2) must be tuple
torch.split_with_sizes(x, 3) | TypeError | split_with_sizes(): argument 'split_sizes' (position 2)
torch.detach(1) | TypeError | detach(): argument 'input' (position 1) must be Tensor, not int
torch.is_conj('x') | TypeError | is_conj(): argument 'input' (position 1) must be Tensor, not str
torch.zeros([True, 2]) | TypeError | zeros(): argument 'size' (position 1) must be tuple of ints
torch.zeros(2, 10**30) | TypeError | zeros(): argument 'size' failed to unpack the object at pos 2
torch.ones(2, requires_grad=1) | TypeError | ones(): argument 'requires_grad' must be bool, not int
torch.eye(True) | TypeError | eye(): argument 'n' (position 1) must be int, not bool
torch.randperm(True) | TypeError |
x.size(True) | TypeError | size(): argument 'dim' (position 1) must be int, not bool
x.copy_(x, non_blocking=1) | TypeError | copy_(): argument 'non_blocking'
torch.empty_permuted((2, 3), (0, 0)) | RuntimeError | Duplicate dim not allowed
torch.clone(x, out=x) | TypeError | clone() got an unexpected keyword argument 'out'
x.neg(out=x) | TypeError | TensorBase.neg() takes no keyword arguments
x.cumsum(0, out=x) | TypeError | cumsum() got an unexpected keyword argument 'out'
x.sum(0, out=x) | TypeError |
x.max(0, out=x) | TypeError |
torch.topk(x, 1, out=x) | TypeError | topk(): argument 'out' must be tuple of Tensors, not Tensor
torch.topk(x, 1, out=(x, 1)) | TypeError | expected Tensor as element 1 in argument 5, but got int
torch.abs(x, out=[x]) | TypeError | abs(): argument 'out' must be Tensor, not list
torch.linalg.slogdet(x, out=x) | TypeError | linalg_slogdet(): argument 'out' must be tuple of Tenso
torch.gather(x, 0, i, out=x.double()) | RuntimeError | Expected out tensor to have dtype float, but
torch.sign(x, out=x.double()) | RuntimeError | Found dtype Double but expected Float
b.fill_(300) | RuntimeError | value cannot be converted to type int8_t without overflow
b.fill_(float('nan')) | RuntimeError | value cannot be converted to type int8_t without overflow
x.fill_(1e300) | RuntimeError | value cannot be converted to type float without overflow
x.add(x, alpha=1e300) | RuntimeError | value cannot be converted to type float without overflow
b.add(b, alpha=300) | RuntimeError | value cannot be converted to type int8_t without overflow
b.mvlgamma_(1) | RuntimeError |
torch.ones(2).bool().square_() | RuntimeError | result type Long can't be cast to the desired
i.bitwise_xor_(x + 0j) | RuntimeError | result type ComplexFloat can't be cast to the desired output
torch.atan2(x + 0j, b) | RuntimeError | The size of tensor a (3) must match the size of tensor b (2)
torch.lt(x + 0j, x) | NotImplementedError | "lt_cpu" not implemented for 'ComplexFloat'
torch.cat([x, x[:1]], out=x) | RuntimeError | unsupported operation: some elements of the input
torch.UntypedStorage(1.5) | RuntimeError | torch.UntypedStorage(): Expected a sequence type, but got
torch.UntypedStorage(-1) | RuntimeError |
torch.arange(1, -4, float('nan')) | RuntimeError | step must be nonzero
torch.device(1) | RuntimeError | Cannot access accelerator device when none is available.
torch._foreach_mul([]) | TypeError | _foreach_mul() received an invalid combination of arguments
torch._foreach_copy_([x], x) | TypeError | _foreach_copy_(): argument 'src' (position 2) must be
F.max_pool2d(x[None], 2, True) | TypeError | max_pool2d(): argument 'stride'
torch.unbind_copy(x, 0, out=x) | TypeError | unbind_copy(): argument 'out' must be tuple of Tensors
torch.diagonal(x, 10**30) | ValueError | Overflow when unpacking long long
torch.renorm(x, 2, 0, float('nan')) | RuntimeError | renorm: expected maxnorm to be >= 0 but got nan
torch.cdist(x, x, 1.0, None) | ValueError | None is not a valid value for compute_mode
torch.constant_pad_nd(x[0], [0, 1, 0, 1]) | RuntimeError | Length of pad should be no more than twic
"""

# Calls that are fine, then the same with a value that equals a good one but is of another type.
TWINS = """
x.sum(1) | x.sum(1.0) | x.sum(True)
x.sum(dim=1) | x.sum(dim=1.0) | x.sum(dim=True)
x.sum(dim=1, keepdim=True) | x.sum(dim=1, keepdim=1)
x.mean(1, True) | x.mean(1, 1) | x.mean(True, True)
x.amax(1) | x.amax(1.0) | x.amax(True)
x.select(0, 1) | x.select(0, True) | x.select(0, 1.0) | x.select(False, 1)
x.narrow(0, 1, 1) | x.narrow(0, 1, True) | x.narrow(0, 1.0, 1)
x.transpose(0, 1) | x.transpose(False, 1) | x.transpose(0, 1.0)
x.unsqueeze(1) | x.unsqueeze(True) | x.unsqueeze(1.0)
x[:1].squeeze(0) | x[:1].squeeze(0.0)
x.view(1, 9) | x.view(True, 9) | x.view(1, 9.0)
x[:1].expand(3, 3) | x[:1].expand(3, 3.0)
x.repeat(1, 1) | x.repeat(True, 1) | x.repeat(1, 1.0)
x.round(decimals=1) | x.round(decimals=1.0) | x.round(decimals=True)
x.cumsum(1) | x.cumsum(1.0) | x.cumsum(True)
torch.flip(x, (1,)) | torch.flip(x, [1.0])
x.requires_grad_(False) | x.requires_grad_(0)
torch.zeros(1, 2) | torch.zeros(1.0, 2) | torch.zeros(True, 2)
"""


def outcome(torch, text):
    """(exception, its first line), or None."""
    names = {"torch": torch, "F": torch.nn.functional, "x": torch.ones(3, 3)}
    names |= {"i": torch.zeros(3, 3, dtype=torch.int64), "b": torch.zeros(2, dtype=torch.int8)}
    try:
        eval(text, names)
    except Exception as error:
        return type(error).__name__, str(error).partition("\n")[0]
    return None


def refused():
    return [[part.strip() for part in line.split("|")] for line in REFUSED.strip().splitlines()]


@pytest.mark.parametrize("call, kind, start", refused())
def test_refused(call, kind, start):
    for _ in range(2):  # without a plan, and perhaps with one
        found = outcome(flambeau, call)
        assert found is not None
        assert found[0] == kind and found[1].startswith(start)


@pytest.mark.oracle
def test_refusals_are_pytorchs():
    torch = pytest.importorskip("torch")
    for call, kind, start in refused():
        found = outcome(torch, call)
        assert found is not None and found[0] == kind and found[1].startswith(start), (call, found)


@pytest.mark.parametrize("line", TWINS.strip().splitlines())
def test_plans_tell_types_apart(line):
    good, *bad = (part.strip() for part in line.split("|"))
    for _ in range(3):
        assert outcome(flambeau, good) is None
        for call in bad:
            assert outcome(flambeau, call)[0] == "TypeError", call


def test_large_numbers_that_fit_are_welcome():
    x, h = flambeau.ones(2), flambeau.zeros(2, dtype=flambeau.float16)
    for _ in range(3):
        assert x.add(x, alpha=1000.0).tolist() == [1001, 1001]
        assert x.new_empty(2).fill_(1e30)[0] == flambeau.tensor(1e30)
        assert h.fill_(float("inf")).tolist() == [float("inf")] * 2
        assert flambeau.zeros(1, dtype=flambeau.uint8).fill_(-1).item() == 255


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_factors_may_come_second_without_a_name(name):
    a, b, c = (flambeau.tensor([1.0, 2.0]) * k for k in (1, 3, 5))
    wanted = getattr(flambeau, name)(a, b, c, value=0.5)
    assert flambeau.equal(getattr(flambeau, name)(a, 0.5, b, c), wanted)
    assert flambeau.equal(getattr(a, name)(0.5, b, c), wanted)
    assert flambeau.equal(getattr(a.clone(), name + "_")(0.5, b, c), wanted)
    with pytest.raises(TypeError):
        getattr(flambeau, name)(a, b, 0.5, c)


MATRIX = ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
PRODUCTS = {
    "addmm": ([[1.0, 2.0], [3.0, 4.0]], *MATRIX),
    "addmv": ([1.0, 2.0], MATRIX[0], [1.0, 2.0, 3.0]),
    "addr": (MATRIX[0], [1.0, 2.0], [1.0, 2.0, 3.0]),
    "baddbmm": ([[[1.0, 2.0], [3.0, 4.0]]], [MATRIX[0]], [MATRIX[1]]),
    "addbmm": ([[1.0, 2.0], [3.0, 4.0]], [MATRIX[0]] * 2, [MATRIX[1]] * 2),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_factors_of_products_may_come_first_without_a_name(name):
    """addmm(beta, input, alpha, mat1, mat2), as programs of PyTorch 1.4 have it."""
    input, a, b = map(flambeau.tensor, PRODUCTS[name])
    function = getattr(flambeau, name)
    both, one = function(input, a, b, beta=2, alpha=3), function(input, a, b, beta=2)
    assert flambeau.equal(function(2, input, 3, a, b), both)
    assert flambeau.equal(function(2, input, a, b), one)
    assert flambeau.equal(function(2, input, 3, a, b, out=flambeau.empty_like(input)), both)
    assert flambeau.equal(getattr(input, name)(2, 3, a, b), both)
    assert flambeau.equal(getattr(input, name)(2, a, b), one)
    assert flambeau.equal(getattr(input.clone(), name + "_")(2, 3, a, b), both)
    with pytest.raises(TypeError):
        function(input, a, 2, b)


def test_old_orders_are_deprecated_every_time_where_that_is_wanted():
    a, b = flambeau.ones(2, 2), flambeau.ones(1, 2, 2)
    flambeau.set_warn_always(True)
    try:
        for _ in range(2):
            with pytest.warns(UserWarning, match="This overload of addbmm_ is deprecated") as seen:
                a.addbmm_(1, b, b)
        assert "addbmm_(Number beta, Tensor batch1, Tensor batch2)" in str(seen[0].message)
        with pytest.warns(UserWarning, match="This overload of add_ is deprecated"):
            a.add_(2, a)
    finally:
        flambeau.set_warn_always(False)


def test_old_orders_are_deprecated_once():
    code = (
        "import warnings, flambeau as f; a = f.ones(2, 2); warnings.simplefilter('always')\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    f.addmm(2, a, 3, a, a); a.addmm(2, a, a); a.add(2, a)\n"
        "print(len(seen), seen[0].category.__name__, str(seen[0].message).splitlines()[:2])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    count, kind, _ = done.stdout.split(maxsplit=2)
    assert (count, kind) == ("1", "UserWarning"), done.stderr
    assert "This overload of addmm is deprecated:" in done.stdout
    assert "addmm(Number beta, Tensor input, Number alpha, Tensor mat1, Tensor" in done.stdout


def test_steps_beyond_64_bits_reach_nothing_else():
    x = flambeau.arange(10)
    assert x[1 :: 2**64].tolist() == [1] and x[:: 10**30].tolist() == [0]
    assert flambeau.ones(2, 3)[:, 0 : 3 : 2**63].shape == (2, 1)
    for index in (2**63, -(2**63) - 1, 10**30):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            x[index]
    with pytest.raises(IndexError, match="index 9223372036854775807 is out of bounds"):
        x[2**63 - 1]


@pytest.mark.parametrize("name", ["permute", "flip", "reshape", "tile", "sort", "broadcast_to"])
def test_functions_that_differ_from_methods_are_found_again(name):
    for found in (getattr(flambeau, name), getattr(flambeau.Tensor, name)):
        assert pickle.loads(pickle.dumps(found)) is found
    assert getattr(flambeau, name) is not getattr(flambeau.Tensor, name)
