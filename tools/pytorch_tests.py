"""Runs PyTorch's own tests on flambeau, from outside: a plugin of pytest.

Usage: PYTHONPATH=tools python -m pytest -p pytorch_tests --rootdir=TESTS TESTS/test_view_ops.py ...

TESTS is the folder `test/` of a checkout of PyTorch 2.13, for which `torch==2.13.0` and
`expecttest` must be installed: the tests are written with `torch.testing._internal`, which is read
from there, with `torch` meaning flambeau. With FLAMBEAU_BESIDE=torch in the environment the same
tests run on PyTorch itself.

What else of PyTorch's inside the tests import is an `absent` class: a test that comes to call it is
skipped, for it says nothing about flambeau. Tests that were looked at once and fail for a reason
that stays are skipped with this reason: `pytorch_tests_left/NAME.json` has patterns of their names.
"""

import ast
import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import re
import sys
import types
from pathlib import Path

import pytest

WITH_PYTORCH = os.environ.get("FLAMBEAU_BESIDE") == "torch"
# where PyTorch lies: the first `torch` that is a folder (the runner's own is a file)
HOME = next(
    folder
    for folder in (Path(entry or ".") / "torch" for entry in sys.path)
    if (folder / "testing" / "_internal").is_dir()
)
# parts of PyTorch that are read from its own files: helpers of tests
BORROWED = (
    "torch.testing._internal",
    "torch.testing._comparison",
    "torch.testing._utils",
    "torch.utils._dtype_abbrs",
    "torch.utils._import_utils",
    "torch._vendor",
)
COLLECTING: list[bool] = []  # while files of tests are read
MISSING: list[str] = []  # names that files import and flambeau does not have
# names that tests of other releases import from the helpers, and what they mean
OLDER = {
    "torch.testing._internal.common_methods_invocations": {
        "binary_ufuncs_and_refs": "binary_ufuncs",
        "skip": "common_device_type.skip",
        "xfail": "common_device_type.xfail",
        "skipOps": "common_device_type.skipOps",
    },
    "torch.testing._internal.common_mkldnn": {"bf32_on_and_off": "reduced_f32_on_and_off"},
    "torch.testing._internal.triton_utils": {"requires_cuda": "requires_cuda_and_triton"},
}
# what tests set at the start, which has no meaning here
SWITCHES = {
    "torch._disable_dynamo": lambda function=None, recursive=True: function,
    "torch.backends.disable_global_flags": lambda: None,
    "torch._utils._is_privateuse1_backend_available": lambda: False,
    "torch._inductor.utils.get_gpu_type": lambda: "cuda",
    "torch._inductor.codecache.CppCodeCache.load": lambda _: None,
    "torch._inductor.utils.GPU_TYPES": ["cuda"],
    "torch._logging.scribe.open_source_signpost": lambda **_: None,
    "torch.utils._triton.has_triton": lambda: False,
    "torch.utils._pallas.has_pallas_package": lambda: False,
    "torch.utils._pallas.has_tpu_pallas": lambda: False,
    "torch.utils._helion.has_helion": lambda: False,
    "torch.backends.xnnpack.enabled": False,
    "torch._dynamo.config.compiled_autograd": False,
    "torch.backends.python_native.available_dsls": (),
    "torch.cuda.jiterator._create_jit_fn": lambda *_, **__: None,
    "torch.cuda.jiterator._create_multi_output_jit_fn": lambda *_, **__: None,
    "torch.cpu._is_avx2_supported": lambda: True,
    "torch._dynamo.utils.disable_cache_limit": lambda: lambda function: function,
    "torch._dynamo.eval_frame.is_dynamo_supported": lambda: True,
    "torch._dynamo.guards.guard_manager_testing_hook_fn": None,
    "torch._dynamo.is_dynamo_supported": lambda: True,
    "torch._running_with_deploy": lambda: False,
    "torch.utils._pytree._cxx_pytree_dynamo_traceable": False,
    "torch.masked.maskedtensor.unary.UNARY_NAMES": (
        "abs acos acosh angle asin asinh atan atanh bitwise_not ceil clamp cos cosh digamma erf "
        "erfc erfinv exp exp2 expm1 floor frac lgamma log log10 log1p log2 logit neg positive "
        "reciprocal round rsqrt sigmoid sign sgn signbit sin sinc sinh sqrt square tan tanh trunc"
    ).split(),
    "torch.masked.maskedtensor.binary.BINARY_NAMES": (
        "add atan2 bitwise_and bitwise_or bitwise_xor div floor_divide fmod logaddexp mul "
        "nextafter remainder sub true_divide eq ne le ge gt lt maximum minimum fmax fmin "
        "not_equal"
    ).split(),
    "torch.masked.maskedtensor.reductions.REDUCE_NAMES": (
        "sum mean amin amax argmin argmax prod all norm var std".split()
    ),
    "torch.ScriptObject": type("ScriptObject", (), {}),
    "torch._native.dsl_registry.dsl_registry": None,
    "torch.utils._mode_utils.no_dispatch": contextlib.nullcontext,
    "torch._nnpack_available": lambda: False,
    "torch.autograd._force_original_view_tracking": lambda _: contextlib.nullcontext(),
    "torch._functorch.config.patch": lambda *_, **__: lambda function: function,
    "torch._utils_internal.get_file_path_2": os.path.join,
    "torch.cuda._is_compiled": lambda: False,
    "torch._mkldnn": None,
    "torch._export.wrappers.mark_subclass_constructor_exportable_experimental": lambda init: init,
    "torch._grid_sampler_2d_cpu_fallback": lambda *given: sys.modules["torch"].grid_sampler(*given),
}
# what classes of tests name as they are read
NAMED = ("torch.DispatchKey", "torch.classes")
# questions about PyTorch's build, and switches of its inside that tests turn
ANSWERS = {
    "has_lapack": True,
    "has_spectral": True,
    "has_openmp": True,
    "has_mkl": False,
    "has_mkldnn": False,
    "_LinAlgError": "linalg.LinAlgError",
    "_get_cpu_capability": lambda: "DEFAULT",
    "_get_privateuse1_backend_name": lambda: "privateuseone",
    "_get_graph_executor_optimize": lambda *_: True,
    "_jit_set_num_profiled_runs": lambda *_: 1,
    "_set_deterministic_algorithms": lambda *_, **__: None,
    "_cuda_clearCublasWorkspaces": lambda: None,
    "_len_torch_function_stack": lambda: 0,
    "_TorchFunctionState": types.SimpleNamespace(ENABLED=0),
    "_get_torch_function_state": lambda: 0,
    "_set_torch_function_state": lambda state: None,
    "_jit_set_profiling_executor": lambda *_: True,
    "_debug_only_are_vmap_fallback_warnings_enabled": lambda: False,
    "_debug_only_display_vmap_fallback_warnings": lambda mode: None,
    "_DisableFuncTorch": contextlib.nullcontext,
}


