"""Layers that are told by their arguments: a class body lists them, `layer` writes the rest.

    @layer("leaky_relu(input, negative_slope, inplace)")
    class LeakyReLU(Module):
        negative_slope: float = 1e-2
        inplace: bool = False

has a constructor that keeps its arguments, a forward that hands them to a function of nn.functional
and an extra_repr that shows them. The first two are written as text and compiled, so they are as
quick as those written by hand, have signatures of their own, and debuggers show them.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar
from typing import Any, TypeVar, dataclass_transform

from flambeau._tensor import Tensor
from flambeau.eager.fragments import compile_text
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module

Class = TypeVar("Class", bound=type)
_VALUE = re.compile(r"\b[a-z_]\w*\b(?![=(])")  # a word that is neither keyword nor function


@dataclass_transform(eq_default=False)
def layer(
    call: str = "",
    *,
    takes: str | None = None,
    shows: str | None = None,
    constants: str | None = None,
    kw_only: bool = False,
) -> Callable[[Class], Class]:
    """Make a layer of a class whose annotations are its arguments.

    Arguments that the constructor of the base class knows go there, those marked InitVar go to the
    method `_settle`, which has the last word about attributes; all others become attributes.
    `call` is what forward does. `takes` spells the arguments of forward, all other words in the
    call are then attributes; without it, words that are no attributes are arguments. `shows` names
    what the text of the layer shows, instead of all attributes, where no base class has words of
    its own; `constants` names what scripting may rely on.
    """

    def declare(cls):
        listed = inspect.get_annotations(cls)
        arguments = {name: kind for name, kind in listed.items() if kind is not KW_ONLY}
        handed = _parameters_of(cls.__base__)
        passing = [name for name, kind in arguments.items() if isinstance(kind, InitVar)]
        own = [name for name in arguments if name not in handed and name not in passing]
        cls._kept = (*cls._kept, *own)
        text = []
        if arguments:
            text += _constructor(cls, listed, handed, own, passing, kw_only)
            if constants != "":
                names = [name for name in arguments if name in own or name == "reduction"]
                cls.__constants__ = names if constants is None else constants.split()
        if call:
            text += _forward(call, takes, cls._kept)
        scope = {"F": F, "Tensor": Tensor, "Any": Any, "cls": cls}
        made = compile_text("\n".join(text) + "\n", scope, f"nn.{cls.__name__}")
        if "__init__" in made:
            kinds = {k: v.type if isinstance(v, InitVar) else v for k, v in arguments.items()}
            made["__init__"].__annotations__ = {**kinds, "return": None}
        for name in ("__init__", "forward"):
            if name in made:
                made[name].__module__ = cls.__module__
                made[name].__qualname__ = f"{cls.__qualname__}.{name}"
                setattr(cls, name, made[name])
        words = own if shows is None else shows.split()
        if words and cls.extra_repr is Module.extra_repr:
            cls.extra_repr = _text_of(words)
        return cls

    return declare


def _parameters_of(base):
    """Names that the constructor of a class takes."""
    code = base.__init__.__code__
    return code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]


def _constructor(cls, listed, handed, own, passing, kw_only):
    """The lines of __init__; defaults leave the class and become those of the parameters."""
    parameters = ["self", "*"] if kw_only else ["self"]
    for name, kind in listed.items():
        if kind is KW_ONLY:
            parameters.append("*")
        elif name in vars(cls):
            parameters.append(f"{name}={vars(cls)[name]!r}")
            delattr(cls, name)
        else:
            parameters.append(name)
    yield f"def __init__({', '.join(parameters)}):"
    above = ", ".join(f"{name}={name}" for name in listed if name in handed)
    yield f"    super(cls, self).__init__({above})"
    for name in own:
        yield f"    self.{name} = {name}"
    if hasattr(cls, "_settle"):
        yield f"    self._settle({', '.join(passing)})"


def _forward(call, takes, kept):
    """The lines of forward."""
    words = _VALUE.findall(call)
    if takes is None:
        taken = [word for word in words if word not in kept and word != "training"]
        takes = ", ".join(f"{word}: Tensor" for word in taken)
    else:
        taken = [re.split("[:=]", part)[0] for part in takes.split(", ")]
    given = _VALUE.sub(lambda word: word[0] if word[0] in taken else f"self.{word[0]}", call)
    returns = "" if "return_indices" in words else " -> Tensor"  # two of them, if it says so
    yield f"def forward(self, {takes}){returns}:"
    yield f"    return F.{given}"


def told(module: Any, *names: str) -> str:
    """name=value of attributes, as texts of layers show them."""
    return ", ".join(f"{name}={getattr(module, name)!r}" for name in names)


def _text_of(names):
    """An extra_repr that shows attributes; inplace only where it is set."""

    def extra_repr(self) -> str:
        return told(self, *(name for name in names if name != "inplace" or self.inplace))

    return extra_repr
