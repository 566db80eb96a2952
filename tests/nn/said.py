"""What a library answers to a line of code: the text of a value, or the error and its words.

The cases of containers and modules are lines; they are run here and, to record or to compare, in
PyTorch. Numbers are rounded and names of the libraries are made equal.
"""

import re
import warnings

SETUP = """
nn = lib.nn
def x(*shape):
    return lib.arange(float(lib.Size(shape).numel())).reshape(shape) / 4
def p(*shape):
    return nn.Parameter(x(*shape))
"""


def run(lib, text, setup=""):
    """The value of the last expression of a few lines."""
    known = {"lib": lib}
    exec(SETUP, known)
    exec(setup, known)
    *before, last = text.split("; ")
    exec("\n".join(before), known)
    try:
        code = compile(last, "<case>", "eval")
    except SyntaxError:
        exec(last, known)
        return None
    return eval(code, known)


def said(lib, text, setup=""):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lib.manual_seed(3)
        try:
            answer = repr(run(lib, text, setup))
        except Exception as error:  # which one, and its words, is what is compared
            answer = f"{type(error).__name__}: {error.args[0] if error.args else ''}"
    told = [f"{w.category.__name__}: {w.message}" for w in caught]
    return plain("\n".join([answer, *told]))


def agree(got, want):
    """Equal, or the same error with a hint behind it."""
    return got == want or ("Error: " in want and got.startswith(want + "; "))


def plain(text):
    text = text.replace("flambeau", "torch").replace("torch._tensor.Tensor", "torch.Tensor")
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    return re.sub(r"\be-(0[6-9]|[1-9]\d)\b", "e-small", text)
