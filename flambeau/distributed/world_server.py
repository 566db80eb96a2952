"""The server of a world: MPI's start-up protocol, and news of who has gone.

Process 0 runs it. MPI libraries of the MPICH family speak PMI-1 to whoever started them: lines of
`cmd=... key=value`, by which ranks leave their addresses (put), wait for each other (barrier_in)
and read those of others (get). A second kind of line, `cmd=watch rank=N`, stays open as long as a
process lives; when it ends, everybody who watches is told `died N`, or `left N` after a good-bye.
"""

import contextlib
import os
import secrets
import socket
import threading

from .tcp_store import connect, listening

__all__ = ["WorldServer", "Watch"]


class WorldServer:
    """Serves one world of so many processes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.name = f"flambeau_{os.getpid()}_{secrets.token_hex(4)}"  # MPI names memory after it
        self.values: dict[str, str] = {}
        self.waiting: list = []
        self.watchers: dict[int, socket.socket] = {}
        self.gone: dict[int, str] = {}
        self.lock = threading.Lock()
        self.socket = listening(0)
        self.socket.listen(1024)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, name="world server", daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        file = connection.makefile("rw", newline="\n")

        def say(text):
            file.write(text + "\n")
            file.flush()

        with contextlib.suppress(OSError, ValueError):
            for line in file:
                words = dict(part.split("=", 1) for part in line.split() if "=" in part)
                if words.get("cmd") == "watch":
                    self.watch(int(words["rank"]), connection, file, say)
                    return
                answer = getattr(self, "do_" + words.get("cmd", ""), self.unknown)
                if answer(words, line, say) == "end":
                    return

    # -- who has gone ----------------------------------------------------------------------------
    def watch(self, rank, connection, file, say):
        """Stay with a process until it ends."""
        with self.lock:
            self.watchers[rank] = connection
            for other, how in self.gone.items():
                say(f"{how} {other}")
        how = "died"
        with contextlib.suppress(OSError, ValueError):
            for line in file:
                if line.strip() == "bye":
                    how = "left"
                    break
        self.tell(rank, how)

    def tell(self, rank, how):
        with self.lock:
            self.gone[rank] = how
            self.watchers.pop(rank, None)
            for connection in self.watchers.values():
                with contextlib.suppress(OSError):
                    connection.sendall(f"{how} {rank}\n".encode())

    # -- PMI-1 -------------------------------------------------------------------------------------
    def unknown(self, words, line, say):
        say(f"cmd={words.get('cmd')}_result rc=-1 msg=unknown")

    def do_initack(self, words, line, say):
        say("cmd=initack")
        for name, value in (("size", self.size), ("rank", words["pmiid"]), ("debug", 0)):
            say(f"cmd=set {name}={value}")

    def do_init(self, words, line, say):
        say("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")

    def do_get_maxes(self, words, line, say):
        say("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=4096")

    def do_get_appnum(self, words, line, say):
        say("cmd=appnum appnum=0")

    def do_get_my_kvsname(self, words, line, say):
        say(f"cmd=my_kvsname kvsname={self.name}")

    def do_get_universe_size(self, words, line, say):
        say(f"cmd=universe_size size={self.size}")

    def do_put(self, words, line, say):
        self.values[words["key"]] = line.rstrip("\n").split("value=", 1)[1]
        say("cmd=put_result rc=0 msg=success")

    def do_get(self, words, line, say):
        value = self.values.get(words["key"])
        if value is None:
            say("cmd=get_result rc=-1 msg=key_not_found value=unknown")
        else:
            say(f"cmd=get_result rc=0 msg=success value={value}")

    def do_barrier_in(self, words, line, say):
        with self.lock:
            self.waiting.append(say)
            if len(self.waiting) < self.size:
                return
            ready, self.waiting = self.waiting, []
        for tell in ready:
            tell("cmd=barrier_out")

    def do_finalize(self, words, line, say):
        say("cmd=finalize_ack")
        return "end"


class Watch:
    """A process's line to the server: `gone` says who has died or left."""

    def __init__(self, host: str, port: int, rank: int, seconds: float) -> None:
        self.gone: dict[int, str] = {}
        self.rank, self.pid = rank, os.getpid()
        self.ended = False
        self.socket = connect(host, port, seconds)
        self.socket.sendall(f"cmd=watch rank={rank}\n".encode())
        threading.Thread(target=self.listen, name="watch", daemon=True).start()

    def listen(self):
        with contextlib.suppress(OSError, ValueError), self.socket.makefile("r") as file:
            for line in file:
                how, rank = line.split()
                self.gone[int(rank)] = how
        if not self.ended:
            self.gone.setdefault(0, "died")  # the server is process 0's

    def bye(self) -> None:
        """This process leaves in peace."""
        if not self.ended and os.getpid() == self.pid:
            self.ended = True
            with contextlib.suppress(OSError):
                self.socket.sendall(b"bye\n")
