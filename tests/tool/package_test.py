"""`cpack -G DEB` makes a package that works from wherever it is unpacked."""
import glob
import os
import subprocess
import tempfile
import unittest

from tool import BUILD, run

FILES = ("bin/verbatim", "lib/verbatim/libibverbs.so.1", "lib/verbatim/only/ibverbs/libibverbs.so.1",
         "lib/verbatim/librdmacm.so.1", "lib/verbatim/only/rdmacm/librdmacm.so.1", "lib/verbatim/verbatim-agent",
         "include/verbatim/rdma/rdma_verbs.h", "share/doc/verbatim/copyright", "share/man/man1/verbatim.1",
         "share/man/man7/verbatim.7")


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        result = run("cpack", "-G", "DEB", "-B", folder.name, cwd=BUILD)
        assert result.returncode == 0, result.stdout + result.stderr
        (cls.package,) = glob.glob(f"{folder.name}/*.deb")
        cls.prefix = f"{folder.name}/unpacked/usr"
        subprocess.run(["dpkg-deb", "--extract", cls.package, f"{folder.name}/unpacked"], check=True, timeout=60)

    def field(self, name):
        return run("dpkg-deb", "--field", self.package, name).stdout.strip()

    def test_it_is_named_as_debian_names_packages(self):
        self.assertEqual(self.field("Package"), "verbatim")
        self.assertEqual(os.path.basename(self.package),
                         f"verbatim_{self.field('Version')}_{self.field('Architecture')}.deb")

    def test_it_needs_the_c_library_only(self):
        self.assertRegex(self.field("Depends"), r"^libc6 \(>= [0-9.]+\)$")

    def test_everything_is_in_it_and_nothing_of_the_systems_own(self):
        for path in FILES:
            self.assertTrue(os.path.isfile(f"{self.prefix}/{path}"), path)
        self.assertEqual(sorted(os.listdir(f"{self.prefix}/lib")), ["verbatim"])
        self.assertEqual(sorted(os.listdir(f"{self.prefix}/include")), ["verbatim"])

    def test_all_that_runs_when_it_is_installed_is_ldconfig(self):
        # CPack adds that for every library one folder below /usr/lib; it does not look into our folder.
        subprocess.run(["dpkg-deb", "--control", self.package, f"{self.folder}/control"], check=True, timeout=60)
        for script in set(os.listdir(f"{self.folder}/control")) - {"control", "md5sums"}:
            with open(f"{self.folder}/control/{script}", encoding="utf-8") as text:
                commands = [line.strip() for line in text if line.strip() and not line.startswith("#")]
            self.assertRegex(" ".join(commands), r"^set -e if \[.*\]; then ldconfig fi$", script)

    def test_the_unpacked_tool_sees_the_device(self):
        result = run(f"{self.prefix}/bin/verbatim", "devices")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("verbatim0", result.stdout)


if __name__ == "__main__":
    unittest.main()
