"""Runs unmodified programs on an installed Verbatim: the prefix, the users, processes under a deadline."""
import errno
import os
import pty
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from typing import NamedTuple

TEST_ALL = os.environ.get("VERBATIM_TEST_ALL", "") not in ("", "0")

# How often a condition outside our reach (another process's socket, say) is looked at.
LOOK_AGAIN = 0.01


class User(NamedTuple):
    name: str
    uid: int
    become: tuple  # the command that runs another one as this user


def users():
    """Who runs the programs: ourselves, and an ordinary user where we may become one."""
    me = User(pwd.getpwuid(os.geteuid()).pw_name, os.geteuid(), ())
    if me.uid != 0:
        return [me]
    become = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--")
    return [me, User("nobody", pwd.getpwnam("nobody").pw_uid, become)]


def wait_until(condition, seconds):
    """Looks at `condition` until it is true, and at least once after the deadline; returns what it gave last."""
    deadline = time.monotonic() + seconds
    while True:
        late = time.monotonic() >= deadline
        value = condition()
        if value or late:
            return value
        time.sleep(LOOK_AGAIN)


class Installation:
    """A prefix of this build that every user can read; remove() it at the end."""

    def __init__(self):
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="verbatim-clients-"))
        try:
            self._install()
        except BaseException:
            self.remove()
            raise

    def _install(self):
        build = os.environ["BUILD_FOLDER"]
        result = subprocess.run(["cmake", "--install", build, "--prefix", self.folder], capture_output=True, text=True,
                                check=False, timeout=120)
        if result.returncode != 0:
            raise RuntimeError(f"cannot install {build}: {result.stdout}{result.stderr}")
        for path, _, _ in os.walk(self.folder):
            os.chmod(path, 0o755)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, user, *program):
        return [*user.become, f"{self.folder}/bin/verbatim", "run", "--", *program]


def environment_of(namespace, extra=None):
    """Ours without what would steer Verbatim or the loader, with the namespace's tag."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("VERBATIM_", "LD_"))}
    return {**environment, **namespace.environment, **(extra or {})}


class Process:
    """A running program, its output collected as it comes, standard error among it.

    `terminal`: the output goes to a terminal, so that the C library hands on each line when it is complete.
    """

    def __init__(self, command, environment, folder, terminal=False):
        self.command = command
        self._text = []
        ours, theirs = pty.openpty() if terminal else os.pipe()
        try:
            self._child = subprocess.Popen(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL,
                                           stdout=theirs, stderr=theirs)
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self.pid = self._child.pid
        self._collector = threading.Thread(target=self._collect, args=(ours,), daemon=True)
        self._collector.start()

    def _collect(self, ours):
        with open(ours, "rb", buffering=0) as stream:
            while True:
                try:
                    part = stream.read(65536)
                except OSError as error:
                    if error.errno != errno.EIO:  # what a terminal gives when nobody has its other end open
                        raise
                    part = b""
                if not part:
                    return
                self._text.append(part)

    @property
    def output(self):
        return b"".join(self._text).decode(errors="replace").replace("\r\n", "\n")

    @property
    def status(self):
        """The exit status, minus the signal's number after a signal, None while it runs."""
        return self._child.poll()

    def wait(self, seconds):
        """The exit status; None when it did not end in time, or somebody still holds its output open."""
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._collector.join(10)
        if self._collector.is_alive():
            self._text.append(b"\n[the program ended, and another process still has its output open]\n")
            return None
        return self._child.returncode

    def signal(self, number):
        """Does nothing to a process that has ended: its pid may be another's by then."""
        self._child.send_signal(number)

    def end(self):
        """Ends it by force if it still runs."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGKILL)
            self._child.wait()

    def report(self, name):
        status = "still running" if self.status is None else f"exit status {self.status}"
        return f"--- {name}: {' '.join(self.command)}\n--- {status}; it printed:\n{self.output}"