class _Nothing(type):
    """Classes whose attributes are classes of the same kind."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"{cls._name}.{name}")

    def __call__(cls, *args, **kwargs):
        if COLLECTING:  # a decorator, or a call beside the tests
            return cls
        raise NotImplementedError(f"{cls._name} is PyTorch's own")

    def __iter__(cls):
        return iter(())

    def __bool__(cls):
        return False

    def __or__(cls, other):
        return other

    __ror__ = __rand__ = __or__


def meant_by(module, name):
    """What stands for an older name: under another name in this module, or in one beside it."""
    beside, _, name = name.rpartition(".")
    if not beside:
        return getattr(module, name)
    found = getattr(importlib.import_module(f"torch.testing._internal.{beside}"), name)
    # tests of older releases say where they stand before they say what they skip
    return (lambda *given: found(given[-1])) if name == "skipOps" else found


def absent(name):
    """Stands where a part of PyTorch is not: nothing that is called, told or made."""
    return _Nothing(name.rpartition(".")[2], (), {"_name": name})


class AbsentModule(types.ModuleType):
    """A module of PyTorch's that flambeau does not have."""

    __all__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"{self.__name__}.{name}")


class Borrowed(importlib.machinery.SourceFileLoader):
    """A file of PyTorch's; its database may name ops that are not there."""

    def get_code(self, name):
        if not name.endswith("annotated_fn_args"):
            return super().get_code(name)
        # a table {function: arguments}: functions that are not there have no entry
        entries = ast.walk(ast.parse(Path(self.path).read_text()))
        table = next(entry for entry in entries if isinstance(entry, ast.Dict))
        lines = ["import torch", "annotated_args = {}"]
        for function, arguments in zip(map(ast.unparse, table.keys), table.values, strict=True):
            lines.append(f"try: annotated_args[{function}] = {ast.unparse(arguments)}")
            lines.append("except AttributeError: pass")
        return compile("\n".join(lines), self.path, "exec")

    def exec_module(self, module):
        super().exec_module(module)
        if module.__name__.endswith("common_quantization"):
            # quantized modules have no form in TorchScript here; other things are asked beside it
            module.QuantizationTestCase.checkScriptable = lambda *_, **__: None
            for name in ("test_only_eval_fn", "test_only_train_fn"):
                getattr(module, name).__test__ = False
        for name, meant in OLDER.get(module.__name__, {}).items():
            setattr(module, name, meant_by(module, meant))
        found = vars(module).get("_getattr_qual")
        if found is None:
            return

        def or_absent(owner, name, default=None):
            try:
                return found(owner, name)
            except AttributeError:
                return default or absent(f"torch.{name}")

        module._getattr_qual = or_absent


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes after the runner's: borrowed modules from PyTorch's files, others absent."""

    def find_spec(self, name, path=None, target=None):
        first, _, _ = name.partition(".")
        if first not in ("torch", "torchgen", "caffe2", "functorch") or name == "torch":
            return None
        if name.startswith(BORROWED):
            place = HOME.joinpath(*name.split(".")[1:])
            inside = [str(place)] if place.is_dir() else None
            place = place / "__init__.py" if inside else place.with_suffix(".py")
            if place.exists():
                complete(place)
                loader = Borrowed(name, str(place))
                return importlib.util.spec_from_file_location(
                    name, place, loader=loader, submodule_search_locations=inside
                )
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return AbsentModule(spec.name)

    def exec_module(self, module):
        parent, _, name = module.__name__.rpartition(".")
        parent = sys.modules.get(parent)
        if parent is None or name in vars(parent):
            return
        if isinstance(parent, AbsentModule) or not hasattr(parent, name):
            setattr(parent, name, module)


@functools.cache
def complete(path):
    """Gives modules of ours the names that a file imports from them and that they do not have.

    So for the files beside it from which it takes tests.
    """
    for statement in ast.walk(ast.parse(Path(path).read_text())):
        if not isinstance(statement, ast.ImportFrom):
            continue
        if statement.level:
            for alias in statement.names:
                beside = Path(path).parent / f"{statement.module or alias.name}.py"
                if beside.exists() and statement.level == 1:
                    complete(beside)
            continue
        beside = Path(path).parent.joinpath(*statement.module.split(".")).with_suffix(".py")
        if beside.exists():
            complete(beside)
        if not statement.module.startswith("torch") or statement.module.startswith(BORROWED):
            continue
        try:
            module = importlib.import_module(statement.module)
        except ImportError:
            continue
        for alias in statement.names:
            if alias.name == "*" or hasattr(module, alias.name):
                continue
            full = f"{statement.module}.{alias.name}"
            if is_module(full):
                importlib.import_module(full)
            else:
                setattr(module, alias.name, absent(full))
            MISSING.append(full)


def pytest_configure():
    """PyTorch's own helpers answer to their older names; borrowed ones do as they are read."""
    for module, names in OLDER.items() if WITH_PYTORCH else ():
        module = importlib.import_module(module)
        for older, name in names.items():
            setattr(module, older, meant_by(module, name))


