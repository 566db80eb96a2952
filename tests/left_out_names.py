"""Public names of PyTorch that flambeau does not have, each with the reason.

A key is a module, or `module: pattern` for some of its names; `test_public_names.py` reads it.
"""

CPP = "it builds or calls C++, of which there is none here"
DEVICE = "it speaks of a device that is not supported"
GPU_TOOLS = "a tool of NVIDIA's or AMD's libraries that is not called from here"
TORCHSCRIPT = "an object of TorchScript's C++ side; scripts are Python objects here"
RPC = "remote calls: the processes of a job only share collectives"
SYMBOLS = "PyTorch's symbolic shapes are SymPy expressions; sizes are traced otherwise here"
DISPATCHER = "PyTorch's dispatcher, which has no counterpart: rows are called directly"

LEFT_OUT = {
    "torch: AVG|SUM|AggregationType": "numbers that nothing of PyTorch's takes",
    "torch: DispatchKey": DISPATCHER,
    "torch: ScriptClass|import_ir_.*|merge_type_.*|parse_.*|unify_type_list": TORCHSCRIPT,
    "torch: bit|bits.*": "dtypes without kernels",
    "torch: col_indices_copy|crow_indices_copy|indices_copy|values_copy":
        "copies of views that only PyTorch's own compiler asks for",
    "torch.accelerator: Graph|empty_host_cache": DEVICE,
    "torch.ao.quantization: .*_jit|script_qconfig.*": "graphs of TorchScript that are rewritten; "
        "scripts are Python objects here: quantize a module, then script it",
    "torch.ao.quantization: get_default_.*(reference|sparse).*": "there are no modules of "
        "reference patterns, and none of sparse weights",
    "torch.autograd: NestedIOFunction": "names from before PyTorch 1.0",
    "torch.autograd.function: NestedIOFunction": "names from before PyTorch 1.0",
    "torch.autograd: enforce_grad_layout_policy": "gradients have the layout of their tensors",
    "torch.autograd.grad_mode: enforce_grad_layout_policy":
        "gradients have the layout of their tensors",
    "torch.autograd.gradcheck: get_.*_jacobian.*": "deprecated, in favour of gradcheck itself",
    "torch.autograd.graph: region_activation_memory_budget|set_.*": DEVICE,
    "torch.backends.cuda": GPU_TOOLS,
    "torch.backends.mkl: verbose": "MKL is not used",
    "torch.backends.mps": DEVICE,
    "torch.compiler: load_.*|save_.*": "kernels are kept in one cache on disk; there is no "
        "file of compiled functions to carry around",
    "torch.cuda: CUDAPluggableAllocator|change_current_allocator|GreenContext": CPP,
    "torch.cuda: jiterator|nccl|tunable": GPU_TOOLS,
    "torch.cuda.gds": GPU_TOOLS,
    "torch.cuda.memory": CPP,
    "torch.cuda.tunable": GPU_TOOLS,
    "torch.distributed: BuiltinCommHookType|GroupName|breakpoint|record_comm|shrink_group":
        "hooks of PyTorch's C++ reducer and tools around NCCL",
    "torch.distributed.checkpoint: .*HuggingFace.*|load_sharded_.*": "a format of another library",
    "torch.distributed.checkpoint.state_dict: .*Type|FQNS_T": "names of type annotations",
    "torch.distributed.optim": RPC,
    "torch.distributed.rpc": RPC,
    "torch.distributed.tensor.debug": "it counts the dispatcher's ops for collectives, of which "
        "there are none, or draws through another library",
    "torch.distributed.tensor.experimental: context_parallel|register_sharding": "experimental: "
        "they put rules of a program in the place of the dispatcher's",
    "torch.export: CustomDecompTable": "decompositions are a plain dictionary",
    "torch.export.dynamic_shapes: refine_.*": SYMBOLS,
    "torch.export.unflatten: InterpreterModuleDispatcher": "each call of a module has a module of "
        "its own (name@1), so none has to choose between several graphs",
    "torch.fx.experimental.symbolic_shapes": SYMBOLS,
    "torch.library": DISPATCHER,
    "torch.nn.functional: scaled_grouped_mm": "products of float8 in groups, which PyTorch has "
        "on GPUs only",
    "torch.onnx": "parts of an exporter that PyTorch is about to remove",
    "torch.sparse": "sparse matrices of NVIDIA's tensor cores, and a solver of its libraries",
    "torch.utils: ThroughputBenchmark|get_cpp_backtrace": CPP,
    "torch.utils: generate_methods_.*|rename_privateuse1_backend":
        "for devices that are added to PyTorch from outside",
    "torch.utils.benchmark: CallgrindStats|CopyIfCallgrind|FunctionCounts?": "they count "
        "instructions through valgrind and a C++ extension",
    "torch.utils.cpp_extension": CPP,
    "torch.utils.deterministic": "memory is never left as it was by a kernel",
    "torch.utils.hooks: BackwardHook": "how PyTorch's modules do it inside",
    "torch.utils.mobile_optimizer": "TorchScript on phones",
    "torch.Tensor: index|slice_inverse": "bound by PyTorch for its compiler",
    "torch.Tensor: to_mkldnn": "there is one layout of dense tensors",
}  # fmt: skip


def reasons(module):
    """[(pattern, reason)] of the names of a module."""
    found = []
    for key, reason in LEFT_OUT.items():
        path, _, pattern = key.partition(": ")
        if path == module:
            found.append((pattern or ".*", reason))
    return found
