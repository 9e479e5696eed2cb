"""ibv_devices, ibv_devinfo and ibv_asyncwatch see a device that an application would use."""
import os
import re
import signal
import time
import unittest

from client_case import ClientCase
from devices import fields_in, gid_kinds, gids_in
from harness import Process, environment_of, users, wait_until

SECONDS = 30
SECONDS_ASLEEP = 0.5

# Fields of ibv_devinfo -v that no useful device has at zero.
LIMITS = ("max_mr_size", "max_mr", "max_pd", "max_qp", "max_qp_wr", "max_cq", "max_cqe", "max_sge", "max_sge_rd",
          "max_qp_rd_atom", "max_qp_init_rd_atom", "max_res_rd_atom", "max_pkeys", "num_comp_vectors")


class Devices(ClientCase):
    def for_each_user(self, check, *program, terminal=False):
        """Runs the program as each user and hands it to `check` while it runs."""
        for user in users():
            with self.subTest(user=user.name), self.agent_namespace() as namespace:
                process = Process(self.installation.command(user, *program), environment_of(namespace),
                                  self.installation.folder, terminal)
                try:
                    check(process)
                    print(process.report(user.name))
                finally:
                    process.end()

    def output_of(self, process):
        """Of a program that must end well."""
        self.assertEqual(process.wait(SECONDS), 0, process.report("failed"))
        return process.output

    def test_ibv_devices_lists_the_device_and_nothing_else(self):
        def check(process):
            lines = [line.split() for line in self.output_of(process).splitlines()]
            rows = [line for line in lines if len(line) == 2 and re.fullmatch("[0-9a-f]{16}", line[1])]
            self.assertEqual([name for name, _ in rows], ["verbatim0"], process.output)
            self.assertNotEqual(int(rows[0][1], 16), 0, "the GUID is zero")

        self.for_each_user(check, "ibv_devices")

    def test_ibv_devinfo_shows_an_active_ethernet_port(self):
        def check(process):
            fields = fields_in(self.output_of(process))
            self.assertEqual(fields["hca_id"], "verbatim0")
            self.assertEqual(fields["phys_port_cnt"], "1")
            self.assertEqual(fields["state"], "PORT_ACTIVE (4)")
            self.assertEqual(fields["link_layer"], "Ethernet")
            self.assertRegex(fields["transport"], "^InfiniBand")
            self.assertRegex(fields["active_mtu"], r"^(256|512|1024|2048|4096) \([1-5]\)$")
            self.assertRegex(fields["node_guid"], "[1-9a-f]")

        self.for_each_user(check, "ibv_devinfo", "-v")

    def test_ibv_devinfo_shows_limits_above_zero(self):
        def check(process):
            fields = fields_in(self.output_of(process))
            for name in LIMITS:
                self.assertGreater(int(fields[name], 0), 0, name)

        self.for_each_user(check, "ibv_devinfo", "-v")

    def test_ibv_devinfo_shows_gids_that_reach_this_host(self):
        def check(process):
            gids = gids_in(self.output_of(process))
            self.assertFalse(gids[0].is_unspecified, process.output)
            self.assertTrue({"IPv4", "IPv4 loopback"} & gid_kinds(gids).keys(), gids)

        self.for_each_user(check, "ibv_devinfo", "-v")

    def test_ibv_asyncwatch_waits_without_using_the_processor_until_it_is_ended(self):
        def check(process):
            started = wait_until(lambda: "async event FD" in process.output or process.status is not None, SECONDS)
            self.assertTrue(started and process.status is None, process.report("did not start"))
            asleep = wait_until(lambda: is_asleep(process.pid), SECONDS)
            before = processor_time(process.pid)
            time.sleep(SECONDS_ASLEEP)  # a measured interval, not a wait for something
            self.assertTrue(asleep and is_asleep(process.pid), process.report("does not sleep"))
            self.assertEqual(processor_time(process.pid), before)
            process.signal(signal.SIGTERM)
            self.assertEqual(process.wait(SECONDS), -signal.SIGTERM, process.report("did not end"))

        self.for_each_user(check, "ibv_asyncwatch", terminal=True)


def statistics(pid):
    """proc_pid_stat(5) from its third field on."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def is_asleep(pid):
    return statistics(pid)[0] == "S"


def processor_time(pid):
    """In seconds, of all its threads."""
    user, system = statistics(pid)[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    unittest.main()
