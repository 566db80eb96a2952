"""`torch._logging`: which parts of the compiler are to be heard; none says anything here."""

import logging
from typing import Any

__all__ = ["set_logs"]

_ARTIFACTS = frozenset(
    "aot aot_graphs aot_joint_graph autotuning benchmarking bytecode cudagraphs "
    "compiled_autograd compiled_autograd_verbose custom_format_test_artifact ddp_graphs dist c10d "
    "ddp fsdp dtensor dynamic dynamo export fusion graph graph_breaks graph_code graph_sizes "
    "guards hierarchical_compile inductor inductor_metrics kernel_code loop_ordering onnx "
    "onnx_diagnostics output_code overlap perf_hints post_grad_graphs pre_grad_graphs recompiles "
    "recompiles_verbose schedule side_effects sym_node torch trace_bytecode trace_call "
    "trace_source verbose_guards all modules".split()
)


def set_logs(**levels: Any) -> None:
    """Checks what it is given: names of parts, with a level or a bool."""
    for name, level in levels.items():
        if name not in _ARTIFACTS:
            raise ValueError(f"Unrecognized log or artifact name passed to set_logs: {name}")
        if name == "modules":
            continue
        if not isinstance(level, bool) and level not in logging._levelToName:
            raise ValueError(f"Unrecognized log level for log {name}: {level}")
