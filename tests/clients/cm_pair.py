"""A program against itself whose sides find each other by rdma_cm: nobody outside sees when its server listens."""
import re
import time

from harness import LOOK_AGAIN
from pair import DEVICE, HOST, SECONDS_TO_LISTEN, SECONDS_TO_GIVE_UP, Pair

PORT = 7174  # each agent namespace has ports of its own

# What clients print when nobody listens yet: a connection is rejected with 8, a service of datagrams is unknown (1).
NOBODY_LISTENS = re.compile(r"RDMA_CM_EVENT_REJECTED, error:? 8\b|RDMA_CM_EVENT_UNREACHABLE, error:? 1\b|"
                            r"[Cc]onnection refused")


class CmPair(Pair):
    """`server`, `client`: their arguments as a whole. A client that came too early is started again."""
    nobody_listens = NOBODY_LISTENS

    def __init__(self, installation, namespace, user, program, server, client, environment=None, terminal=False,
                 clients=1, client_program=None):
        super().__init__(installation, namespace, user, program, server, client, environment, terminal, clients)
        self._programs = {"server": program, "client": client_program or program}
        self._begin = time.monotonic()

    def _choose_port(self):
        return PORT

    def _await_server(self):
        pass

    def _command(self, side, *_):
        return [self._programs[side], *self._arguments[side]]

    def wait(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._settled():
            time.sleep(LOOK_AGAIN)
        return super().wait(max(deadline - time.monotonic(), 0))

    def start_clients(self, number):
        """In the place of those that there are."""
        self.clients = [self._start("client") for _ in range(number)]

    def add_client(self):
        self.clients.append(self._start("client"))
        return self.clients[-1]

    def wait_for_clients(self, seconds):
        """Of a server that ends when it is told to: the clients' exit statuses, None for one that had to be ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._settled():
            time.sleep(LOOK_AGAIN)
        statuses = [client.wait(max(deadline - time.monotonic(), 0)) for client in self.clients]
        for client in self.clients:
            client.end()
        return statuses

    def _settled(self):
        """Starts those again that came too early. Whether all clients have ended, or one has failed."""
        for number, client in enumerate(self.clients):
            if client.status and self._came_too_early(client):
                self.clients[number] = self._start("client")
        statuses = [client.status for client in self.clients]
        return any(statuses) or None not in statuses

    def _came_too_early(self, client):
        late = time.monotonic() - self._begin > SECONDS_TO_LISTEN
        return not late and self.server.status is None and client.wait(SECONDS_TO_GIVE_UP) is not None and \
            self.nobody_listens.search(client.output) is not None


class CmPerftest(CmPair):
    """perftest with -R, in the place of Pair. It prints the number of the event that it did not expect at first."""
    nobody_listens = re.compile(r"Unexpected CM event bl blka 8\b")

    def __init__(self, installation, namespace, user, program, arguments, client_arguments=None, environment=None):
        common = ["-d", DEVICE, "-p", str(PORT), "-R"]
        super().__init__(installation, namespace, user, program, [*common, *arguments],
                         [*common, *(client_arguments or arguments), HOST], environment)
