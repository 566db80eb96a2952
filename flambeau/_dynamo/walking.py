"""Lists that modules give of themselves: parameters, buffers, modules below them.

These are generators, which are not read. What they would give follows from the tree of modules, so
the tree is guarded as a whole and each member is a value from outside, by its path.
"""

from collections.abc import Iterator
from typing import Any

from flambeau._dynamo.exc import Break
from flambeau._dynamo.known import known
from flambeau._dynamo.steps import ParametersOf, Tree
from flambeau._dynamo.values import Outside, TensorValue
from flambeau.func.modules import functional_call
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.registry import Registry


def _field(source, kind):
    return ("item", ("dict", source), kind)


def _guarded(reader, owner):
    """A module from outside whose tree stays as it is."""
    if not isinstance(owner, Outside):
        raise Break("the members of a module that the program makes")
    if reader.exchanged:
        raise Break("the members of a module inside of functional_call")
    guards = reader.guards
    guards.same_object(owner.source, owner.obj)
    guards.require(f"{guards.constant(Tree(owner.obj))}.stands()")
    return owner


def _modules(reader, owner, prefix, once):
    """(path, module, source) of a module and of all below it."""
    seen: set[int] = set()

    def walk(path, module, source):
        if once and id(module) in seen:
            return
        seen.add(id(module))
        yield path, module, source
        start = path + "." if path else ""
        for name, child in module._modules.items():
            if child is not None:
                yield from walk(start + name, child, ("item", _field(source, "_modules"), name))

    return walk(prefix, _guarded(reader, owner).obj, owner.source)


def _named(reader, owner, kind, prefix="", recurse=True, once=True):
    """(path, value) of members of a kind, as the program sees them."""
    places = list(_modules(reader, owner, prefix, once))
    found, seen = [], set()
    for path, module, source in places if recurse else places[:1]:
        field = _field(source, kind)
        if kind == "_buffers":
            keys = reader.guards.constant([*module._buffers])
            reader.guards.require(f"[*{reader.guards.variable(field)}] == {keys}")
        for name, member in getattr(module, kind).items():
            if member is None or (once and id(member) in seen):
                continue
            seen.add(id(member))
            value = reader.wrap(member, ("item", field, name))
            found.append((f"{path}.{name}" if path else name, value))
    return found


def parameters_in_turn(reader: Any, parameters: ParametersOf) -> Iterator[Any]:
    """module.parameters() for a loop; it goes on where it was, as a generator does."""
    if parameters.iterator is None:
        named = _named(reader, parameters.owner, "_parameters", recurse=parameters.recurse)
        parameters.iterator = iter([value for _, value in named])
    return parameters.iterator


@known(Module.named_parameters)
def _named_parameters(reader, owner, prefix="", recurse=True, remove_duplicate=True):
    return iter(_named(reader, owner, "_parameters", prefix, recurse, remove_duplicate))


@known(Module.named_buffers)
def _named_buffers(reader, owner, prefix="", recurse=True, remove_duplicate=True):
    return iter(_named(reader, owner, "_buffers", prefix, recurse, remove_duplicate))


@known(Module.buffers)
def _buffers(reader, owner, recurse=True):
    return iter([value for _, value in _named(reader, owner, "_buffers", recurse=recurse)])


@known(Module.named_children)
def _named_children(reader, owner):
    return iter(_named(reader, owner, "_modules", recurse=False))


@known(Module.children)
def _children(reader, owner):
    return iter([value for _, value in _named(reader, owner, "_modules", recurse=False)])


@known(Module.named_modules)
def _named_modules(reader, owner, memo=None, prefix="", remove_duplicate=True):
    if memo is not None:
        raise Break("named_modules with a set of modules to leave out")
    places = _modules(reader, owner, prefix, remove_duplicate)
    return iter([(path, reader.wrap(module, source)) for path, module, source in places])


@known(Module.modules)
def _all_modules(reader, owner, remove_duplicate=True):
    places = _modules(reader, owner, "", remove_duplicate)
    return iter([reader.wrap(module, source) for _, module, source in places])


@known(functional_call)
def _functional_call(reader, module, given, args=None, kwargs=None, *, tie_weights=True,
                     strict=False):  # fmt: skip
    """A call of a module with other parameters: they are found in place of its own."""
    if strict:
        raise Break("functional_call that is strict")
    given = reader.opened(given)
    merged: dict[str, Any] = {}
    for part in given if type(given) in (tuple, list) else (given,):
        part = reader.mapping(part)
        if not merged.keys().isdisjoint(part):
            raise Break("functional_call with two values for a parameter")
        merged |= part
    places = {path: m for path, m, _ in _modules(reader, module, "", True)}
    if tie_weights and _has_ties(places.values()):
        raise Break("functional_call of a module with tied weights")
    if any(type(m).__setattr__ is not Registry.__setattr__ for m in places.values()):
        raise Break("functional_call of a module with its own way to set attributes")
    exchanged = {}
    for name, value in merged.items():
        path, _, last = name.rpartition(".")
        held = places.get(path)
        if held is None or last not in {**held._parameters, **held._buffers}:
            raise Break(f"functional_call with {name}, which is not there")
        if not isinstance(value, TensorValue):
            raise Break("functional_call with something else than tensors")
        exchanged[id(held), last] = value
    args = () if args is None else args if type(args) is tuple else (args,)
    reader.exchanged = exchanged
    result = reader.call(module, args, {} if kwargs is None else reader.mapping(kwargs))
    reader.exchanged = {}
    return result


def _has_ties(modules):
    """Is a parameter or a buffer there under several names?"""
    held = [t for m in modules for t in (*m._parameters.values(), *m._buffers.values())]
    found = [id(t) for t in held if t is not None]
    return len(set(found)) < len(found)
