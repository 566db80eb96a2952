"""Plans: what calls come to, worked out once and remembered. The only cache of `eager`.

`Plans` is a dictionary that works a missing value out itself, from its key alone. A hit costs what
a look-up in a plain dictionary costs. Keys are layouts (interned, so compared by identity), dtypes,
types and plain static values. It never grows past twice its room and never empties in a rush: what
was not asked for since the room was last filled is forgotten, what is in use moves on.
"""

import weakref

from flambeau import errors
from flambeau._dtype import Defaults
from flambeau._layout import DEVICES, Layout

ROOM = 512  # small enough for processors to keep close: new sizes walk through all of it


_UNKNOWN = object()
_cut: list[weakref.ref] = []  # plans that may have cut work for a number of threads


def forget_cuts():
    """Work shall be cut anew: the number of threads has changed."""
    _cut[:] = [plans for plans in _cut if plans() is not None]
    for plans in list(_cut):
        found = plans()
        if found is not None:
            found.clear()


class Plans(dict):
    """key -> plan. make(key) works out a missing one; None is a plan like others.

    by_default: do plans depend on the default dtype? Then they are forgotten when it changes.
    mixed: may the layouts of a key be on several devices? cuts: may plans depend on the number of
    threads?
    """

    __slots__ = ("__weakref__", "make", "mixed", "older", "room")

    def __init__(self, make, room=ROOM, by_default=True, mixed=False, cuts=True):
        dict.__init__(self)
        if cuts:
            _cut.append(weakref.ref(self))
        self.make, self.room, self.older, self.mixed = make, room, {}, mixed
        if by_default:
            Defaults.remembered.append(self)

    def __missing__(self, key):
        found = self.older.pop(key, _UNKNOWN) if self.older else _UNKNOWN
        if found is _UNKNOWN:
            if len(DEVICES) > 1 and not self.mixed and type(key) is tuple:
                _check_devices(key, None)
            found = self.make(key)
        if len(self) >= self.room:
            self.older = dict(self)
            dict.clear(self)
        self[key] = found
        return found

    def clear(self):
        """Forget everything."""
        dict.clear(self)
        self.older = {}


def _check_devices(values, device):
    """Complain about layouts on different devices; returns the device of the last."""
    for value in values:
        if type(value) is Layout:
            if value.device is not device:
                if device is not None:
                    raise errors.different_devices(device, value.device)
                device = value.device
        elif type(value) is tuple:
            device = _check_devices(value, device)
    return device
