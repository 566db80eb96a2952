"""What a device is: a type, an index, and the runtime that computes there.

`cpu` and `meta` (which only knows shapes and dtypes) have one from the start; others are entered in
`device.runtimes` by whoever brings them.
"""

import threading

KNOWN = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, "
    "mps, meta, hpu, mtia, privateuseone"
)


_INDICES = range(-(1 << 63), 1 << 63)


class _Runtime:
    """`device.runtime`: looked for at every question, but on devices that were given theirs for
    good as an attribute, which comes before this.
    """

    def __get__(self, d, owner=None):
        return self if d is None else runtimes_of(d).part(d.index)


class device:
    """Where a tensor lives, e.g. device("cpu") or device("cuda", 1)."""

    __slots__ = ("type", "index", "__dict__")
    type: str
    index: int | None
    _known: dict = {}
    runtimes: dict = {}  # type -> what computes there (runtime/base.py)
    starters: dict = {}  # type -> what makes its runtime when it is first asked for, or None

    runtime = _Runtime()  # memory and kernels; devices that cannot compute here say so

    def __new__(cls, type=None, index=None):
        if isinstance(type, device):
            return type
        if isinstance(type, int) and not isinstance(type, bool):
            if index is not None:
                raise TypeError("device(): argument 'type' (position 1) must be str, not int")
            if type not in _INDICES:
                raise ValueError("Overflow when unpacking long long")
            if type < 0:
                raise RuntimeError("Device index must not be negative")
            if not is_there("cuda"):
                raise RuntimeError("Cannot access accelerator device when none is available.")
            return cls("cuda", type)
        found = None if isinstance(index, bool) else cls._known.get((type, index))
        if found is None:
            found = cls._parse(type, index)
        return found

    @classmethod
    def _parse(cls, spec, index):
        if not isinstance(spec, str):
            kind = type(spec).__name__
            raise TypeError(
                f"device() received an invalid combination of arguments - got ({kind}), but "
                "expected one of:\n * (torch.device device)\n * (str type, int index = -1)"
            )
        name, colon, number = spec.partition(":")
        if index is not None:
            cls._check_index(spec, colon, index)
        if not spec:
            raise RuntimeError("Device string must not be empty")
        if not name.isidentifier():
            raise RuntimeError(f"Invalid device string: '{spec}'")
        if colon:
            if not number.isdigit() or number != str(int(number)):
                raise RuntimeError(f"Invalid device string: '{spec}'")
            index = int(number)
        if name not in KNOWN.split(", "):
            raise RuntimeError(
                f"Expected one of {KNOWN} device type at start of device string: {name}"
            )
        self = cls._known.get((name, index))
        if self is None:
            self = object.__new__(cls)
            self.type, self.index = name, index
            cls._known[name, index] = self
        cls._known[spec, None if colon else index] = self
        return self

    @staticmethod
    def _check_index(spec, colon, index):
        if not isinstance(index, int) or isinstance(index, bool):
            kind = type(index).__name__
            raise TypeError(f"device(): argument 'index' (position 2) must be int, not {kind}")
        if colon:
            raise RuntimeError(
                "type (string) must not include an index because index was passed explicitly: "
                + spec
            )
        if index < 0:
            raise RuntimeError("Device index must not be negative")

    def __repr__(self):
        return f"device(type='{self.type}'" + (
            f", index={self.index})" if self.index is not None else ")"
        )

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self):
        return device, (self.type, self.index)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __enter__(self):
        _stack().append(_placed(self))
        return self

    def __exit__(self, *error):
        _stack().pop()


cpu = device("cpu")
meta = device("meta")


class _Local(threading.local):
    def __init__(self):
        self.stack = []


_local = _Local()
_default = cpu


def _stack():
    return _local.stack


def default_device():
    """Where creation functions put tensors: the innermost `with device(...)`, else the default."""
    return _local.stack[-1] if _local.stack else _default


def set_default_device(d):
    global _default
    _default = cpu if d is None else _placed(device(d))


def _placed(d):
    """The very GPU that is meant, where there is one."""
    if d.type == "cuda" and d.index is None and is_there("cuda"):
        return runtimes_of(d).place(d)
    return d


def resolve(d):
    """A device from what a caller gave: None, a string, an index or a device."""
    if d is None:
        return _local.stack[-1] if _local.stack else _default
    d = d if isinstance(d, device) else device(d)
    return runtimes_of(d).place(d)


def runtimes_of(d):
    """What computes on devices of a type."""
    found = device.runtimes.get(d.type)
    if found is None:
        start = device.starters.get(d.type)
        found = start() if start is not None else None
        if found is None:
            device.starters.pop(d.type, None)  # asked once
            raise _not_available(d)
        device.runtimes[d.type] = found
    return found


def is_there(kind):
    """Can something compute on devices of a type?"""
    try:
        runtimes_of(device(kind))
    except (AssertionError, NotImplementedError, ModuleNotFoundError):
        return False
    return True


_BACKENDS = {"lazy": "Lazy", "vulkan": "Vulkan"}


def _not_available(d):
    """What PyTorch says of a device that it was built without."""
    if d.type in ("cuda", "xpu", "mtia"):
        return AssertionError(f"Torch not compiled with {d.type.upper()} enabled")
    if d.type in ("privateuseone", "hpu"):
        return ModuleNotFoundError(f"No module named 'torch.{d.type}'")
    backend = _BACKENDS.get(d.type, d.type.upper())
    return NotImplementedError(
        f"Could not run 'aten::empty.memory_format' with arguments from the '{backend}' backend. "
        "Here tensors live on cpu or meta."
    )
