"""All that a training run is made of, in one file: save it, load it, go on as if nothing happened.

>>> from flambeau.utils.training_state import training_state
>>> model = torch.nn.Linear(2, 1)
>>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
>>> state = training_state(model=model, optimizer=optimizer, epoch=0)
>>> state.epoch += 1
>>> state
training_state(model=Linear, optimizer=SGD, epoch=1)

`state.save(path)` and `state.load(path)` do the rest. A part is anything with `state_dict` and
`load_state_dict` (models, optimizers, schedulers, GradScaler, DataLoader, EarlyStopping), a random
generator, or a list or dictionary of these; everything else is a value, which is read and set as an
attribute. The random streams of flambeau, Python and NumPy are part of the file, so a resumed run
is the same run, to the bit. Files hold data only and are read with `weights_only=True`.
"""

import os
import random
import sys
from typing import Any

from flambeau import Generator, get_rng_state, load, save, set_rng_state
from flambeau._tensor import Tensor
from flambeau.utils.state_data import plain, restored_array
from flambeau.utils.state_files import earlier_files, newest_file, path_of

__all__ = [
    "TrainingState",
    "load_training_state",
    "save_training_state",
    "training_state",
]

FORMAT, VERSION = "flambeau.utils.training_state", 1


def training_state(*, rng: bool = True, gradients: bool = False, **parts: Any) -> "TrainingState":
    """The parts and values of a training run, by the names they shall have in files.

    Args:
        rng: include the random streams of flambeau, Python and NumPy.
        gradients: include `.grad` of the models, for files that are written between `backward` and
            `step`, as when gradients are accumulated.
        parts: models, optimizers, loaders, ..., and values such as `epoch=0`.
    """
    return TrainingState(parts, rng, gradients)


def save_training_state(
    path: str | os.PathLike[str], *, keep: int | None = None, **parts: Any
) -> str:
    """`training_state(**parts).save(path, keep)`"""
    return training_state(**parts).save(path, keep)


def load_training_state(path: str | os.PathLike[str], **parts: Any) -> "TrainingState":
    """`training_state(**parts).load(path)`: parts are restored, values are in the result."""
    return training_state(**parts).load(path)


