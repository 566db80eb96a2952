"""Named results: fields, printing, pickling."""

import pickle

import pytest

from flambeau import return_types


def test_fields_and_unpacking():
    found = return_types.sort((1, 2))
    values, indices = found
    assert (values, indices) == (found.values, found.indices) == found[:2] == (1, 2)
    assert repr(found) == "torch.return_types.sort(\nvalues=1,\nindices=2)"


def test_wrong_length():
    with pytest.raises(TypeError, match=r"takes a 2-sequence \(1-sequence given\)"):
        return_types.sort((1,))


def test_pickle():
    found = pickle.loads(pickle.dumps(return_types.linalg_svd((1, 2, 3))))
    assert type(found) is return_types.linalg_svd and found.Vh == 3


@pytest.mark.oracle
def test_every_type_has_torch_fields():
    torch = pytest.importorskip("torch")
    for cls in return_types.all_return_types:
        theirs = getattr(torch.return_types, cls.__name__)
        assert [k for k, v in vars(theirs).items() if "member" in type(v).__name__] == list(
            cls.__match_args__
        )
