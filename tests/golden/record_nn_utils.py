"""Record what PyTorch gives for tests/nn/utils_scenarios.py, and the signatures of torch.nn.utils.

python -m tests.golden.record_nn_utils
"""

import importlib
import inspect
import json
from pathlib import Path

from tests.nn.utils_scenarios import SCENARIOS, run

HERE = Path(__file__).parent
MODULES = (
    "clip_grad convert_parameters fusion init memory_format parametrizations parametrize prune "
    "spectral_norm stateless weight_norm"
).split()


def parameters(function):
    """Names, kinds and defaults."""
    found = inspect.signature(function).parameters.values()
    return [[p.name, int(p.kind), None if p.default is p.empty else repr(p.default)] for p in found]


def signatures(package):
    """Public functions, classes and their methods, by path."""
    found = {}
    for name in MODULES:
        module = importlib.import_module(f"{package}.nn.utils.{name}")
        for key, value in vars(module).items():
            if key.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            if inspect.isclass(value):
                found[f"{name}.{key}"] = parameters(value)
                for method in vars(value):
                    if not method.startswith("_") and callable(getattr(value, method)):
                        found[f"{name}.{key}.{method}"] = parameters(getattr(value, method))
            elif inspect.isfunction(value):
                found[f"{name}.{key}"] = parameters(value)
    return found


def main():
    import torch
    import torch.nn.utils.prune

    results = {name: run(name, torch) for name in SCENARIOS}
    with open(HERE / "nn_utils.json", "w") as file:
        json.dump(results, file, separators=(",", ":"))
    listed = {"all": sorted(torch.nn.utils.__all__), "functions": signatures("torch")}
    with open(HERE / "nn_utils_signatures.json", "w") as file:
        json.dump(listed, file, indent=0)


if __name__ == "__main__":
    main()