class TrainingState:
    """Made by `training_state`; values are attributes."""

    _parts: dict[str, Any]
    _values: dict[str, Any]

    def __init__(self, parts: dict[str, Any], rng: bool = True, gradients: bool = False) -> None:
        found: dict[str, dict[str, Any]] = {"_parts": {}, "_values": {}}
        for name, part in parts.items():
            if hasattr(TrainingState, name) or name.startswith("_"):
                raise ValueError(f"{name!r} cannot be the name of a part: it means something here")
            found["_parts" if _is_part(part) else "_values"][name] = part
        self.__dict__.update(found, _rng=rng, _gradients=gradients)

    def __getattr__(self, name: str) -> Any:
        for home in ("_values", "_parts"):
            if name in self.__dict__.get(home, {}):
                return self.__dict__[home][name]
        raise AttributeError(f"this training state has no part or value {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._parts or hasattr(type(self), name) or name.startswith("_"):
            raise AttributeError(f"{name!r} is a part; make a new training_state to change it")
        self._values[name] = value

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._parts, *self._values]

    def __repr__(self) -> str:
        shown = [f"{name}={type(part).__name__}" for name, part in self._parts.items()]
        shown += [f"{name}={value!r:.60}" for name, value in self._values.items()]
        return f"training_state({', '.join(shown)})"

    # data

    def state_dict(self) -> dict[str, Any]:
        """All of it as plain data: numbers, strings, tensors, and containers of them."""
        found: dict[str, Any] = {"format": FORMAT, "version": VERSION}
        found["parts"] = {name: plain(_state(p), name) for name, p in self._parts.items()}
        found["values"] = {name: plain(value, name) for name, value in self._values.items()}
        if self._gradients:
            found["gradients"] = {
                name: {key: p.grad for key, p in part.named_parameters() if p.grad is not None}
                for name, part in self._parts.items()
                if hasattr(part, "named_parameters")
            }
        if self._rng:
            found["rng"] = _random_streams()
        return found

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Restore everything; with strict=False, parts that are not in it stay as they are."""
        _check_format(state_dict, "the dictionary")
        parts, values = state_dict["parts"], state_dict["values"]
        if strict and set(parts) != set(self._parts):
            raise RuntimeError(
                "the parts of the training run are not those of the file: "
                + _difference(set(parts), set(self._parts))
            )
        for name in sorted(set(parts) & set(self._parts), key=_order(self._parts)):
            try:
                _restore(self._parts[name], parts[name])
            except Exception as error:
                error.add_note(f"while the part {name!r} of a training state was restored")
                raise
        for name, gradients in state_dict.get("gradients", {}).items():
            if name in self._parts and self._gradients:
                for key, parameter in self._parts[name].named_parameters():
                    parameter.grad = gradients.get(key)
        self._values.update(values)
        if self._rng and "rng" in state_dict:
            _restore_streams(state_dict["rng"])

    # files

    def save(self, path: str | os.PathLike[str], keep: int | None = None) -> str:
        """Write everything to a file, which is replaced whole or not at all; its name.

        Args:
            path: may hold names of values, as in "run/step-{step:06}.pt".
            keep: how many files of such a pattern to keep; the oldest are removed after the new one
                is complete.
        """
        name = path_of(path, self._values)
        others = earlier_files(path, name, keep)
        save(self.state_dict(), name)
        for other in others:
            os.unlink(other)
        return name

    def load(self, path: str | os.PathLike[str], strict: bool = True) -> "TrainingState":
        """Restore everything from a file; of a pattern, from its newest one."""
        name = newest_file(path)
        found = load(name, map_location="cpu", weights_only=True)
        _check_format(found, f"{name}")
        self.load_state_dict(found, strict)
        return self

    def resume(self, path: str | os.PathLike[str]) -> bool:
        """`load` if there is a file; False if there is none, and the run begins."""
        try:
            newest_file(path)
        except FileNotFoundError:
            return False
        self.load(path)
        return True


def _check_format(found, what):
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise RuntimeError(
            f"{what} is no training state: it was not written by save of "
            "flambeau.utils.training_state"
        )
    if found.get("version") != VERSION:
        raise RuntimeError(
            f"{what} has version {found.get('version')!r:.20} of the format, and this flambeau "
            f"reads version {VERSION}"
        )


def _difference(there, here):
    texts = []
    if there - here:
        texts.append(f"{', '.join(sorted(there - here))} only in the file")
    if here - there:
        texts.append(f"{', '.join(sorted(here - there))} not in the file")
    return "; ".join(texts)


# parts


def _is_numpy_generator(part):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(part, numpy.random.Generator)


def _is_part(part, depth=0):
    if isinstance(part, (list, tuple, dict)):
        items = part.values() if isinstance(part, dict) else part
        # what is nested deeper than anybody nests models may well contain itself
        return depth < 8 and bool(part) and all(_is_part(item, depth + 1) for item in items)
    if isinstance(part, (Generator, random.Random)) or _is_numpy_generator(part):
        return True
    if isinstance(part, (type, Tensor)):
        return False
    return callable(getattr(part, "state_dict", None)) and callable(
        getattr(part, "load_state_dict", None)
    )


def _state(part):
    if isinstance(part, (list, tuple)):
        return [_state(item) for item in part]
    if isinstance(part, dict):
        return {name: _state(item) for name, item in part.items()}
    if isinstance(part, Generator):
        return part.get_state()
    if isinstance(part, random.Random):
        return part.getstate()
    if _is_numpy_generator(part):
        return part.bit_generator.state
    return part.state_dict()


def _restore(part, state):
    if isinstance(part, (list, tuple)):
        if not isinstance(state, list) or len(state) != len(part):
            raise RuntimeError(f"{len(part)} parts here, but {len(state)} in the file")
        for item, saved in zip(part, state):
            _restore(item, saved)
    elif isinstance(part, dict):
        if not isinstance(state, dict) or set(state) != set(part):
            raise RuntimeError("other parts here: " + _difference(set(state), set(part)))
        for name, item in part.items():
            _restore(item, state[name])
    elif isinstance(part, Generator):
        part.set_state(state)
    elif isinstance(part, random.Random):
        part.setstate(state)
    elif _is_numpy_generator(part):
        part.bit_generator.state = restored_array(state)
    else:
        part.load_state_dict(state)


def _order(parts):
    """Models before optimizers before what watches them; whatever may draw numbers last."""

    def rank(name):
        part = parts[name]
        if hasattr(part, "named_parameters"):
            return 0
        if hasattr(part, "param_groups"):
            return 1
        return 3 if hasattr(part, "dataset") else 2

    return rank


# random streams


def _random_streams():
    found = {"flambeau": get_rng_state(), "python": random.getstate()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy"] = plain(numpy.random.get_state(legacy=False), "rng")
    return found


def _restore_streams(found):
    set_rng_state(found["flambeau"])
    random.setstate(found["python"])
    if "numpy" in found:
        import numpy  # the saved run drew from it, or may have

        numpy.random.set_state(restored_array(found["numpy"]))
