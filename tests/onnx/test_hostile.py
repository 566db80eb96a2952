"""Files that are damaged or mean harm: one kind of error, nothing run, nothing large made."""

import random
import resource

import numpy as np
import pytest

import flambeau as torch

onnx = pytest.importorskip("onnx", reason="needs flambeau[onnx]")

from onnx import TensorProto as T  # noqa: E402
from onnx import helper as h  # noqa: E402

from flambeau.onnx import importing  # noqa: E402
from tests.onnx import files  # noqa: E402


def load_or_refuse(data):
    """Was it refused? Any other error fails the test."""
    try:
        torch.onnx.load(data)
    except torch.onnx.OnnxLoadError as error:
        assert str(error)
        return True
    return False


def check(seeds):
    originals = [
        make().SerializeToString()
        for make in (files.branches, files.loops, files.functions, files.network)
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = sum(load_or_refuse(files.mutated(seed, originals)) for seed in seeds)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
    assert refused > len(seeds) / 10


def test_mutated_files():
    check(range(300))


@pytest.mark.slow
def test_many_mutated_files():
    check(range(1000, 21000))


def cycle():
    nodes = [h.make_node("Relu", ["b"], ["a"]), h.make_node("Relu", ["a"], ["b"])]
    return files.model(nodes, [files.info("x", 2)], [files.info("b", 2)])


def huge():
    lie = T(name="w", data_type=T.FLOAT, dims=[1 << 40], raw_data=b"abcd")
    return files.model(
        [h.make_node("Add", ["x", "w"], ["y"])], [files.info("x", 2)], [files.info("y", 2)], [lie]
    )


def sparse_bomb():
    values = files.tensor("w", np.ones(1, np.float32))
    places = files.tensor("p", np.zeros(1, np.int64))
    proto = files.model(
        [h.make_node("Add", ["x", "w"], ["y"])], [files.info("x", 2)], [files.info("y", 2)]
    )
    proto.graph.sparse_initializer.append(h.make_sparse_tensor(values, places, [1 << 40]))
    return proto


def recursion():
    inner = h.make_node("Again", ["a"], ["b"], domain="own")
    function = h.make_function("own", "Again", ["a"], ["b"], [inner], [h.make_opsetid("own", 1)])
    return files.model(
        [h.make_node("Again", ["x"], ["y"], domain="own")],
        [files.info("x", 2)],
        [files.info("y", 2)],
        functions=[function],
        opsets=[h.make_opsetid("own", 1)],
    )


def laughter():
    """Each function calls the next one ten times."""
    made = []
    for level in range(12):
        nodes, last = [], "a"
        for step in range(10):
            kind = ("Relu", "") if level == 11 else (f"F{level + 1}", "own")
            nodes.append(h.make_node(kind[0], [last], [f"v{step}"], domain=kind[1]))
            last = f"v{step}"
        opsets = [h.make_opsetid("own", 1), h.make_opsetid("", 17)]
        made.append(h.make_function("own", f"F{level}", ["a"], [last], nodes, opsets))
    return files.model(
        [h.make_node("F0", ["x"], ["y"], domain="own")],
        [files.info("x", 2)],
        [files.info("y", 2)],
        functions=made,
        opsets=[h.make_opsetid("own", 1)],
    )


def unknown():
    return files.model(
        [h.make_node("Nonsense", ["x"], ["y"])], [files.info("x", 2)], [files.info("y", 2)]
    )


def attributes():
    node = h.make_node("LeakyRelu", ["x"], ["y"], alpha="text")
    return files.model([node], [files.info("x", 2)], [files.info("y", 2)])


CASES = [cycle, huge, sparse_bomb, recursion, laughter, unknown, attributes]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_models_that_mean_harm(make, monkeypatch):
    monkeypatch.setattr(importing, "MOST_NODES", 2000)
    assert load_or_refuse(make().SerializeToString())


def test_no_bytes_and_noise():
    assert load_or_refuse(b"")
    assert load_or_refuse(random.Random(0).randbytes(1000))


OUTSIDE = ["../secret", "/etc/passwd", "sub/../../secret", "", "link", "a\0b", "missing"]


@pytest.mark.parametrize("location", OUTSIDE)
def test_external_data_stays_in_its_folder(tmp_path, location):
    (tmp_path / "secret").write_bytes(b"x" * 8)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    write_external(folder, location, 0, 8)
    with pytest.raises(torch.onnx.OnnxLoadError, match=r"folder|exist"):
        torch.onnx.load(folder / "model.onnx")


@pytest.mark.parametrize(("offset", "length"), [(4, 8), (0, 4), (1 << 60, 8), ("-1", 8), ("x", 8)])
def test_external_data_that_lies(tmp_path, offset, length):
    (tmp_path / "data").write_bytes(b"x" * 8)
    write_external(tmp_path, "data", offset, length)
    with pytest.raises(torch.onnx.OnnxLoadError, match="tensor 'w'"):
        torch.onnx.load(tmp_path / "model.onnx")


def write_external(folder, location, offset, length):
    weight = T(name="w", data_type=T.FLOAT, dims=[2], data_location=T.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        weight.external_data.add(key=key, value=str(value))
    nodes = [h.make_node("Add", ["x", "w"], ["y"])]
    proto = files.model(nodes, [files.info("x", 2)], [files.info("y", 2)], [weight])
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
