"""An agent of its own for each pair of programs, so that no two tests meet; and what is left of it afterwards."""
import os
import secrets

from harness import wait_until

# Linux, include/uapi/linux/net.h: what /proc/net/unix shows as the flags of a listening socket.
ACCEPTS_CONNECTIONS = 1 << 16

# The agent ends about a second after its last member; the rest is for a busy machine.
SECONDS_TO_END = 20


class AgentNamespace:
    def __init__(self):
        self.tag = f"clients-{secrets.token_hex(8)}"
        self.environment = {"VERBATIM_AGENT_TAG": self.tag}

    def sockets(self):
        """(inode, flags, name) of the abstract sockets that carry the tag."""
        found = []
        with open("/proc/net/unix", encoding="ascii", errors="replace") as table:
            for line in table:
                fields = line.split(maxsplit=7)
                if len(fields) == 8 and fields[7].startswith("@") and self.tag in fields[7]:
                    found.append((fields[6], int(fields[3], 16), fields[7].strip()))
        return found

    def agent(self):
        """The pid of the agent, or None while there is none."""
        listening = {f"socket:[{inode}]" for inode, flags, name in self.sockets()
                     if flags & ACCEPTS_CONNECTIONS and "/agent/" in name}
        if not listening:
            return None
        for pid in pids():
            if listening & set(open_files(pid)):
                return pid
        return None

    def processes(self):
        """(pid, command) of the processes that were started with the tag."""
        wanted = f"VERBATIM_AGENT_TAG={self.tag}".encode()
        found = []
        for pid in pids():
            if wanted in read(f"/proc/{pid}/environ").split(b"\0"):
                found.append((pid, read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")))
        return found

    def leftovers(self):
        """What is still there when the agent has had the time to end; empty if all is well."""

        def nothing_left():
            return not self.sockets() and not self.processes() and self.agent() is None

        if wait_until(nothing_left, SECONDS_TO_END):
            return []
        return [f"process {pid}: {command}" for pid, command in self.processes()] + \
            [f"abstract socket {name}" for _, _, name in self.sockets()]


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read(path):
    """Empty for a process that is gone or not ours to look at."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def open_files(pid):
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            yield os.readlink(f"/proc/{pid}/fd/{name}")
    except OSError:
        return