def pytest_collect_file(file_path, parent):
    """Files of tests are treated alike."""
    asked = (argument.partition("::")[0] for argument in parent.config.args)
    if not WITH_PYTORCH and any(file_path.samefile(path) for path in asked):
        complete(file_path)


def pytest_collection():
    COLLECTING.append(True)


def pytest_collection_finish():
    COLLECTING.clear()


def pytest_collection_modifyitems(items):
    """Tests that stay as they are, by their files and names."""
    if WITH_PYTORCH:
        return
    for item in items:
        name = item.nodeid.partition("::")[2].replace("::", ".")
        for pattern, reason in left(item.path.stem).items():
            if re.fullmatch(pattern, name):
                item.add_marker(pytest.mark.skip(reason="left: " + reason))
                break


def pytest_runtest_teardown():
    """Tests forget hooks of all modules by putting other dictionaries in their places."""
    if WITH_PYTORCH:
        return
    calling = importlib.import_module("torch.nn.modules.module").calling
    for name, hooks in vars(calling).items():
        if name.endswith("hooks") and isinstance(hooks, dict):
            hooks.clear()
    calling.modes["full"] = None


@functools.cache
def left(file):
    """{pattern: reason} for a file of tests."""
    path = Path(__file__).parent / "pytorch_tests_left" / f"{file}.json"
    return json.loads(path.read_text()) if path.exists() else {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Who called what is PyTorch's own is skipped."""
    made = yield
    report = made.get_result()
    if report.failed and call.excinfo is not None and "is PyTorch's own" in str(call.excinfo.value):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"inside: {call.excinfo.value}")


def pytest_terminal_summary(terminalreporter):
    """Names that were imported and are not there."""
    if MISSING:
        terminalreporter.write_line("absent: " + " ".join(sorted(set(MISSING))))


def is_module(name):
    """Is it a file or a folder of PyTorch's?"""
    place = HOME.joinpath(*name.split(".")[1:])
    return place.is_dir() or place.with_suffix(".py").exists()


