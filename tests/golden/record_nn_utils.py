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


# training tools elsewhere
OTHERS = (
    "utils.checkpoint.checkpoint utils.checkpoint.checkpoint_sequential "
    "utils.checkpoint.set_checkpoint_early_stop utils.checkpoint.set_checkpoint_debug_enabled "
    "utils.checkpoint.detach_variable utils.checkpoint.check_backward_validity "
    "amp.autocast amp.autocast.__call__ amp.custom_fwd amp.custom_bwd amp.is_autocast_available "
    "amp.GradScaler amp.GradScaler.scale amp.GradScaler.unscale_ amp.GradScaler.step "
    "amp.GradScaler.update amp.GradScaler.set_growth_factor amp.GradScaler.load_state_dict "
    "cuda.amp.GradScaler cuda.amp.autocast cpu.amp.autocast func.functional_call "
    "func.stack_module_state nn.DataParallel nn.parallel.data_parallel"
).split()


def parameters(function):
    """Names, kinds and defaults."""
    return [
        [p.name, int(p.kind), None if p.default is p.empty else said(p.default)]
        for p in inspect.signature(function).parameters.values()
    ]


def said(value):
    return value.__name__ if inspect.isfunction(value) else repr(value)


def look_up(library, path):
    for name in path.split("."):
        library = getattr(library, name)
    return library


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
    import torch.utils.checkpoint

    results = {name: run(name, torch) for name in SCENARIOS}
    with open(HERE / "nn_utils.json", "w") as file:
        json.dump(results, file, separators=(",", ":"))
    listed = {"all": sorted(torch.nn.utils.__all__), "functions": signatures("torch")}
    listed["others"] = {path: parameters(look_up(torch, path)) for path in OTHERS}
    with open(HERE / "nn_utils_signatures.json", "w") as file:
        json.dump(listed, file, indent=0)


if __name__ == "__main__":
    main()
