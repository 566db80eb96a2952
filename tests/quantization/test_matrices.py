"""Products of bytes in matrix registers, which plain code stands in for where there are none."""

import json
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen.templates import squares, tiles
from flambeau.eager import byte_products
from flambeau.runtime.processor import matrices_allowed
from tests.quantization import cases

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "quantized.json").read_text())


@pytest.fixture
def in_matrices(monkeypatch):
    if tiles.lanes("f32") != squares.SIDE:
        pytest.skip("matrix registers come with vectors of 64 bytes")
    if squares.available("int8") and not matrices_allowed():
        pytest.skip("the processor has matrix registers, but the system does not give them")
    monkeypatch.setattr(byte_products, "has_matrices", lambda: True)


def test_values_are_those_recorded(in_matrices, monkeypatch):
    """Runs of any length, as every case has them, though short ones would not pay."""
    least = byte_products.LEAST_DEPTH
    made = byte_products.Packed._plan

    def always(packed, key):
        packed_depth = packed.depth
        monkeypatch.setattr(byte_products, "LEAST_DEPTH", min(least, packed_depth))
        try:
            return made(packed, key)
        finally:
            monkeypatch.setattr(byte_products, "LEAST_DEPTH", least)

    monkeypatch.setattr(byte_products.Packed, "_plan", always)
    names = [name for name in cases.CASES if name.startswith(("linear", "conv"))]
    for name in names:
        found = json.loads(json.dumps(cases.summary(cases.CASES[name](torch))))
        assert found == GOLDEN[name], name


@pytest.mark.parametrize("columns", [5, 16, 33, 64, 130])
@pytest.mark.parametrize("run", [29, 32, 64, 67, 200])
def test_rows_of_any_number_and_length(rng, in_matrices, columns, run):
    """Levels of rows in tiles of 16 and those left over, against plain integers."""
    weights = rng.integers(-128, 128, (columns, run)).astype("int8")
    packed = byte_products.Packed(
        torch.from_numpy(weights).view(1, columns, 1, run), torch.ones(1), None
    )
    for rows in (1, 15, 16, 17, 50):
        given = rng.integers(0, 256, (rows, run)).astype("uint8")
        room = torch.zeros(rows * run + 4, dtype=torch.uint8)
        room[: rows * run] = torch.from_numpy(given).flatten()
        out = torch.empty(rows, columns)
        geometry = byte_products.rows_of(rows, run)
        for count in (1, 2):
            torch.set_num_threads(count)
            byte_products.floats(packed, geometry, room.data_ptr(), 3, 1.0, out)
            wanted = (given.astype("int64") - 3) @ weights.T.astype("int64")
            assert np.array_equal(out.numpy(), wanted.astype("float32"))
    torch.set_num_threads(2)
