"""`cmake --install` gives a prefix that works wherever it is moved."""
import os
import shutil
import tempfile
import unittest

from tool import BUILD, run


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        installed = f"{folder.name}/installed"
        result = run("cmake", "--install", BUILD, "--prefix", installed)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.prefix = os.path.realpath(f"{folder.name}/moved")
        os.rename(installed, self.prefix)
        self.tool = f"{self.prefix}/bin/verbatim"
        self.folder = f"{self.prefix}/lib/verbatim"

    def test_libraries_agent_tool_header_and_manual_are_there(self):
        for path in ("bin/verbatim", "lib/verbatim/libibverbs.so.1", "lib/verbatim/librdmacm.so.1",
                     "lib/verbatim/verbatim-agent", "include/verbatim/rdma/rdma_verbs.h", "share/man/man1/verbatim.1",
                     "share/man/man3/rdma_get_recv_comp.3verbatim", "share/man/man7/rdma_verbs.7",
                     "share/man/man7/verbatim.7"):
            self.assertTrue(os.path.isfile(f"{self.prefix}/{path}"), path)

    def test_every_link_stays_inside_the_prefix(self):
        for folder, folders, files in os.walk(self.prefix):
            for name in folders + files:
                path = f"{folder}/{name}"
                if os.path.islink(path):
                    self.assertFalse(os.path.isabs(os.readlink(path)), path)
                    self.assertTrue(os.path.exists(path), path)
                    self.assertTrue(os.path.realpath(path).startswith(self.prefix), path)

    def test_the_loader_finds_the_moved_library(self):
        for client, library in (("ibv_devices", "ibverbs"), ("rping", "rdmacm")):
            program = shutil.which(client)
            self.assertTrue(program, f"{client} is not installed")
            for own in ([], ["--only", library]):
                result = run(self.tool, "run", *own, "--", "sh", "-c", 'ldd "$0"', program)
                line = next(l for l in result.stdout.splitlines() if f"lib{library}.so.1 =>" in l)
                self.assertIn(f"=> {self.folder}/", line)

    def test_the_moved_librdmacm_finds_the_libibverbs_beside_it(self):
        result = run("ldd", f"{self.folder}/librdmacm.so.1")
        line = next(l for l in result.stdout.splitlines() if "libibverbs.so.1 =>" in l)
        self.assertIn(f"=> {self.folder}/libibverbs.so.1", line)

    def test_the_moved_tool_sees_the_device(self):
        result = run(self.tool, "devices")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("verbatim0", result.stdout)


if __name__ == "__main__":
    unittest.main()
