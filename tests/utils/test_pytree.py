"""Trees of containers: PyTorch's answers, recorded and live, and laws that hold without it."""

import collections
import copy
import json
import pickle
import warnings
from pathlib import Path

import pytest

import flambeau
from flambeau.utils import _pytree
from tests.utils.pytree_cases import CASES, TREE, answers

RECORDED = json.loads((Path(__file__).parents[1] / "golden" / "pytree.json").read_text())


@pytest.fixture(scope="module")
def ours():
    return answers(flambeau, _pytree)


def older(text):
    """Ordered dictionaries are written with braces from Python 3.12 on."""
    pairs = "OrderedDict([('z', 5), ('y', 6)])"
    return text.replace("OrderedDict({'z': 5, 'y': 6})", pairs) if type(text) is str else text


@pytest.mark.parametrize("case", CASES)
def test_answers_as_recorded(case, ours):
    assert older(ours[case]) == RECORDED[case]


@pytest.mark.oracle
def test_torch_answers_as_recorded():
    torch = pytest.importorskip("torch")
    theirs = answers(torch, torch.utils._pytree)
    assert {case: theirs[case] for case in CASES} == RECORDED


def test_apart_and_together_is_the_same():
    leaves, spec = _pytree.tree_flatten(TREE)
    again = spec.unflatten(leaves)
    assert again == TREE and again is not TREE
    assert [type(v) for v in again.values()] == [type(v) for v in TREE.values()]
    assert again["d"].maxlen == 3 and again["e"].default_factory is list
    assert leaves == _pytree.tree_leaves(TREE) and spec.num_leaves == len(leaves)


def test_specs_are_copied_and_pickled():
    spec = _pytree.tree_structure({"a": [1, (2, None)]})
    assert copy.deepcopy(spec) == spec == pickle.loads(pickle.dumps(spec))


def test_tensors_are_leaves():
    batch = {"x": flambeau.ones(2), "y": [flambeau.zeros(1), "name"]}
    doubled = _pytree.tree_map_only(flambeau.Tensor, lambda t: t * 2, batch)
    assert doubled["x"].tolist() == [2, 2] and doubled["y"][1] == "name"


def test_the_older_way_to_register_warns():
    class Box:
        def __init__(self, value):
            self.value = value

    for again in (False, True):  # and says so, when it is a second time
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _pytree._register_pytree_node(
                Box, lambda box: ([box.value], None), lambda children, _: Box(*children)
            )
        assert [w.category for w in caught] == [FutureWarning, UserWarning][: 1 + again]
        assert "_register_pytree_node` is deprecated" in str(caught[0].message)
    assert _pytree.tree_leaves([Box(5)]) == [5]
    _pytree._deregister_pytree_node(Box)
    assert len(_pytree.tree_leaves([Box(5)])) == 1 and _pytree.tree_is_leaf(Box(5))


def test_children_specs_warns():
    with pytest.warns(FutureWarning, match="children_specs` is deprecated"):
        assert _pytree.tree_structure([1]).children_specs == [_pytree.LeafSpec()]


def test_how_long_a_deque_may_get_does_not_matter():
    first, second = collections.deque([1, 2], maxlen=3), collections.deque([3, 4])
    found = _pytree.tree_map(lambda a, b: a + b, first, second)
    assert found == collections.deque([4, 6]) and found.maxlen == 3
