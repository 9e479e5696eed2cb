"""The bandwidth and latency programs of perftest run, and their figures are possible.

By default each option runs once, with programs and users taking turns; VERBATIM_TEST_ALL=1 runs all programs with all
options as all users.
"""
import contextlib
import os
import subprocess
import tempfile
import unittest
from typing import NamedTuple

from client_case import OWN_FILES, ClientCase
from devices import gid_kinds, gids_in
from figures import MemcpyCeiling, problems_of
from harness import TEST_ALL, environment_of, users
from perftest import Pair, options_of, rows_in

PROGRAMS = ("ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat")
SECONDS = 300

BANDWIDTH_SIZE, LATENCY_SIZE = 65536, 2  # the programs' defaults
ALL_SIZES = [2**power for power in range(1, 24)]
INLINE_SIZE = 64
MAPPED_FILE_SIZE = 64 << 20

# perftest sends inline only on devices it knows; a ConnectX-3 is one, and is driven through ibv_post_send.
KNOWN_DEVICE = {"VERBATIM_VENDOR_PART_ID": "4099"}


class Option(NamedTuple):
    """One way to run a program."""
    flag: str = ""  # what its help must list
    arguments: tuple = ()
    note: str = ""
    sizes: tuple = ()  # of the messages, where they are not the program's default
    directions: int = 1
    environment: dict = {}
    prints: str = ""

    def __str__(self):
        return " ".join(self.arguments or (self.flag or "no option",)) + (f" ({self.note})" if self.note else "")


# All sizes at the default number of messages move 80 GB.
ALL = Option("-a", ("-a",) if TEST_ALL else ("-a", "-n", "200"), sizes=tuple(ALL_SIZES))
MAPPED = Option("--mmap")
OPTIONS = (
    Option(),
    Option("-q", ("-q", "16")),
    Option("-b", ("-b",), directions=2),
    Option("-l", ("-l", "16", "-n", "1600")),  # whole lists only
    Option("-D", ("-D", "3")),
    Option("-I", ("-I", str(INLINE_SIZE))),
    Option("-I", ("-I", str(INLINE_SIZE), "-s", str(INLINE_SIZE)), "a device that perftest knows", (INLINE_SIZE,),
           environment=KNOWN_DEVICE, prints=f"Max inline data : {INLINE_SIZE}[B]"),
    Option("--report_gbits", ("--report_gbits",)),
)


class Perftest(ClientCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.offered = {program: options_of(program) for program in PROGRAMS}

    def test_messages_of_all_sizes(self):
        for turn, program in enumerate(PROGRAMS):
            for user in users() if TEST_ALL else [take_turns(users(), turn)]:
                with self.subTest(program=program, option=str(ALL), user=user.name):
                    self.check(program, ALL, user)

    def test_one_option_at_a_time(self):
        self.check_options(OPTIONS)

    def test_each_kind_of_gid(self):
        with self.agent_namespace() as namespace:
            result = subprocess.run(self.installation.command(users()[0], "ibv_devinfo", "-v"), text=True, timeout=60,
                                    env=environment_of(namespace), capture_output=True, check=False)
        kinds = gid_kinds(gids_in(result.stdout))
        self.assertTrue(kinds, result.stdout + result.stderr)
        self.check_options([Option("-x", ("-x", str(index)), kind) for kind, index in kinds.items()])

    def test_memory_that_is_a_mapped_file_receives_the_bytes(self):
        for turn in range(len(PROGRAMS)):
            for program, user in self.runs(MAPPED, turn):
                with self.subTest(program=program, option=str(MAPPED), user=user.name):
                    self.check_mapped(program, user)

    def check_options(self, options):
        for turn, option in enumerate(options):
            for program, user in self.runs(option, turn):
                with self.subTest(program=program, option=str(option), user=user.name):
                    self.check(program, option, user)

    def runs(self, option, turn):
        """The programs that offer the option and the users they run as: all, or the one whose turn it is."""
        programs = [program for program in PROGRAMS if not option.flag or option.flag in self.offered[program]]
        self.assertTrue(programs, f"no program offers {option.flag}")
        if TEST_ALL:
            return [(program, user) for program in programs for user in users()]
        return [(take_turns(programs, turn), take_turns(users(), turn + turn // len(programs)))]

    def check(self, program, option, user, arguments=None, client_arguments=None):
        """Runs the pair and holds all it printed against what is possible."""
        bandwidth = program.endswith("_bw")
        sizes = list(option.sizes) or [BANDWIDTH_SIZE if bandwidth else LATENCY_SIZE]
        ceiling = MemcpyCeiling(sizes)
        ceiling.measure()
        with self.agent_namespace() as namespace, \
                Pair(self.installation, namespace, user, program, arguments or option.arguments, client_arguments,
                     option.environment) as pair:
            self.assertEqual(pair.wait(SECONDS), (0, 0), pair.report())
        ceiling.measure()
        print(f"\nas {user.name}:{pair.report()}")
        self.assertEqual([row.values["#bytes"] for row in rows_in(pair.client.output)], sizes)
        self.assertIn(option.prints, pair.client.output)
        for side in (pair.server, pair.client):
            problems = problems_of(side.output, ceiling, option.directions, timed=option.flag == "-D")
            self.assertEqual(problems, [], pair.report())

    def check_mapped(self, program, user):
        with mapped_file(user) as servers, mapped_file(user) as clients:
            self.check(program, MAPPED, user, [f"--mmap={servers}"], [f"--mmap={clients}"])
            if program.endswith("_bw"):
                self.check_content(program, first_bytes(servers), first_bytes(clients))

    def check_content(self, program, server, client):
        """The client's part of its buffer is the first half of its file, the part it reaches at the server the second
        half of the server's; each side filled both halves with different random bytes."""
        source = client if "write" in program else server
        self.assertNotEqual(source[:BANDWIDTH_SIZE], source[BANDWIDTH_SIZE:], "equal halves show nothing")
        self.assertEqual(client[:BANDWIDTH_SIZE], server[BANDWIDTH_SIZE:], "the bytes did not arrive")


def take_turns(these, turn):
    return these[turn % len(these)]


@contextlib.contextmanager
def mapped_file(user):
    with tempfile.NamedTemporaryFile(prefix=OWN_FILES, dir="/dev/shm") as file:
        os.truncate(file.name, MAPPED_FILE_SIZE)
        os.chown(file.name, user.uid, -1)
        yield file.name


def first_bytes(path):
    with open(path, "rb") as file:
        return file.read(2 * BANDWIDTH_SIZE)


if __name__ == "__main__":
    unittest.main()
