"""Who is told when something other than a kernel looks at memory, or writes to it.

Whoever records launches (runtime/tapes.py) must know: what happens between two launches would be
missing when they are repeated. `told` is empty at all other times.
"""

told: list = []


def touched() -> None:
    for tell in told:
        tell()
