"""CompilationUnit: functions from a text."""

import ast
import textwrap
from typing import Any

import flambeau
from flambeau.jit.compiling import Function, compile_source
from flambeau.jit.functions import ScriptFunction
from flambeau.jit.places import Source
from flambeau.jit.resolving import Resolver
from flambeau.jit.units import unit


class CompilationUnit:
    """Functions that a text defines, as attributes."""

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self._functions: dict[str, ScriptFunction] = {}
        if lang is not None:
            self.define(lang)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> None:
        """Compile the functions of a text; they may call those before them."""
        text = textwrap.dedent(lang)
        source = Source(text, "<string>")
        resolver = Resolver(unit, [self._functions, {"torch": flambeau}])
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                function = Function(node.name, unit.unique_name(f"__torch__.{node.name}"))
                compile_source(function, node, source, resolver, None, None)
                self._functions[node.name] = ScriptFunction(function)

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__.get("_functions", {}).get(name)
        if found is None:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return found

    def get_functions(self) -> list[ScriptFunction]:
        return list(self._functions.values())
