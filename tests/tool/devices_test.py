"""`verbatim devices` shows what the verbs say."""
import ipaddress
import os
import re
import socket
import unittest

from tool import TOOL, InPrefix, run

ROW = re.compile(r"^  (\d+) +(\d+) +(IB|RoCE v1|RoCE v2) +(\S+) +(\S+)$")


class Devices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.result = run(TOOL, "devices")
        cls.lines = cls.result.stdout.splitlines()
        cls.gids = [match.groups() for match in map(ROW.match, cls.lines) if match]

    def test_there_is_one_device_with_a_guid(self):
        self.assertEqual(self.result.returncode, 0, self.result.stderr)
        named = [line for line in self.lines if not line.startswith(" ")]
        self.assertEqual(len(named), 1, self.result.stdout)
        guid = re.fullmatch(r"verbatim0  node GUID ((?:[0-9a-f]{4}:){3}[0-9a-f]{4})", named[0])
        self.assertTrue(guid, named[0])
        self.assertNotEqual(guid.group(1), "0000:0000:0000:0000")

    def test_its_port_is_active(self):
        port = re.fullmatch(r"  port 1: active, active MTU (256|512|1024|2048|4096), Ethernet", self.lines[1])
        self.assertTrue(port, self.result.stdout)

    def test_each_gid_has_an_index_a_type_an_address_and_an_interface(self):
        self.assertTrue(self.gids, self.result.stdout)
        self.assertEqual(len({index for _, index, *_ in self.gids}), len(self.gids))
        interfaces = {name for _, name in socket.if_nameindex()}
        for port, _, kind, address, interface in self.gids:
            self.assertEqual((port, kind), ("1", "RoCE v2"))
            self.assertFalse(ipaddress.IPv6Address(address).is_unspecified)
            self.assertIn(interface, interfaces)

    def test_the_loopback_address_is_a_gid(self):
        self.assertIn("::ffff:127.0.0.1", [address for *_, address, _ in self.gids])


class WithoutLibrary(InPrefix):
    def test_a_library_that_cannot_be_loaded_is_named(self):
        self.assert_refused(self.verbatim("devices"), 1, "libibverbs.so.1")  # the prefix holds an empty file
        os.remove(f"{self.folder}/libibverbs.so.1")
        self.assert_refused(self.verbatim("devices"), 1, "libibverbs.so.1")


if __name__ == "__main__":
    unittest.main()
