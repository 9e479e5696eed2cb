"""What the client tests have in common: one installation, an agent namespace for each run, and nothing left of it."""
import contextlib
import os
import subprocess
import unittest

from agent_namespace import AgentNamespace
from devices import port_in
from harness import Installation, environment_of, users, wait_until

# What the tests themselves put into /dev/shm, two of them possibly at a time.
OWN_FILES = "verbatim-clients-"
SECONDS_TO_VANISH = 10


class ClientCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = Installation()
        cls.addClassCleanup(cls.installation.remove)

    @contextlib.contextmanager
    def agent_namespace(self):
        """An agent namespace; at the end no process, abstract socket or file in /dev/shm is left of what ran in it."""
        namespace, files = AgentNamespace(), shared_memory_files()
        yield namespace
        self.assertEqual(namespace.leftovers(), [], "left behind")
        # Another program's file that comes and goes at this moment is not ours to complain about.
        wait_until(lambda: shared_memory_files() <= files, SECONDS_TO_VANISH)
        self.assertEqual(shared_memory_files() - files, set(), "new in /dev/shm")

    def port(self):
        """The device's port, as ibv_devinfo shows it."""
        with self.agent_namespace() as namespace:
            result = subprocess.run(self.installation.command(users()[0], "ibv_devinfo", "-v"), text=True, timeout=60,
                                    env=environment_of(namespace), capture_output=True, check=True)
        return port_in(result.stdout)


def shared_memory_files():
    return {name for name in os.listdir("/dev/shm") if not name.startswith(OWN_FILES)}
