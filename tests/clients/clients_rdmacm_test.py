"""The other programs of rdmacm-utils: connections (ucmatose, cmtime), datagrams (udaddy), groups (mckey), the
synchronous calls (rdma_client, rdma_xclient).

As root and as nobody; by default users take turns, and counts are small but where one stands for the program.
"""
import re
import signal
import unittest

from addresses import LOOPBACK, LOOPBACK_IPV6, own_addresses
from client_case import ClientCase
from cm_pair import PORT, CmPair
from harness import TEST_ALL, users, wait_until

SECONDS = 120
CONNECTIONS = 1000  # of cmtime
GROUP = "239.1.2.3"
SECONDS_TO_JOIN = 30


class CmProgram(ClientCase):
    def setUp(self):
        self.namespace = self.enterContext(self.agent_namespace())
        self.turn = 0

    def next_users(self):
        """Who runs the next of several runs: all of them with VERBATIM_TEST_ALL=1, else one after the other."""
        self.turn += 1
        return users() if TEST_ALL else [users()[self.turn % len(users())]]

    def check(self, user, program, server, client, says, client_program=None):
        """Runs them; `says`: what the output of each side must match, server and client."""
        with CmPair(self.installation, self.namespace, user, program, server, client,
                    client_program=client_program) as pair:
            self.assertEqual(pair.wait(SECONDS), (0, 0), pair.report())
            for side, pattern in zip((pair.server, pair.client), says):
                self.assertRegex(side.output, re.compile(pattern, re.MULTILINE), pair.report())
                self.assertNotRegex(side.output, r"(?i)error|fail", pair.report())
        return pair

    def each(self, program, server, client, options, says, client_program=None):
        """Each of the options, for both sides."""
        for option in options:
            for user in self.next_users():
                with self.subTest(program=program, options=option, user=user.name):
                    self.check(user, program, [*server, *option], [*client, *option], says, client_program)


class Ucmatose(CmProgram):
    SAYS = 2 * (r"^return status 0$",)

    def test_connections_of_any_number_with_or_without_migration(self):
        self.each("ucmatose", ["-b", LOOPBACK], ["-s", LOOPBACK, "-b", LOOPBACK],
                  [(), ("-c", "100"), ("-m",), ("-m", "-c", "100"), ("-C", "0"), ("-S", "65536"), ("-a", "12")],
                  self.SAYS)

    def test_a_port_space_of_infinibands_own(self):
        self.each("ucmatose", ["-b", LOOPBACK], ["-s", LOOPBACK], [("-P", "ib")], self.SAYS)

    def test_every_address(self):
        for address in (LOOPBACK_IPV6, *own_addresses()):
            self.each("ucmatose", ["-b", "::"], ["-s", address], [()], self.SAYS)


class Udaddy(CmProgram):
    def test_datagrams_of_any_number(self):
        self.each("udaddy", ["-b", LOOPBACK], ["-s", LOOPBACK, "-b", LOOPBACK],
                  [(), ("-c", "20"), ("-p", "0x2"), ("-S", "1000"), ("-C", "0")], 2 * (r"^return status 0$",))


class Mckey(CmProgram):
    def test_each_member_of_a_group_hears_its_messages(self):
        for address in (LOOPBACK, *own_addresses()):
            if ":" not in address:
                for user in self.next_users():
                    with self.subTest(address=address, user=user.name):
                        self.check_group(user, address, GROUP)

    def test_a_group_of_ipv6(self):
        for user in self.next_users():
            self.check_group(user, LOOPBACK_IPV6, "ff0e::9")

    def check_group(self, user, address, group):
        common = ["-m", group, "-b", address]
        with CmPair(self.installation, self.namespace, user, "mckey", common, [*common, "-s"], terminal=True,
                    clients=0) as pair:
            self.assertTrue(wait_until(lambda: "joined dgid" in pair.server.output, SECONDS_TO_JOIN), pair.report())
            pair.start_clients(1)
            self.assertEqual(pair.wait(SECONDS), (0, 0), pair.report())
            for side in (pair.server, pair.client):
                self.assertRegex(side.output, re.compile(r"^return status 0$", re.MULTILINE), pair.report())
            self.assertIn("receiving data transfers", pair.server.output)


class Cmtime(CmProgram):
    def test_a_thousand_connections(self):
        for user in self.next_users():
            with CmPair(self.installation, self.namespace, user, "cmtime", ["-b", LOOPBACK, "-c", str(CONNECTIONS)],
                        ["-s", LOOPBACK, "-c", str(CONNECTIONS)]) as pair:
                self.assertEqual(pair.wait_for_clients(SECONDS), [0], pair.report())
                for step in ("connect", "disconnect", "destroy"):
                    self.assertRegex(pair.client.output, re.compile(rf"^{step} *: +\d+\.\d\d ", re.MULTILINE))
                # The server counts in several threads without a lock, and may wait for ever, on whatever device.
                pair.server.signal(signal.SIGTERM)
                self.assertIn(pair.server.wait(SECONDS), (0, -signal.SIGTERM), pair.report())
                print(pair.client.report(user.name))


class Synchronous(CmProgram):
    def test_client_and_server(self):
        for user in users():
            with self.subTest(user=user.name):
                self.check(user, "rdma_server", ["-s", LOOPBACK, "-p", str(PORT)], ["-s", LOOPBACK, "-p", str(PORT)],
                           (r"^rdma_server: end 0$", r"^rdma_client: end 0$"), "rdma_client")

    def test_extended_client_and_server(self):
        for user in users():
            self.each("rdma_xserver", ["-p", str(PORT)], ["-s", LOOPBACK, "-p", str(PORT)], [("-c", "r"), ("-c", "x")],
                      (r"^rdma_xserver: end 0$", r"^rdma_xclient: end 0$"), "rdma_xclient")


if __name__ == "__main__":
    unittest.main()
