"""`python -m flambeau.distributed.run`: starts a script many times, and looks after it.

As `torchrun`: each worker gets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. The
launcher of machine 0 serves the store that workers meet in. When a worker fails, all are ended
and, up to --max_restarts times, all are started again; a script goes on from its checkpoint.
"""

import argparse
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from typing import Any

from .tcp_store import TCPStore

__all__ = ["main", "run"]

LEAVING = 10.0  # seconds that workers have to go by themselves after one has failed


def parser() -> argparse.ArgumentParser:
    """The options, torchrun's; each may be written with - or _."""
    made = argparse.ArgumentParser(prog="torchrun", description=__doc__)

    def add(*names: str, **options: Any) -> None:
        both = [n for name in names for n in {name, "--" + name[2:].replace("_", "-")}]
        made.add_argument(*(both if names[0].startswith("--") else names), **options)

    add("--nnodes", default="1", help="machines, or MIN:MAX")
    add("--nproc_per_node", default="1", help="workers per machine: a number, cpu, gpu or auto")
    add("--node_rank", type=int, default=int(os.environ.get("GROUP_RANK", 0)))
    add("--rdzv_backend", default="static")
    add("--rdzv_endpoint", default="", help="host:port of machine 0")
    add("--rdzv_id", default="none")
    add("--rdzv_conf", default="")
    add("--standalone", action="store_true", help="one machine, any free port")
    add("--max_restarts", type=int, default=0)
    add("--monitor_interval", type=float, default=0.1)
    add("--start_method", default="spawn")
    add("--role", default="default")
    add("--master_addr", default="127.0.0.1")
    add("--master_port", type=int, default=29500)
    add("--local_addr", default=None)
    add("--log_dir", default=None, help="a file per worker goes there")
    add("--redirects", "--redirects", default="0")
    add("--tee", default="0")
    add("--local_ranks_filter", default="")
    made.add_argument("-r", dest="redirects")
    made.add_argument("-t", dest="tee")
    add("--module", action="store_true")
    made.add_argument("-m", dest="module", action="store_true", help="a module, as python -m")
    add("--no_python", action="store_true", help="a program that is not Python")
    add("--run_path", action="store_true")
    add("--use_env", action="store_true", help=argparse.SUPPRESS)
    made.add_argument("training_script")
    made.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return made


def _count(text):
    if text in ("cpu", "auto", "gpu"):
        return os.cpu_count() or 1
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"Unsupported nproc_per_node value: {text}") from None


