"""Threads that all compute, a process that forks meanwhile, and signals that interrupt: one story.

    FLAMBEAU_CHECK=1 python -m tests.fuzz.threads SEED

Every thread makes its own random calls (programs.py) and keeps what they gave; the main thread
forks children that compute a little, and is interrupted again and again by a timer whose handler
raises. At the end the calls are made once more, one after the other: everything must be the same,
and no guard of memory may have been touched. It prints a summary, or says what differs.
"""

import os
import random
import signal
import sys
import threading
import time
import warnings

import flambeau as torch
from flambeau.eager.kernels import CHECKS
from tests.fuzz.programs import made, program
from tests.fuzz.run import plain, unlike

CALLS, THREADS, CHILDREN = 40, 4, 6


class Interruption(BaseException):
    """What the handler of the timer raises."""


def outcome(seed, number):
    """What a call gives: a plain result, or the type of its error."""
    space = {"torch": torch, "made": made}
    try:
        exec(program(seed, number).text, space)
    except Interruption:
        raise
    except Exception as error:  # which one is the outcome
        return "error", type(error).__name__, str(error)[:200]
    return plain(space["out"])


def child(seed, number):
    """What a forked child does: some calls, then it is gone."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        for k in range(3):
            outcome(seed, number + k)
        x = torch.ones(300, 300)
        good = (x @ x)[0, 0].item() == 300 and not CHECKS.guards.broken()
        os._exit(0 if good else 3)
    except BaseException:
        os._exit(4)


def interrupt(signum, frame):
    raise Interruption


def main(seed):
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    rng, results, children, interrupted = random.Random(seed), {}, [], 0

    def work(thread):
        for number in range(thread * 100_000, thread * 100_000 + CALLS):
            results[number] = outcome(seed, number)

    program(seed, 0)  # all threads read the same table
    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    for t in threads:
        t.start()
    signal.signal(signal.SIGALRM, interrupt)
    while any(t.is_alive() for t in threads) or len(children) < CHILDREN:
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, 0.05))
            outcome(seed, rng.randrange(10**6))
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Interruption:
            interrupted += 1
        if len(children) < CHILDREN and rng.random() < 0.3:
            signal.setitimer(signal.ITIMER_REAL, 0)
            pid = os.fork()
            if pid == 0:
                child(seed, rng.randrange(10**6))
            children.append(pid)
        time.sleep(0.001)
    signal.setitimer(signal.ITIMER_REAL, 0)
    for t in threads:
        t.join()
    bad = []
    for pid in children:
        _, status = os.waitpid(pid, 0)
        if status:
            bad.append(f"a child ended with {status}")
    for number, result in sorted(results.items()):
        state = torch.get_rng_state()
        again = outcome(seed, number)
        if not torch.equal(state, torch.get_rng_state()):
            continue  # it draws random numbers: threads that draw meanwhile change its result
        if result[0] != again[0] or (result[0] != "error" and unlike(result, again)):
            note = f"{result[:3]} for {again[:3]}"
            bad.append(f"call {number} differs: {note}\n{program(seed, number).text}")
    bad += [f"a block was written over: {where}" for where in CHECKS.guards.broken()]
    print(f"{len(results)} calls in {THREADS} threads, {len(children)} children, "
          f"{interrupted} interruptions")  # fmt: skip
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
