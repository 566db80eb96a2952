"""Small ONNX models for the importer, and damage that is done to them."""

import random

import numpy as np
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

RNG = np.random.default_rng(0)


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def weights(name, *shape):
    return tensor(name, RNG.normal(size=shape).astype(np.float32))


def info(name, *sizes, kind=T.FLOAT):
    return h.make_tensor_value_info(name, kind, sizes)


def model(nodes, inputs, outputs, initializers=(), version=17, **options):
    graph = h.make_graph(nodes, "graph", inputs, outputs, list(initializers))
    opsets = [h.make_opsetid("", version), *options.pop("opsets", [])]
    return h.make_model(graph, opset_imports=opsets, ir_version=8, **options)


def network():
    """A convolution and a linear layer with arithmetic of sizes between them."""
    nodes = [
        h.make_node("Conv", ["x", "features.0.weight", "features.0.bias"], ["c"]),
        h.make_node("Relu", ["c"], ["r"]),
        h.make_node("Shape", ["r"], ["s"]),
        h.make_node("Gather", ["s", "zero"], ["n"]),
        h.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
        h.make_node("Concat", ["n1", "rest"], ["sizes"], axis=0),
        h.make_node("Reshape", ["r", "sizes"], ["f"]),
        h.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["y"], transB=1),
    ]
    initializers = [
        weights("features.0.weight", 4, 3, 3, 3),
        weights("features.0.bias", 4),
        weights("fc.weight", 5, 144),
        weights("fc.bias", 5),
        tensor("zero", np.array(0)),
        tensor("axis", np.array([0])),
        tensor("rest", np.array([-1])),
    ]
    return model(nodes, [info("x", "N", 3, 8, 8)], [info("y", "N", 5)], initializers)


def branches():
    """If, with branches that read from around them."""
    then = h.make_graph([h.make_node("Add", ["x", "one"], ["t"])], "then", [], [info("t", 2)])
    other = h.make_graph([h.make_node("Mul", ["x", "x"], ["o"])], "else", [], [info("o", 2)])
    nodes = [
        h.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        h.make_node("Greater", ["sum", "one"], ["large"]),
        h.make_node("If", ["large"], ["y"], then_branch=then, else_branch=other),
    ]
    return model(nodes, [info("x", 2)], [info("y", 2)], [tensor("one", np.float32(1))])


def loops():
    """Loop: powers of x until five steps are done, all of them collected."""
    body = h.make_graph(
        [
            h.make_node("Mul", ["v", "x"], ["w"]),
            h.make_node("Identity", ["go"], ["on"]),
            h.make_node("Identity", ["w"], ["each"]),
        ],
        "body",
        [info("i", kind=T.INT64), info("go", kind=T.BOOL), info("v", 2)],
        [info("on", kind=T.BOOL), info("w", 2), info("each", 2)],
    )
    nodes = [h.make_node("Loop", ["count", "", "x"], ["last", "all"], body=body)]
    return model(
        nodes, [info("x", 2)], [info("last", 2), info("all", 5, 2)], [tensor("count", np.array(5))]
    )


def functions():
    """A function of the model with an attribute, called twice."""
    scale = h.make_node("Mul", ["a", "f"], ["b"])
    factor = h.make_node("Constant", [], ["f"])
    factor.attribute.add(name="value_float", ref_attr_name="factor", type=1)
    function = h.make_function(
        "own", "Scaled", ["a"], ["b"], [factor, scale], [h.make_opsetid("", 17)], ["factor"]
    )
    nodes = [
        h.make_node("Scaled", ["x"], ["t"], domain="own", factor=2.0),
        h.make_node("Scaled", ["t"], ["y"], domain="own", factor=5.0),
    ]
    return model(
        nodes,
        [info("x", 2)],
        [info("y", 2)],
        functions=[function],
        opsets=[h.make_opsetid("own", 1)],
    )


def mutated(seed, originals):
    """One of the models with a few bytes, fields or lengths changed."""
    draw = random.Random(seed)
    data = bytearray(draw.choice(originals))
    kind = draw.randrange(5)
    if kind == 0:
        return bytes(data[: draw.randrange(len(data))])
    if kind == 1:
        start = draw.randrange(len(data))
        del data[start : start + draw.randrange(1, 20)]
    elif kind == 2:
        start = draw.randrange(len(data))
        data[start:start] = draw.randbytes(draw.randrange(1, 20))
    else:
        for _ in range(draw.randrange(1, 9)):
            data[draw.randrange(len(data))] = draw.choice(
                [0, 1, 127, 128, 255, draw.randrange(256)]
            )
    return bytes(data)
