"""The pingpong programs run, and find the bytes that they sent.

By default as few runs as have each option, size and kind of GID once, users taking turns; VERBATIM_TEST_ALL=1 runs each
size with each option over each GID as each user.
"""
import unittest

from client_case import ClientCase
from devices import gid_kinds
from harness import TEST_ALL, users
from pair import Pair
from pingpong import PROGRAMS, XRC, Case, cases, problems_of

SECONDS = 60
XRC_CLIENTS = 3


class Pingpong(ClientCase):
    def setUp(self):
        port = self.port()
        self.mtu = port.mtu
        self.gid_indexes = sorted(port.gids if TEST_ALL else gid_kinds(port.gids).values())

    def test_each_program_with_its_options(self):
        for program in PROGRAMS:
            with self.agent_namespace() as namespace:
                for case in cases(program, self.mtu, self.gid_indexes):
                    for user in users() if TEST_ALL else [self.whose_turn(program, case)]:
                        with self.subTest(program=program.name, user=user.name, **case._asdict()):
                            self.check(program, case, user, namespace)

    @staticmethod
    def whose_turn(program, case):
        """Each option comes to each user."""
        return users()[(case.turn + case.turn // len(program.options)) % len(users())]

    def test_xrc_queue_of_one_server_takes_from_many_clients(self):
        for user in users():
            for options in XRC.options if TEST_ALL else XRC.options[:2]:
                with self.subTest(user=user.name, options=options), self.agent_namespace() as namespace:
                    self.check(XRC, Case(0, options, 4096, 0), user, namespace, XRC_CLIENTS)

    def check(self, program, case, user, namespace, clients=1):
        arguments = case.arguments(program)
        server = [*arguments, "-c", str(clients)] if clients > 1 else arguments
        with Pair(self.installation, namespace, user, program.name, server, arguments, clients=clients) as pair:
            statuses = pair.wait(SECONDS)
        problems = [problem for side in (pair.server, *pair.clients)
                    for problem in problems_of(program, case, side.output)]
        self.assertEqual((*statuses, problems), (0,) * (1 + clients) + ([],), pair.report())


if __name__ == "__main__":
    unittest.main()
