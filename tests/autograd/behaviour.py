"""Short programs about autograd, run under PyTorch and under flambeau, and what came of them.

A case is a function of the package (`torch` or flambeau); what it returns is turned into plain data
by `plain`. Each test file gathers its cases in a `Cases`; what PyTorch gives is recorded in
tests/golden/engine.json (record_engine.py), so that the tests need no PyTorch to run, and a test
marked `oracle` keeps the record true.
"""

import json
import math
import pathlib
import re
import warnings

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/engine.json"


class Cases:
    """The cases of one test file, by name."""

    def __init__(self, topic):
        self.topic, self.found = topic, {}

    def __call__(self, function):
        self.found[function.__name__] = function
        return function

    def names(self):
        return list(self.found)

    def recorded(self, name):
        return json.loads(GOLDEN.read_text())[self.topic][name]

    def check(self, torch, name):
        ours = outcome(torch, self.found[name])
        theirs = self.recorded(name)
        assert agree(ours, theirs), f"\nfound    {ours}\nrecorded {theirs}"


def sentence(text):
    """The first sentence of a message, without C++ extras, addresses and numbered class names."""
    text = re.split(r"\n|(?<=[a-z)\]'\"])\. |; ", str(text).strip(), maxsplit=1)[0]
    text = re.sub(r"(invalid combination of arguments) - got.*", r"\1", text)
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    return text.rstrip(". ").replace("flambeau", "torch")


def attempt(function, *args, **kwargs):
    """What a call gives, or its complaint."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        kind = type(error)
        name = kind.__name__ if kind.__module__ == "builtins" else kind.__mro__[1].__name__
        return f"{name}: {sentence(error)}"


def name_of(node):
    return None if node is None else node.name()


def plain(value):
    """Plain data: tensors as dtype, shape and numbers, nodes as names."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "next_functions"):
        return value.name()
    if hasattr(value, "requires_grad"):
        mark = "" if not value.requires_grad else " leaf" if value.is_leaf else " history"
        text = f"{str(value.dtype).split('.')[-1]} {list(value.shape)}{mark}"
        return [text, plain(value.detach().tolist())]
    return sentence(value)


def outcome(torch, function):
    """What a case gives under a package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(function(torch))
        finally:
            torch.set_grad_enabled(True)


def agree(ours, theirs, tolerance=2e-5):
    """The same structure and texts, numbers nearly."""
    if isinstance(theirs, dict):
        return (
            isinstance(ours, dict)
            and ours.keys() == theirs.keys()
            and all(agree(ours[k], theirs[k], tolerance) for k in theirs)
        )
    if isinstance(theirs, list):
        return (
            isinstance(ours, list)
            and len(ours) == len(theirs)
            and all(agree(a, b, tolerance) for a, b in zip(ours, theirs))
        )
    if isinstance(theirs, float) and isinstance(ours, float):
        return math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=tolerance)
    return type(ours) is type(theirs) and ours == theirs
