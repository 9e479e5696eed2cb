"""A program against itself: a server, its clients, the TCP port at which they find each other."""
import contextlib
import glob
import os
import socket
import tempfile
import time

from harness import Process, environment_of, wait_until

HOST = "127.0.0.1"
DEVICE = "verbatim0"
SECONDS_TO_LISTEN = 30

# Once the client has failed its server has nothing to wait for.
SECONDS_TO_GIVE_UP = 15

# TCP_LISTEN and TCP_ESTABLISHED as /proc/net/tcp prints them.
LISTENS, CONNECTED = "0A", "01"


@contextlib.contextmanager
def reserved_port():
    """A TCP port that the kernel gives to nobody who asks for any port; who asks for this one gets it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("0.0.0.0", 0))
        yield holder.getsockname()[1]


def has_socket(port, state):
    """Whether a TCP socket with this local port is in the state."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError), open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if fields[3] == state and int(fields[1].rpartition(":")[2], 16) == port:
                    return True
    return False


def remove_xrc_files():
    """What XRC programs of another user have left, which this one's may not open. ctest lets one test at a time do so."""
    for path in glob.glob("/tmp/xrc_domain*"):
        with contextlib.suppress(OSError):
            os.unlink(path)


class Pair:
    """A server of one program and its client, or clients, as one user, in one agent namespace. A context manager that
    leaves no process of its own behind.

    `arguments`: of both sides; `client_arguments`: where the client's are others.
    """

    def __init__(self, installation, namespace, user, program, arguments, client_arguments=None, environment=None,
                 terminal=False, clients=1):
        self._installation, self._namespace, self._user = installation, namespace, user
        self._environment = environment_of(namespace, environment)
        self._logs, self._logged = None, []
        self._terminal = terminal
        self._program, self._arguments = program, {"server": arguments, "client": client_arguments or arguments}
        self._cleanup = contextlib.ExitStack()
        self._number = clients
        self._port = self.server = None
        self.clients = []

    def __enter__(self):
        remove_xrc_files()
        with self._cleanup:
            self._logs = self._cleanup.enter_context(tempfile.TemporaryDirectory())
            os.chmod(self._logs, 0o777)
            self._environment["VERBATIM_LOG"] = f"warn:{self._logs}/%p"
            self._port = self._choose_port()
            self.server = self._start("server")
            self._await_server()
            for _ in range(self._number):
                self.clients.append(self._start("client", HOST))
            self._cleanup = self._cleanup.pop_all()
        return self

    def __exit__(self, *_):
        self._logged = self._read_logs()
        self._cleanup.close()

    @property
    def client(self):
        return self.clients[0]

    def _choose_port(self):
        return self._cleanup.enter_context(reserved_port())

    def _await_server(self):
        wait_until(lambda: has_socket(self._port, LISTENS) or self.server.status is not None, SECONDS_TO_LISTEN)
        if not has_socket(self._port, LISTENS):
            raise AssertionError("the server does not listen\n" + self.server.report("server"))

    def _start(self, side, *host):
        command = self._installation.command(self._user, *self._command(side, *host))
        process = Process(command, self._environment, self._installation.folder, self._terminal)
        self._cleanup.callback(process.end)
        return process

    def _command(self, side, *host):
        return [self._program, "-d", DEVICE, "-p", str(self._port), *self._arguments[side], *host]

    def connected(self):
        """Whether the client has reached the server; before that, the server waits for one as long as it takes."""
        return has_socket(self._port, CONNECTED)

    def wait(self, seconds):
        """Waits for all; the server's exit status and then the clients', None for one that had to be ended."""
        deadline = time.monotonic() + seconds
        clients = [client.wait(max(deadline - time.monotonic(), 0)) for client in self.clients]
        left = max(deadline - time.monotonic(), 0) if not any(clients) and None not in clients else SECONDS_TO_GIVE_UP
        server = self.server.wait(left)
        for process in (self.server, *self.clients):
            process.end()
        return server, *clients

    def report(self):
        sides = [self.server.report("server"), *(client.report("client") for client in self.clients)]
        return "\n" + "\n".join([*sides, *(self._logged or self._read_logs())])

    def _read_logs(self):
        """Why something failed, as the library and the agent say it."""
        logs = []
        for path in sorted(glob.glob(f"{self._logs}/*")):
            with open(path, encoding="utf-8", errors="replace") as log:
                logs.append(f"--- logged by process {os.path.basename(path)}:\n{log.read()}")
        return logs