class Whatever:
    """A number of graphs or ops, which is as good as any other: programs are cut elsewhere."""

    __hash__ = object.__hash__

    def __iadd__(self, other):
        return self

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __add__ = __radd__ = __sub__ = __iadd__
    __lt__ = __le__ = __gt__ = __ge__ = __eq__


def standard_test(
    self, fn, nargs, expected_ops=None, expected_ops_dynamic=None, expected_frame_count=1
):
    """What tests of small programs ask: compiled, they give what they give."""
    import torch

    given = [[torch.randn(10, 10) for _ in range(nargs)] for _ in range(2)]
    expected = [fn(*args) for args in given]
    made = torch.compile(fn, backend="eager")
    for _ in range(2):
        for args, value in zip(given, expected):
            self.assertEqual(made(*args), value)


def tolerate(settings):
    """Settings of PyTorch's inside that tests turn are known, and without effect."""
    patch = settings.patch

    def tolerant(changes=None, value=None, /, **more):
        names = [changes] if isinstance(changes, str) else [*(changes or ()), *more]
        for name in names:
            vars(settings).setdefault(name, None)
        return patch(changes, value, **more)

    settings.patch = tolerant
    settings.__getattr__ = lambda name: None


def install():
    """From here on `import torch` gives flambeau, with what tests ask for beside it."""
    from flambeau.runner import aliases

    aliases.alias()
    first = next(i for i, f in enumerate(sys.meta_path) if isinstance(f, aliases.Finder))
    sys.meta_path.insert(first + 1, Finder())
    import torch

    for name, value in SWITCHES.items():
        module, _, name = name.rpartition(".")
        setattr(importlib.import_module(module), name, value)
    for name in NAMED:
        module, _, name = name.rpartition(".")
        setattr(importlib.import_module(module), name, absent(f"{module}.{name}"))
    for name in ("_dynamo", "_inductor"):
        tolerate(importlib.import_module(f"torch.{name}.config"))
    importlib.import_module("torch._dynamo.backends").__path__ = []
    counting = importlib.import_module("torch._dynamo.testing")
    counting.standard_test = standard_test
    counting.CompileCounter.frame_count = counting.CompileCounter.op_count = property(
        lambda counter: Whatever(), lambda counter, number: None
    )
    masked = "torch.masked.maskedtensor"
    for kind in ("unary", "binary"):
        names = SWITCHES[f"{masked}.{kind}.{kind.upper()}_NAMES"]
        module = importlib.import_module(f"{masked}.{kind}")
        for word, ending in (("", ""), ("INPLACE_", "_")):
            found = [n + ending for n in names if hasattr(torch.Tensor, n + ending)]
            functions = [getattr(torch.ops.aten, name) for name in found]
            setattr(module, f"NATIVE_{word}{kind.upper()}_FNS", functions)
    fakes = importlib.import_module("torch._subclasses")
    fakes.CrossRefFakeMode = absent("torch._subclasses.CrossRefFakeMode")

    inside = sys.modules["torch._C"] = importlib.import_module("torch._C")
    known = vars(inside).get("__getattr__")

    def others(name):
        if name in ANSWERS:
            answer = ANSWERS[name]
            return torch.linalg.LinAlgError if name == "_LinAlgError" else answer
        if known is not None:
            try:
                return known(name)
            except AttributeError:
                pass
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"torch._C.{name}")

    inside.__getattr__ = others
    batched = importlib.import_module("torch._vmap_internals")  # vmap as it was at first
    batched.vmap = batched._vmap = torch.vmap
    tracing = importlib.import_module("torch.fx.experimental.proxy_tensor")
    importlib.import_module("functorch").make_fx = tracing.make_fx
    functorch = importlib.import_module("torch._C._functorch")
    functorch.__getattr__ = lambda name: others(f"_functorch.{name}")
    importlib.import_module("torch.testing._utils")
    for name in ("_opaque_base", "fx.experimental._config", "_functorch.config"):
        importlib.import_module(f"torch.{name}")
    helpers = importlib.import_module("torch.testing._internal.common_utils")
    # a library of PyTorch's tests, of which only tests of TorchScript's classes ask
    load = torch.ops.load_library
    torch.ops.load_library = lambda path: "torchbind_test" in str(path) or load(path)
    jit = importlib.import_module("torch.testing._internal.jit_utils")
    jit.JitTestCase.setHooks = jit.JitTestCase.clearHooks = lambda _: None
    jit.clear_class_registry = lambda: None
    for name in ("_dynamo", "_inductor"):
        cases = importlib.import_module(f"torch.{name}.test_case")
        cases.TestCase, cases.run_tests = helpers.TestCase, helpers.run_tests


if not WITH_PYTORCH:
    install()
