"""The programs of examples/, built against the distribution's headers and library, on ours: as root and as nobody."""
import contextlib
import os
import shutil
import unittest

from client_case import ClientCase
from harness import Process, environment_of, users, wait_until
from pair import HOST, LISTENS, SECONDS_TO_LISTEN, has_socket, reserved_port

SECONDS = 60

# (program, what each side prints)
PROGRAMS = (("send_recv", "received 8192 bytes", "sent 8192 bytes"),
            ("write_event", "was written 1048576 bytes", "wrote 1048576 bytes"))


class Examples(ClientCase):
    def test_each_program_moves_its_data(self):
        for program, server_says, client_says in PROGRAMS:
            for user in users():
                with self.subTest(program=program, user=user.name), self.agent_namespace() as namespace:
                    server, client = self.run_pair(program, user, namespace)
                    self.assertEqual((server.output.strip(), client.output.strip()), (server_says, client_says))
                    print(client.report(user.name))

    def run_pair(self, program, user, namespace):
        # Where every user can read it.
        path = shutil.copy2(f"{os.environ['BUILD_FOLDER']}/tests/examples/{program}", self.installation.folder)
        with contextlib.ExitStack() as cleanup:
            port = cleanup.enter_context(reserved_port())

            def start(*arguments):
                process = Process(self.installation.command(user, path, str(port), *arguments),
                                  environment_of(namespace), self.installation.folder)
                cleanup.callback(process.end)
                return process

            server = start()
            wait_until(lambda: has_socket(port, LISTENS) or server.status is not None, SECONDS_TO_LISTEN)
            self.assertTrue(has_socket(port, LISTENS), server.report("the server does not listen"))
            client = start(HOST)
            for process in (client, server):
                self.assertEqual(process.wait(SECONDS), 0, server.report("server") + "\n" + client.report("client"))
        return server, client


if __name__ == "__main__":
    unittest.main()
