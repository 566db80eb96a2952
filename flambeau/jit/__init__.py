"""`torch.jit`: programs that are compiled from source or recorded, saved, loaded and run.

`script` compiles functions, classes and modules (compiling.py, statements.py, expressions.py) to
graphs (ir.py); graphs are written as code (texts.py) and run as Python (running.py). The page
docs/jit.md tells how to use it, docs/design/012-jit.md how it is built.
"""

from typing import Final as Final

from flambeau.jit import annotations as annotations
from flambeau.jit import frontend as frontend
from flambeau.jit.archives import load as load
from flambeau.jit.archives import save as save
from flambeau.jit.classes import RecursiveScriptClass as RecursiveScriptClass
from flambeau.jit.compilation_units import CompilationUnit as CompilationUnit
from flambeau.jit.freezing import freeze as freeze
from flambeau.jit.freezing import optimize_for_inference as optimize_for_inference
from flambeau.jit.freezing import run_frozen_optimizations as run_frozen_optimizations
from flambeau.jit.functions import ScriptFunction as ScriptFunction
from flambeau.jit.futures import Future as Future
from flambeau.jit.futures import fork as fork
from flambeau.jit.futures import wait as wait
from flambeau.jit.marks import Attribute as Attribute
from flambeau.jit.marks import _overload as _overload
from flambeau.jit.marks import _overload_method as _overload_method
from flambeau.jit.marks import annotate as annotate
from flambeau.jit.marks import export as export
from flambeau.jit.marks import ignore as ignore
from flambeau.jit.marks import interface as interface
from flambeau.jit.marks import is_scripting as is_scripting
from flambeau.jit.marks import is_tracing as is_tracing
from flambeau.jit.marks import isinstance_ as isinstance  # noqa: F401
from flambeau.jit.marks import script_if_tracing as script_if_tracing
from flambeau.jit.marks import script_method as script_method
from flambeau.jit.marks import unused as unused
from flambeau.jit.modules import RecursiveScriptModule as RecursiveScriptModule
from flambeau.jit.modules import ScriptModule as ScriptModule
from flambeau.jit.modules import TopLevelTracedModule as TopLevelTracedModule
from flambeau.jit.modules import TracedModule as TracedModule
from flambeau.jit.recording import TracerWarning as TracerWarning
from flambeau.jit.scripting import script as script
from flambeau.jit.settings import ScriptWarning as ScriptWarning
from flambeau.jit.settings import enable_onednn_fusion as enable_onednn_fusion
from flambeau.jit.settings import export_opnames as export_opnames
from flambeau.jit.settings import fuser as fuser
from flambeau.jit.settings import last_executed_optimized_graph as last_executed_optimized_graph
from flambeau.jit.settings import onednn_fusion_enabled as onednn_fusion_enabled
from flambeau.jit.settings import optimized_execution as optimized_execution
from flambeau.jit.settings import set_fusion_strategy as set_fusion_strategy
from flambeau.jit.settings import strict_fusion as strict_fusion
from flambeau.jit.support import Error as Error
from flambeau.jit.trace_graphs import get_trace_graph as _get_trace_graph  # noqa: F401
from flambeau.jit.tracing import TracingCheckError as TracingCheckError
from flambeau.jit.tracing import trace as trace
from flambeau.jit.tracing import trace_module as trace_module
