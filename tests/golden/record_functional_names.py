"""Record the functions of PyTorch's nn.functional and their parameters, in functional_names.json.

Run with PyTorch installed: python -m tests.golden.record_functional_names. Builtins have no
signature of their own; `torch.overrides` lists one for most of them, and TOLD says what it has
differently from what calls show.
"""

import inspect
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.overrides import get_testing_overrides

# typing words and tools of PyTorch's own files
FOREIGN = set(
    "Callable DType Optional Tensor assert_int_or_pair boolean_dispatch handle_torch_function "
    "has_torch_function has_torch_function_unary has_torch_function_variadic".split()
)

TOLD = {
    "gelu": "lambda input, *, approximate='none': 0",
    "max_pool3d": "lambda input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, "
    "return_indices=False: 0",
    "one_hot": "lambda input, num_classes=-1: 0",
    "scaled_dot_product_attention": "lambda query, key, value, attn_mask=None, dropout_p=0.0, "
    "is_causal=False, *, scale=None, enable_gqa=False: 0",
}


def parameters(name):
    """[[name, how it is given, default as text]], or None where nothing tells."""
    function = getattr(F, name)
    told_here = eval(TOLD[name]) if name in TOLD else None
    for told in (told_here, function, get_testing_overrides().get(function)):
        if told is None:
            continue
        try:
            listed = list(inspect.signature(told).parameters.values())
        except ValueError:
            continue
        if not any(p.kind is p.VAR_POSITIONAL for p in listed):
            return [
                [
                    p.name,
                    "keyword" if p.kind is p.KEYWORD_ONLY else "any",
                    None if p.default is p.empty else repr(p.default),
                ]
                for p in listed
            ]
    return None


if __name__ == "__main__":
    found = {
        name: parameters(name)
        for name in sorted(dir(F))
        if not name.startswith("_") and callable(getattr(F, name)) and name not in FOREIGN
    }
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())
    text = f'{{"torch": "{torch.__version__}",\n"functions": {{\n{rows}\n}}}}\n'
    Path(__file__).with_name("functional_names.json").write_text(text)
