"""A perftest program against itself: what it offers, the two sides of a run, the tables they print."""
import contextlib
import re
import socket
import subprocess
import time
from typing import NamedTuple

from harness import Process, environment_of, wait_until

HOST = "127.0.0.1"
DEVICE = "verbatim0"
SECONDS_TO_LISTEN = 30

# Once the client has failed its server has nothing to wait for.
SECONDS_TO_GIVE_UP = 15

# TCP_LISTEN and TCP_ESTABLISHED as /proc/net/tcp prints them.
LISTENS, CONNECTED = "0A", "01"

# Bytes per second in a unit of the bandwidth columns; "MB" is 2^20 bytes, as perftest's help says.
BANDWIDTH_UNITS = {"MB/sec": 2**20, "MiB/sec": 2**20, "Gb/sec": 1e9 / 8}

COLUMN = re.compile(r"#\w+|tps average|[^\s#\[\]][^#\[\]]*\[[^\]]*\]")
NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|inf|nan)"
ROW = re.compile(rf"\s*{NUMBER}(?:\s+{NUMBER})*\s*", re.IGNORECASE)


def options_of(program):
    """The options that the program's help lists, short and long."""
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=False, timeout=30).stdout
    return options_in(text)


def options_in(help_text):
    options = set()
    for line in help_text.splitlines():
        match = re.match(r"\s*(?:(-\w),\s*)?(--[\w-]+)", line)
        if match:
            options.update(filter(None, match.groups()))
    return options


class Row(NamedTuple):
    """A line of a result table: the columns by the names in its header, without their units, and those units."""
    values: dict
    units: dict

    def bandwidths(self):
        """Column → bytes per second."""
        return {name: value * BANDWIDTH_UNITS[self.units[name]] for name, value in self.values.items()
                if name.startswith("BW ")}


def rows_in(output):
    """The rows of every table in the output. ValueError for a row that does not fit the header above it."""
    header, rows = None, []
    for line in output.splitlines():
        if line.lstrip().startswith("#bytes"):
            header = [split_unit(column) for column in COLUMN.findall(line)]
        elif header and ROW.fullmatch(line):
            numbers = [float(word) for word in line.split()]
            if len(numbers) != len(header):
                raise ValueError(f"{len(numbers)} figures under {len(header)} columns: {line}")
            names, units = zip(*header)
            rows.append(Row(dict(zip(names, numbers)), dict(zip(names, units))))
    return rows


def split_unit(column):
    name, _, unit = column.partition("[")
    return name.strip(), unit.rstrip("]")


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


class Pair:
    """A server and a client of one program, as one user, in one agent namespace. A context manager that leaves no
    process of its own behind.

    `arguments`: of both sides; `client_arguments`: where the client's are others.
    """

    def __init__(self, installation, namespace, user, program, arguments, client_arguments=None, environment=None,
                 terminal=False):
        self._installation, self._namespace, self._user = installation, namespace, user
        self._environment = environment_of(namespace, environment)
        self._terminal = terminal
        self._program, self._arguments = program, {"server": arguments, "client": client_arguments or arguments}
        self._cleanup = contextlib.ExitStack()
        self._port = self.server = self.client = None

    def __enter__(self):
        with self._cleanup:
            self._port = self._cleanup.enter_context(reserved_port())
            self.server = self._start("server")
            wait_until(lambda: has_socket(self._port, LISTENS) or self.server.status is not None, SECONDS_TO_LISTEN)
            if not has_socket(self._port, LISTENS):
                raise AssertionError("the server does not listen\n" + self.server.report("server"))
            self.client = self._start("client", HOST)
            self._cleanup = self._cleanup.pop_all()
        return self

    def __exit__(self, *_):
        self._cleanup.close()

    def _start(self, side, *host):
        program = [self._program, "-d", DEVICE, "-F", "-p", str(self._port), *self._arguments[side], *host]
        process = Process(self._installation.command(self._user, *program), self._environment,
                          self._installation.folder, self._terminal)
        self._cleanup.callback(process.end)
        return process

    def connected(self):
        """Whether the client has reached the server; before that, the server waits for one as long as it takes."""
        return has_socket(self._port, CONNECTED)

    def wait(self, seconds):
        """Waits for both sides; their exit statuses, None for one that had to be ended."""
        deadline = time.monotonic() + seconds
        client = self.client.wait(seconds)
        left = max(deadline - time.monotonic(), 0) if client == 0 else SECONDS_TO_GIVE_UP
        server = self.server.wait(left)
        if server is None:
            self.server.end()
        if client is None:
            self.client.end()
        return server, client

    def report(self):
        return "\n" + self.server.report("server") + "\n" + self.client.report("client")