class Launcher:
    """The workers of one machine."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.nodes = int(str(options.nnodes).split(":")[-1])
        self.local = _count(str(options.nproc_per_node))
        self.size = self.nodes * self.local
        self.node = options.node_rank
        self.workers: list[subprocess.Popen] = []
        self.signal: int | None = None
        self.threads: list[threading.Thread] = []
        host, port = options.master_addr, options.master_port
        if options.rdzv_endpoint:
            host, _, number = options.rdzv_endpoint.partition(":")
            port = int(number or 29400)
        if options.standalone or (self.nodes == 1 and options.rdzv_endpoint.endswith(":0")):
            host, port = "127.0.0.1", 0
        self.host = host
        wait = timedelta(minutes=15)
        if options.rdzv_backend != "static" and self.nodes > 1 and not options.standalone:
            self.store = self._met(host, port, wait)
        else:
            self.store = TCPStore(host, port, is_master=self.node == 0, timeout=wait)
        self.port = self.store.port
        self.run_id = options.rdzv_id if options.rdzv_id != "none" else secrets.token_hex(4)

    def _met(self, host, port, wait):
        """c10d: whoever runs on the endpoint's machine serves; node ranks are drawn there."""
        try:
            ours = socket.gethostbyname(host) in _addresses()
        except OSError:
            ours = False
        store = None
        if ours:
            try:
                store = TCPStore(host, port, is_master=True, timeout=wait)
            except RuntimeError:
                store = None  # another launcher of this machine was quicker
        store = store or TCPStore(host, port, timeout=wait)
        self.node = store.add(f"nodes/{self.options.rdzv_id}", 1) - 1
        return store

    # -- one attempt -----------------------------------------------------------------------------
    def environment(self, local, attempt):
        rank = self.node * self.local + local
        return os.environ | {
            "RANK": str(rank),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(self.size),
            "LOCAL_WORLD_SIZE": str(self.local),
            "GROUP_RANK": str(self.node),
            "GROUP_WORLD_SIZE": str(self.nodes),
            "ROLE_RANK": str(rank),
            "ROLE_WORLD_SIZE": str(self.size),
            "ROLE_NAME": self.options.role,
            "MASTER_ADDR": self.host,
            "MASTER_PORT": str(self.port),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1" if self.local > 1 else "0"),
            "TORCHELASTIC_RESTART_COUNT": str(attempt),
            "TORCHELASTIC_MAX_RESTARTS": str(self.options.max_restarts),
            "TORCHELASTIC_RUN_ID": self.run_id,
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }

    def command(self):
        options = self.options
        if options.no_python:
            start = []
        else:
            start = [sys.executable, "-u"]
            if "torch" in sys.modules:  # this launcher runs under `python -m flambeau`
                start += ["-m", "flambeau"]
            start += ["-m"] if options.module else []
        return [*start, options.training_script, *options.training_script_args]

    def start(self, attempt):
        self.workers = []
        for local in range(self.local):
            rank = self.node * self.local + local
            wants_prefix = self.options.log_dir is None and self.local > 1
            worker = subprocess.Popen(
                self.command(),
                env=self.environment(local, attempt),
                stdout=subprocess.PIPE if wants_prefix or self.options.log_dir else None,
                stderr=subprocess.STDOUT if wants_prefix or self.options.log_dir else None,
            )
            self.workers.append(worker)
            if worker.stdout is not None:
                thread = threading.Thread(
                    target=self.pass_on, args=(worker.stdout, rank, attempt), daemon=True
                )
                thread.start()
                self.threads.append(thread)

    def pass_on(self, pipe, rank, attempt):
        """Lines of a worker, each with the worker's name, or into its file."""
        folder, log = self.options.log_dir, None
        if folder:
            place = os.path.join(folder, self.run_id, f"attempt_{attempt}", str(rank))
            os.makedirs(place, exist_ok=True)
            log = open(os.path.join(place, "output.log"), "wb")  # noqa: SIM115
        shows = log is None or self.options.tee not in ("0", None)
        with pipe:
            for line in pipe:
                if log is not None:
                    log.write(line)
                    log.flush()
                if shows:
                    sys.stdout.buffer.write(f"[{self.options.role}{rank}]:".encode() + line)
                    sys.stdout.flush()
        if log is not None:
            log.close()

    def watch(self, attempt):
        """Until all workers of all machines are done (0), or one has failed (its exit code)."""
        key = f"attempt/{attempt}"
        while True:
            codes = [worker.poll() for worker in self.workers]
            if self.signal is not None:
                return 128 + self.signal
            if any(codes):
                self._note(f"{key}/failed", self.node)
                failed = self._failures()
                for local, code in failed:
                    self._complain(local, code, attempt)
                return failed[0][1]
            if all(code == 0 for code in codes):
                return 0
            if self.nodes > 1 and self.store.check([f"{key}/failed"]):
                return 1  # on another machine
            time.sleep(self.options.monitor_interval)

    def _failures(self):
        """Who failed, and how. One rank that leaves makes the others fail at once, and the one that
        is to blame may be the slowest to go: those that are going are waited for and named, too."""
        deadline = time.monotonic() + LEAVING
        while True:
            codes = [worker.poll() for worker in self.workers]
            if None not in codes or time.monotonic() > deadline:
                return [(k, code) for k, code in enumerate(codes) if code]
            time.sleep(0.02)

    def _note(self, key, value):
        with contextlib.suppress(RuntimeError):  # the launcher of machine 0 may have gone
            self.store.set(key, str(value))

    def _complain(self, local, code, attempt):
        rank = self.node * self.local + local
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exitcode {code}"
        worker = self.workers[local]
        print(
            f"torchrun: rank {rank} (local_rank {local}, pid {worker.pid}) failed with {how} in "
            f"attempt {attempt}; ending the other workers",
            file=sys.stderr,
            flush=True,
        )

    def end(self):
        """No worker is left behind."""
        for worker in self.workers:
            if worker.poll() is None:
                worker.terminate()
        deadline = time.monotonic() + 10
        for worker in self.workers:
            try:
                worker.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        for thread in self.threads:
            thread.join(2)
        self.threads = []

    def run(self):
        """All attempts; the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.told)
        code = 1
        for attempt in range(self.options.max_restarts + 1):
            self.start(attempt)
            try:
                code = self.watch(attempt)
            finally:
                self.end()
            if code == 0 or self.signal is not None:
                break
        self._farewell()
        return code

    def told(self, number, frame):
        """A signal to the launcher is one to the workers."""
        self.signal = number
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(number)

    def _farewell(self):
        """Machine 0 serves until all others are done."""
        if self.nodes > 1 and self.signal is None:
            with contextlib.suppress(RuntimeError):
                self.store.barrier(f"end/{self.options.rdzv_id}", self.nodes, timedelta(seconds=60))


def _addresses():
    found = {"127.0.0.1"}
    with contextlib.suppress(OSError):
        found |= {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None)}
    return found


def run(args: argparse.Namespace) -> None:
    """Start and look after workers; ends this process if they fail."""
    code = Launcher(args).run()
    if code:
        sys.exit(code if code > 0 else 1)


def main(args: list[str] | None = None) -> None:
    """The command."""
    run(parser().parse_args(args))


if __name__ == "__main__":
    main()
