"""rping: a ping by SEND, RDMA READ and RDMA WRITE over connections of rdma_cm.

By default as few runs as have each option, size and address once, users taking turns; VERBATIM_TEST_ALL=1 runs each
size with each option at each address as each user.
"""
import os
import signal
import unittest

from addresses import all_addresses
from client_case import ClientCase
from cm_pair import PORT, CmPair
from harness import TEST_ALL, users, wait_until
from rping import pings_in, runs

SECONDS = 60
PINGS = 3
CLIENTS = 50


class Rping(ClientCase):
    def setUp(self):
        self.namespace = self.enterContext(self.agent_namespace())

    def pair(self, user, server, client, clients=1):
        return CmPair(self.installation, self.namespace, user, "rping", ["-s", "-v", "-V", "-p", str(PORT), *server],
                      ["-c", "-v", "-V", "-C", str(PINGS), "-p", str(PORT), *client], clients=clients)

    def check_client(self, client, pair):
        self.assertEqual(pings_in(client.output, "client"), list(range(PINGS)), pair.report())
        self.assertNotIn("mismatch", client.output, pair.report())

    def test_pings_come_back_as_they_went(self):
        for options, size, address, user in runs(all_addresses(), users()):
            with self.subTest(options=options, size=size, address=address, user=user.name):
                server = ["-a", address, "-C", str(PINGS), "-S", str(size), *options]
                with self.pair(user, server, ["-a", address, "-S", str(size), *options]) as pair:
                    self.assertEqual(pair.wait(SECONDS), (0, 0), pair.report())
                    self.check_client(pair.client, pair)
                    self.assertEqual(pings_in(pair.server.output, "server"), list(range(PINGS)), pair.report())

    def test_a_server_that_stays_serves_one_after_the_other_and_many_together(self):
        for turn, clients in enumerate((1, CLIENTS)):
            for user in users() if TEST_ALL else [users()[turn % len(users())]]:
                with self.subTest(clients=clients, user=user.name), \
                        self.pair(user, ["-P", "-a", "0.0.0.0"], ["-a", "127.0.0.1"], clients=1) as pair:
                    self.assertEqual(pair.wait_for_clients(SECONDS), [0], pair.report())
                    self.start_one_by_one(pair, clients)
                    self.assertEqual(pair.wait_for_clients(SECONDS), [0] * clients, pair.report())
                    for client in pair.clients:
                        self.check_client(client, pair)
                    self.assertIsNone(pair.server.status, pair.report())
                    pair.server.signal(signal.SIGTERM)
                    self.assertEqual(pair.server.wait(SECONDS), -signal.SIGTERM, pair.report())

    def start_one_by_one(self, pair, clients):
        """Each when the server has taken the one before: rping loses a request that comes while it takes another, on
        whatever device."""
        pair.start_clients(0)
        for _ in range(clients):
            threads = len(os.listdir(f"/proc/{pair.server.pid}/task"))
            client = pair.add_client()

            # Its second thread waits for completions; the first alone may be followed by the second of one before.
            def taken():
                return len(os.listdir(f"/proc/{pair.server.pid}/task")) >= threads + 2 or client.status is not None

            self.assertTrue(wait_until(taken, SECONDS), pair.report())


if __name__ == "__main__":
    unittest.main()
