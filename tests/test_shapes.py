"""Views, subscripts, joins and new tensors do in their odd corners what PyTorch does."""

import json
import pathlib
import tempfile

import pytest

import flambeau as torch
from tests.shape_cases import SNIPPETS
from tests.snippets import outcome

GOLDEN = pathlib.Path(__file__).parent / "golden/shapes.json"
RECORDED = json.loads(GOLDEN.read_text())["shape"]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_outcome_is_the_recorded_one(snippet):
    assert outcome(torch, snippet) == RECORDED[snippet]


@pytest.mark.oracle
def test_outcome_is_that_of_torch():
    oracle = pytest.importorskip("torch")
    for snippet in SNIPPETS:
        assert outcome(torch, snippet) == outcome(oracle, snippet), snippet


@pytest.mark.parametrize("shared", [True, False])
def test_storages_of_files_that_are_written_know_their_name(shared):
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(16))
        file.flush()
        found = torch.from_file(file.name, shared=shared, size=4)
        assert found.untyped_storage().filename == (file.name if shared else None)
        assert found[1:].untyped_storage().filename == (file.name if shared else None)


def test_meshgrid_asks_for_the_order_of_indices():
    with pytest.warns(UserWarning, match="it will be required to pass the indexing argument"):
        torch.meshgrid(torch.ones(2), torch.ones(2))


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
@pytest.mark.parametrize("kind", [torch.float32, 3, "torch.float32", torch.Tensor, None])
def test_default_tensor_types_are_old_classes(kind):
    with pytest.raises(TypeError, match="invalid type object: only floating-point types"):
        torch.set_default_tensor_type(kind)
