"""Runs perftest's programs and holds what they print against what is possible."""
import contextlib
import os
import tempfile

from client_case import OWN_FILES, ClientCase
from devices import gid_kinds
from figures import MemcpyCeiling, problems_of
from harness import TEST_ALL, users
from pair import Pair
from perftest import knows_its_clock, options_of, rows_in
from perftest_matrix import ALL, BANDWIDTH_SIZE, MAPPED, NONE, SLEEPING_OPTIONS, Option, options

SECONDS = 300
# perftest may fail to measure the processor's frequency, on a busy machine even twice.
CLOCK_ATTEMPTS = 5
MAPPED_FILE_SIZE = 64 << 20
MAPPED_TURNS = 1 if TEST_ALL else 4


KINDS = ("options", "sleeping", "gid", "mapped")


class PerftestCase(ClientCase):
    """The tests of a set of variants, on one interface for posting: what a subclass says.

    By default each option runs once, with variants and users taking turns; VERBATIM_TEST_ALL=1 runs all variants with
    all options as all users.
    """
    variants = []
    interface = None
    pair = Pair  # how the sides find each other
    kinds = KINDS  # of options
    # By default:
    all_variants = True  # or one of each program
    all_sizes = True  # of each variant
    default_kinds = KINDS  # those of `kinds` that are among them

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.offered = {variant.program: options_of(variant.program) for variant in cls.variants}

    def setUp(self):
        port = self.port()
        self.mtu, self.gid_kinds = port.mtu, gid_kinds(port.gids)
        # One for all runs of a test: most of them find the agent running, which is also quicker.
        self.namespace = self.enterContext(self.agent_namespace())

    def test_each_variant(self):
        for turn, variant in enumerate(self.variants if self.all_variants or TEST_ALL else one_each(self.variants)):
            all_sizes = (self.all_sizes or TEST_ALL) and self.offers(variant, ALL)
            for user in users() if TEST_ALL else [take_turns(users(), turn)]:
                self.check(variant, ALL if all_sizes else NONE, user)

    def test_options(self):
        self.check_options("options", options(self.interface))

    def test_sleeping(self):
        self.check_options("sleeping", SLEEPING_OPTIONS)

    def test_each_kind_of_gid(self):
        self.assertTrue(self.gid_kinds)
        self.check_options("gid", [Option(("-x",), ("-x", str(index)), kind) for kind, index in self.gid_kinds.items()])

    def test_memory_that_is_a_mapped_file_receives_the_bytes(self):
        self.skip_unless_due("mapped")
        for turn in range(MAPPED_TURNS):
            for variant, user in self.runs(MAPPED, turn):
                self.check_mapped(variant, user)

    def skip_unless_due(self, kind):
        if kind not in self.kinds:
            self.skipTest("not for this interface")
        if kind not in self.default_kinds and not TEST_ALL:
            self.skipTest("run with VERBATIM_TEST_ALL=1")

    def check_options(self, kind, these):
        self.skip_unless_due(kind)
        for turn, option in enumerate(these):
            for variant, user in self.runs(option, turn):
                self.check(variant, option, user)

    def offers(self, variant, option):
        offered = all(flag in self.offered[variant.program] for flag in option.flags)
        return offered and not (option.outruns and variant.may_lose)

    def runs(self, option, turn):
        """The variants that offer the option, and the users they run as: all, or the one whose turn it is."""
        these = [variant for variant in self.variants if self.offers(variant, option)]
        if TEST_ALL:
            return [(variant, user) for variant in these for user in users()]
        if not these:
            return []
        return [(take_turns(these, turn), take_turns(users(), turn + turn // len(these)))]

    def check(self, variant, option, user, server_arguments=None, client_arguments=None):
        """Runs the pair. The arguments of a side: where they are not the option's."""
        with self.subTest(run=str(variant), option=str(option), user=user.name):
            sizes = variant.sizes(option, self.mtu)
            ceiling = MemcpyCeiling(sizes)
            ceiling.measure()
            common = ["-F", *variant.arguments(), *self.interface.arguments]
            for _ in range(CLOCK_ATTEMPTS):
                with self.pair(self.installation, self.namespace, user, variant.program,
                               [*common, *(server_arguments or option.arguments)],
                               [*common, *(client_arguments or option.arguments)],
                               {**self.interface.environment, **option.environment}) as pair:
                    self.assertEqual(pair.wait(SECONDS), (0, 0), pair.report())
                if all(knows_its_clock(side.output) for side in (pair.server, pair.client)):
                    break
            ceiling.measure()
            print(f"\nas {user.name}:{pair.report()}")
            self.assertEqual([row.values["#bytes"] for row in rows_in(pair.client.output)], sizes)
            for line in (option.prints, self.interface.prints):
                self.assertIn(line, pair.client.output)
            for side in (pair.server, pair.client):
                receives = side == pair.server and "send" in variant.program
                # Who only receives has no peak to report, and its clock starts when it sees the first message: by then
                # all of them may be there. A sender whose messages may be lost counts those too, and losing one copies
                # nothing.
                problems = problems_of(side.output, None if variant.may_lose or receives else ceiling,
                                       option.directions, option.timed or receives)
                self.assertEqual(problems, [], pair.report())

    def check_mapped(self, variant, user):
        with mapped_file(user) as servers, mapped_file(user) as clients:
            self.check(variant, MAPPED, user, [f"--mmap={servers}"], [f"--mmap={clients}"])
            if variant.bandwidth and variant.sizes(MAPPED, self.mtu) == [BANDWIDTH_SIZE]:
                self.check_content(variant, first_bytes(servers), first_bytes(clients))

    def check_content(self, variant, server, client):
        """The client's part of its buffer is the first half of its file, the part it reaches at the server the second
        half of the server's; each side filled both halves with different random bytes."""
        source = server if "read" in variant.program else client
        self.assertNotEqual(source[:BANDWIDTH_SIZE], source[BANDWIDTH_SIZE:], "equal halves show nothing")
        self.assertEqual(client[:BANDWIDTH_SIZE], server[BANDWIDTH_SIZE:], "the bytes did not arrive")


def one_each(variants):
    """The last of each program."""
    return list({variant.program: variant for variant in variants}.values())


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
