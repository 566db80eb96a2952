"""Record PyTorch's public names and their signatures, in public_names.json.

Run with PyTorch installed: python -m tests.golden.record_public_names. A name is public if the
module's `__all__` has it, or, where there is none, if it is a documented class or function that
PyTorch defines. Signatures are what `inspect` says; builtins have none, theirs are read from the
stubs that PyTorch installs for editors, one text per overload.
"""

import ast
import importlib
import inspect
import json
import warnings
from pathlib import Path

import torch

# The namespaces of PyTorch's documentation.
MODULES = """
torch torch.accelerator torch.amp torch.ao.nn.intrinsic torch.ao.nn.intrinsic.qat
torch.ao.nn.intrinsic.quantized torch.ao.nn.qat torch.ao.nn.quantizable torch.ao.nn.quantized
torch.ao.nn.quantized.dynamic torch.ao.nn.quantized.functional torch.ao.quantization
torch.ao.quantization.backend_config torch.ao.quantization.fake_quantize
torch.ao.quantization.observer torch.ao.quantization.qconfig torch.ao.quantization.qconfig_mapping
torch.autograd torch.autograd.forward_ad torch.autograd.function torch.autograd.functional
torch.autograd.grad_mode torch.autograd.gradcheck torch.autograd.graph torch.autograd.profiler
torch.backends.cpu torch.backends.cuda torch.backends.cudnn torch.backends.mha torch.backends.mkl
torch.backends.mkldnn torch.backends.mps torch.backends.nnpack torch.backends.openmp
torch.backends.opt_einsum torch.compiler torch.cpu torch.cuda torch.cuda.amp torch.cuda.comm
torch.cuda.gds torch.cuda.memory torch.cuda.nvtx torch.cuda.random torch.cuda.tunable
torch.distributed torch.distributed.algorithms.join torch.distributed.autograd
torch.distributed.checkpoint torch.distributed.checkpoint.state_dict torch.distributed.device_mesh
torch.distributed.fsdp torch.distributed.optim torch.distributed.pipelining torch.distributed.rpc
torch.distributed.tensor torch.distributed.tensor.debug torch.distributed.tensor.experimental
torch.distributed.tensor.parallel torch.distributions torch.distributions.constraint_registry
torch.distributions.constraints torch.distributions.kl torch.distributions.transforms torch.export
torch.export.dynamic_shapes torch.export.exported_program torch.export.graph_signature
torch.export.unflatten torch.fft torch.func torch.futures torch.fx
torch.fx.experimental.symbolic_shapes torch.hub torch.jit torch.library torch.linalg torch.masked
torch.monitor torch.mps torch.mps.profiler torch.mtia torch.multiprocessing torch.nested torch.nn
torch.nn.attention torch.nn.attention.bias torch.nn.attention.flex_attention torch.nn.functional
torch.nn.init torch.nn.parallel torch.nn.utils torch.nn.utils.parametrizations
torch.nn.utils.parametrize torch.nn.utils.prune torch.nn.utils.rnn torch.nn.utils.stateless
torch.onnx torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.overrides torch.package
torch.profiler torch.profiler.itt torch.quasirandom torch.random torch.serialization
torch.signal.windows torch.sparse torch.special torch.storage torch.testing torch.utils
torch.utils.benchmark torch.utils.checkpoint torch.utils.cpp_extension torch.utils.data
torch.utils.data.distributed torch.utils.deterministic torch.utils.dlpack torch.utils.hooks
torch.utils.mobile_optimizer torch.utils.model_zoo torch.utils.module_tracker
torch.utils.tensorboard torch.xpu torch.__config__ torch.__future__
""".split()
STUBS = {
    "torch": "_VariableFunctions.pyi",
    "torch.nn.functional": "_nn.pyi",
    "torch.Tensor": "__init__.pyi",
}
FOREIGN = ("Tensor", "boolean_dispatch", "assert_int_or_pair")  # tools of nn.functional's own file


def text(arguments):
    """The signature of a definition in a stub, without types."""
    plain, tail = [], len(arguments.args) + len(arguments.posonlyargs) - len(arguments.defaults)
    for k, a in enumerate([*arguments.posonlyargs, *arguments.args]):
        default = f"={ast.unparse(arguments.defaults[k - tail])}" if k >= tail else ""
        plain.append(a.arg + default)
        if k + 1 == len(arguments.posonlyargs):
            plain.append("/")
    if arguments.vararg:
        plain.append("*" + arguments.vararg.arg)
    elif arguments.kwonlyargs:
        plain.append("*")
    for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        plain.append(a.arg + (f"={ast.unparse(d)}" if d else ""))
    if arguments.kwarg:
        plain.append("**" + arguments.kwarg.arg)
    return f"({', '.join(plain)})"


def in_stub(file, of_class=None):
    """name -> signatures of the functions in one of PyTorch's stubs."""
    tree = ast.parse((Path(torch.__file__).parent / "_C" / file).read_text())
    body = tree.body
    if of_class:
        body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == of_class).body
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(text(node.args))
    return found


def shown(value):
    """inspect's signature without types; defaults that are objects as the name of their type."""
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):
        return None
    plain = []
    for p in signature.parameters.values():
        default = p.default
        if default is not p.empty and "<" in repr(default):
            default = type(default).__name__
        plain.append(p.replace(annotation=p.empty, default=default))
    return str(inspect.Signature(plain))


def signatures(value, name, stub):
    if not callable(value) or isinstance(value, torch.dtype):
        return []
    found = stub.get(name) or []
    said = None if inspect.isbuiltin(value) or inspect.ismethoddescriptor(value) else shown(value)
    return [said] if said else found


def public(module):
    """Names of a module, sorted."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        listed = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and (inspect.isclass(value) or callable(value))
            and (getattr(value, "__module__", None) or "").startswith("torch")
            and getattr(value, "__doc__", None)
            and not name.startswith(("handle_torch", "has_torch"))
            and name not in FOREIGN
        ]
    if module is torch:  # its __all__ also has what is bound for PyTorch's own use
        listed = [n for n in listed if is_documented(getattr(module, n, None))]
    return sorted(set(listed))


def is_documented(value):
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format, torch.qscheme, float)):
        return True
    own = inspect.getdoc(value) if not inspect.isclass(value) else vars(value).get("__doc__")
    return bool(own) and not inspect.ismodule(value)


def recorded():
    found = {}
    for path in MODULES:
        module = importlib.import_module(path)
        stub = in_stub(STUBS[path]) if path in STUBS else {}
        names = {
            name: signatures(getattr(module, name, None), name, stub) for name in public(module)
        }
        found[path] = names
    stub = in_stub(STUBS["torch.Tensor"], "TensorBase")
    found["torch.Tensor"] = {
        name: signatures(getattr(torch.Tensor, name), name, stub)
        for name in sorted(dir(torch.Tensor))
        if not name.startswith("_") and name not in dir(object)
    }
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    lines = []
    for path, names in recorded().items():
        rows = ",\n".join(f"{json.dumps(n)}: {json.dumps(s)}" for n, s in names.items())
        lines.append(f"{json.dumps(path)}: {{\n{rows}\n}}")
    record = f'{{"torch": "{torch.__version__}",\n"modules": {{\n' + ",\n".join(lines) + "\n}}\n"
    Path(__file__).with_name("public_names.json").write_text(record)
