"""`python -m flambeau.onnx.conformance`: ONNX's own backend tests, and the share that passes.

python -m flambeau.onnx.conformance                       # all tests whose data are in the wheel
python -m flambeau.onnx.conformance --filter resize       # those with a name like this
python -m flambeau.onnx.conformance --against onnxruntime # also what onnxruntime passes
"""

import argparse
import glob
import os
import sys
import time
import warnings
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from flambeau.onnx.backend import FlambeauBackend, wanted
from flambeau.onnx.protobufs import onnx

# `real` comes beside these: its data have to be made.
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


class Case(NamedTuple):
    """A model with inputs and the outputs that it should give."""

    name: str
    model: Any
    sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


def cases(pattern: str = "", every: int = 1, kinds: tuple[str, ...] = KINDS) -> list[Case]:
    """The tests of the wheel; `every` picks some of them evenly."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        tests = [test for kind in kinds for test in load_model_tests(kind=kind)]
        tests = [test for test in tests if pattern in test.name]
        return [case_of(test) for test in tests[::every]]


def light_cases(pattern: str = "") -> list[Case]:
    """Whole networks with weights that are all alike, as the wheel has them."""
    from onnx.backend.test import loader, runner

    found = []
    for test in loader.load_model_tests(kind="real"):
        path = os.path.join(os.path.dirname(onnx.__file__), "..", str(test.url))
        if pattern in test.name and os.path.exists(path):
            model = onnx.load(path)
            weights = {tensor.name for tensor in model.graph.initializer}
            inputs = [
                runner.Runner.generate_dummy_data(value, seed=0, name=test.name, random=False)
                for value in model.graph.input
                if value.name not in weights
            ]
            answer = onnx.TensorProto()
            with open(path.replace(".onnx", "_output_0.pb"), "rb") as file:
                answer.ParseFromString(file.read())
            found.append(Case(test.name, model, [(inputs, [answer])], test.rtol, test.atol))
    return found


def case_of(test: Any) -> Case:
    if test.model is not None:
        return Case(test.name, test.model, test.data_sets, test.rtol, test.atol)
    model = onnx.load(os.path.join(str(test.model_dir), "model.onnx"))
    folders = sorted(glob.glob(os.path.join(test.model_dir, "test_data_set_*")))
    sets = [
        (stored(folder, "input", model.graph.input), stored(folder, "output", model.graph.output))
        for folder in folders
    ]
    return Case(test.name, model, sets, test.rtol, test.atol)


def stored(folder: str, kind: str, values: Any) -> list[Any]:
    """Inputs or outputs of a test that lie in files."""
    readers = {
        "sequence_type": (onnx.SequenceProto, onnx.numpy_helper.to_list),
        "optional_type": (onnx.OptionalProto, onnx.numpy_helper.to_optional),
    }
    found = []
    for position, value in enumerate(values):
        path = os.path.join(folder, f"{kind}_{position}.pb")
        if not os.path.exists(path):
            break
        which = value.type.WhichOneof("value")
        proto, convert = readers.get(which, (onnx.TensorProto, onnx.numpy_helper.to_array))
        message = proto()
        with open(path, "rb") as file:
            message.ParseFromString(file.read())
        found.append(convert(message))
    return found


def plain(value: Any) -> Any:
    """Inputs and outputs of tests come as arrays, scalars and protobufs."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value if value is None or isinstance(value, np.ndarray) else np.asarray(value)


def assert_same(expected: Any, found: Any, rtol: float, atol: float) -> None:
    """Shapes, dtypes and elements agree."""
    if expected is None or found is None:
        assert expected is found, "an optional is empty on one side only"
        return
    if isinstance(expected, list):
        assert len(expected) == len(found), f"{len(found)} values instead of {len(expected)}"
        for left, right in zip(expected, found):
            assert_same(left, right, rtol, atol)
        return
    found = np.asarray(found)
    assert expected.shape == found.shape, f"shape {found.shape} instead of {expected.shape}"
    if expected.dtype.kind in "OUS":
        assert expected.astype(str).tolist() == found.astype(str).tolist(), "texts differ"
        return
    assert expected.dtype == found.dtype, f"dtype {found.dtype} instead of {expected.dtype}"
    if expected.dtype.kind not in "biufc":
        # Types that only NumPy's extension knows are compared as numbers.
        expected, found = expected.astype(np.float32), found.astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def outcome(case: Case, run: Any) -> str:
    """Empty if the test passes, else the reason why not."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for inputs, outputs in case.sets:
                found = run(case.model, [plain(value) for value in inputs])
                for expected, value in zip(outputs, found, strict=True):
                    assert_same(plain(expected), value, case.rtol, case.atol)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {' '.join(lines[:4])}"[:160]
    return ""


def by_flambeau(model: Any, inputs: list[Any]) -> list[Any]:
    return [wanted(value) for value in FlambeauBackend.run_model(model, inputs)]


def by_onnxruntime(model: Any, inputs: list[Any]) -> list[Any]:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs)))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m flambeau.onnx.conformance")
    parser.add_argument("--filter", default="", help="only tests with this in their name")
    parser.add_argument("--kind", choices=[*KINDS, "real"], help="only tests of this kind")
    parser.add_argument("--every", type=int, default=1, help="only every n-th test")
    parser.add_argument("--against", choices=["onnxruntime"], help="compare with another backend")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    kinds = KINDS if options.kind is None else (options.kind,)
    chosen = cases(options.filter, options.every, tuple(k for k in kinds if k in KINDS))
    if options.kind in (None, "real"):
        chosen += light_cases(options.filter)
    ours = {case.name: outcome(case, by_flambeau) for case in chosen}
    for name, reason in ours.items():
        if reason:
            print(f"{name}: {reason}")
    print(share("flambeau", ours), f"({time.perf_counter() - start:.0f} s)")
    if options.against:
        theirs = {case.name: outcome(case, by_onnxruntime) for case in chosen}
        print(share(options.against, theirs))
        both = Counter(not ours[name] for name, reason in theirs.items() if not reason)
        total = both[True] + both[False]
        print(
            f"of those that {options.against} passes: {both[True]} of {total} "
            f"({100 * both[True] / max(1, total):.1f} %)"
        )
        for name, reason in ours.items():
            if reason and not theirs[name]:
                print(f"  only {options.against}: {name}")
    return 0


def share(label: str, outcomes: dict[str, str]) -> str:
    passed = sum(not reason for reason in outcomes.values())
    return (
        f"{label}: {passed} of {len(outcomes)} pass ({100 * passed / max(1, len(outcomes)):.1f} %)"
    )


if __name__ == "__main__":
    sys.exit(main())
