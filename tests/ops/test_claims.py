"""Arguments that claim sizes and places: what does not fit is refused before a kernel sees it."""

import pytest

import flambeau as torch
from flambeau.nn import functional as F


def ones(*shape):
    return torch.ones(*shape)


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


STATES = "(ones(2, 3), ones(2, 3))"
ROWS = "first dim must be"
UNPACK = "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
CLAIMS = {
    # recurrent cells: rows of weights
    "torch.gru_cell(ones(2, 1), ones(2, 3), ones(3, 1), ones(3, 3))": (
        "weight_ih first dim must be 3 * hidden_size = 9, but got 3"
    ),
    "torch.gru_cell(ones(2, 1), ones(2, 3), ones(9, 1), ones(3, 3))": (
        "weight_hh first dim must be 3 * hidden_size = 9, but got 3"
    ),
    "torch.gru_cell(ones(2, 1), ones(2, 3), ones(12, 1), ones(12, 3))": ROWS,
    "torch.gru_cell(ones(2, 1, 1), ones(2, 3), ones(9, 1), ones(9, 3))": "rows of 9 gates",
    "torch.gru_cell(ones(1), ones(3), ones(9, 1), ones(9, 3))": "Dimension out of range",
    f"torch.lstm_cell(ones(2, 1), {STATES}, ones(3, 1), ones(3, 3))": (
        "weight_ih first dim must be 4 * hidden_size = 12, but got 3"
    ),
    f"torch.lstm_cell(ones(2, 1), {STATES}, ones(12, 1), ones(8, 3))": "weight_hh " + ROWS,
    "torch.lstm_cell(ones(2, 1), (ones(2, 3), ones(2, 3).double()), ones(12, 1), ones(12, 3))": (
        "expected scalar type Float but found Double"
    ),
    "torch.rnn_tanh_cell(ones(2, 1), ones(2, 3), ones(1, 1), ones(1, 3))": ROWS,
    "torch.rnn_relu_cell(ones(2, 1), ones(2, 3), ones(2, 1), ones(3, 3))": ROWS,
    # recurrent layers: weights, biases, states
    "layer(torch.gru, ones(1, 2, 3), ones(3, 1), ones(3, 3))": ROWS,
    "layer(torch.gru, ones(1, 2, 3), ones(9, 1), ones(3, 3))": ROWS,
    "layer(torch.gru, ones(1, 2, 3), ones(12, 1), ones(12, 3))": ROWS,
    "layer(torch.gru, ones(1, 2, 3), ones(9, 1), ones(9, 3), ones(2), ones(9))": "bias_ih",
    "layer(torch.gru, ones(1, 2, 3), ones(9, 1), ones(9, 3), ones(9), ones(2))": "bias_hh",
    "layer(torch.gru, ones(2, 2, 3), ones(9, 1), ones(9, 3))": "Expected more hidden states",
    "layer(torch.gru, ones(1, 3, 3), ones(9, 1), ones(9, 3))": "Expected hidden size",
    "layer(torch.gru, ones(2, 2, 3), *[ones(9, 1), ones(9, 3)] * 2, layers=2)": (
        "mat1 and mat2 shapes cannot be multiplied (8x3 and 1x9)"
    ),
    "layer(torch.rnn_tanh, ones(1, 2, 3), ones(1, 1), ones(1, 3))": ROWS,
    "layer(torch.rnn_tanh, ones(1, 2, 3), ones(3, 1), ones(3, 3), ones(3).double(), ones(3))": (
        "to have the same dtype"
    ),
    "layer(torch.lstm, (ones(1, 2, 3), ones(1, 2, 3)), ones(13, 1), ones(13, 3))": ROWS,
    "layer(torch.lstm, (ones(1, 2, 3), ones(1, 1, 3)), ones(12, 1), ones(12, 3))": "cell state",
    "layer(torch.lstm, (ones(1, 2, 2), ones(1, 2, 3)), ones(12, 1), ones(12, 2), ones(2, 5))": (
        "weight_hr"
    ),
    # sizes that go with a tensor
    "torch.native_group_norm(ones(2, 6, 3), None, None, 2, 6, 1 << 30, 2, 1e-5)": (
        "Expected X.numel() == N * C * HxW to be true, but got false."
    ),
    "torch.native_group_norm(ones(2, 6, 3), None, None, 2, 6, 2, 2, 1e-5)": "X.numel()",
    "torch.native_group_norm(ones(2, 6, 3), None, None, -2, 6, -3, 2, 1e-5)": "X.numel()",
    "torch.native_group_norm(ones(2, 6, 3), None, None, 2, 6, 3, 4, 1e-5)": "divisible by",
    "torch.native_group_norm(ones(2, 6, 3), None, None, 2, 6, 3, 0, 1e-5)": "greater than 0, got 0",
    "torch._log_softmax_backward_data(ones(2, 2), ones(1, 3), 0, torch.float32)": (
        "Expected tensor for argument #1 'grad' to have same size as tensor for argument #2"
    ),
    "torch._softmax_backward_data(ones(2, 2), ones(2, 2).double(), 0, torch.float32)": "expected",
    "F.local_response_norm(ones(2, 3, 4), -1)": "kernel size should be greater than zero",
    # pivots
    "torch.linalg.ldl_solve(torch.eye(3), ints(77, 1, 1), ones(3, 1))": (
        "must all satisfy |pivot| <= LD.size(-2). Did you properly pass the result of ldl_factor?"
    ),
    "torch.linalg.ldl_solve(torch.eye(3), ints(0, 1, 1), ones(3, 1))": "|pivot| >= 1",
    "torch.linalg.ldl_solve(torch.eye(3), ints(-1, 77, 1), ones(3, 1))": "|pivot| <= LD.size(-2)",
    "torch.linalg.ldl_solve(torch.eye(3), ints(-1, 0, 1), ones(3, 1))": "|pivot| >= 1",
    "torch.linalg.ldl_solve(torch.eye(3), ints(1, 2, -3), ones(3, 1))": "a block of two",
    "torch.linalg.ldl_solve(eyes(9), ints(*[1] * 25, 77, 1).reshape(9, 3), ones(9, 3, 2))": (
        "|pivot| <= LD.size(-2)"
    ),
    "torch.linalg.lu_solve(torch.eye(3), ints(77, 1, 1), ones(3, 1))": (
        "must all be smaller or equal to LU.size(-2). Did you properly pass the result of"
    ),
    "torch.linalg.lu_solve(eyes(2), ints(1, 2, 3, 1, 0, 3).reshape(2, 3), ones(2, 3, 1))": (
        "must all be greater or equal to 1"
    ),
    "torch.lu_unpack(torch.eye(3), ints(1, 4, 1))": UNPACK,
    "torch.lu_unpack(eyes(2), ints(1, 2, 3, 1, -1, 3).reshape(2, 3))": UNPACK,
}


def layer(function, states, *weights, layers=1):
    """Four steps of two sequences of one number each."""
    return function(
        ones(4, 2, 1), states, list(weights), len(weights) == 4 and layers == 1, layers, 0.0,
        False, False, False,
    )  # fmt: skip


def eyes(count):
    return torch.eye(3).expand(count, 3, 3)


def test_outer_dimensions_may_be_cut():
    x = torch.arange(24.0).reshape(4, 3, 1, 2, 1)
    assert F.pad(x, [0] * 6 + [-1, -1]).flatten().tolist() == x[:, 1:2].flatten().tolist()
    assert F.pad(x, [0] * 8 + [-3, 1], value=9.0).flatten().tolist() == [*range(18, 24), *[9.0] * 6]


def test_rows_are_kept_until_a_kernel_has_read_them():
    x = torch.randn(5, 8)
    for _ in range(20):
        values, indices = x.kthvalue(2, 0)
        assert torch.equal(values, x.sort(0).values[1])
        assert torch.equal(x.gather(0, indices[None])[0], values)


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_does_not_fit_is_refused(claim):
    with pytest.raises((RuntimeError, IndexError, ValueError)) as caught:
        eval(claim)
    assert CLAIMS[claim] in str(caught.value)
