"""The package on a Debian system that has nothing else, made by debootstrap; and the same source built there for aarch64.

Only with VERBATIM_TEST_ALL=1, as root, where a mirror can be reached: it downloads a few hundred megabytes.
"""
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from tool import BUILD, SOURCE, run

MIRROR = "http://deb.debian.org/debian"
RELEASE = "bookworm"
PROGRAMS = "ibverbs-utils,perftest"
CROSS = "g++-aarch64-linux-gnu cmake ninja-build python3 libcli11-dev libfmt-dev:arm64 libibverbs-dev:arm64 librdmacm-dev:arm64"
SECONDS = 900


def lack():
    """Why there can be no clean system here; empty if there can."""
    if os.environ.get("VERBATIM_TEST_ALL", "") in ("", "0"):
        return "only with VERBATIM_TEST_ALL=1"
    if os.geteuid() != 0:
        return "only root can make a system"
    return "" if shutil.which("debootstrap") else "there is no debootstrap"


@unittest.skipIf(lack(), lack())
class CleanSystem(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = f"{folder.name}/root"
        result = subprocess.run(["debootstrap", "--variant=minbase", f"--include={PROGRAMS}", RELEASE, cls.root, MIRROR],
                                capture_output=True, text=True, check=False, timeout=SECONDS)
        if result.returncode != 0:
            raise RuntimeError(result.stdout + result.stderr)
        for file in ("/etc/resolv.conf", "/etc/hosts"):
            shutil.copyfile(file, cls.root + file)
        packed = run("cpack", "-G", "DEB", "-B", folder.name, cwd=BUILD)
        assert packed.returncode == 0, packed.stdout + packed.stderr
        (package,) = glob.glob(f"{folder.name}/*.deb")
        shutil.copyfile(package, f"{cls.root}/verbatim.deb")

    def inside(self, script):
        """What a shell in the system prints. Its mounts go with it, and so does whatever it started."""
        mounts = ('mount -t proc proc "$0/proc" && mount -t sysfs -o ro sysfs "$0/sys" && '
                  'mount --bind /dev "$0/dev" && mount -t tmpfs tmpfs "$0/dev/shm" && '
                  'mkdir -p "$0/source" && mount --bind -o ro "$1" "$0/source" && exec chroot "$0" /bin/sh -ec "$2"')
        result = subprocess.run(
            ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "sh", "-ec", mounts,
             self.root, SOURCE, script],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C",
                 **{k: v for k, v in os.environ.items() if k.lower().endswith("_proxy")}},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_the_package_is_installed_used_and_removed(self):
        self.inside("dpkg --install /verbatim.deb")
        self.assertIn("verbatim0", self.inside("verbatim devices"))
        self.assertIn("verbatim0", self.inside("verbatim run -- ibv_devices"))
        self.inside("verbatim doctor")
        printed = self.inside("""
            verbatim run -- ib_write_bw -d verbatim0 -F -n 1000 >/server 2>&1 &
            until grep -qsE ':4853 [0-9A-F]+:0000 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
            verbatim run -- ib_write_bw -d verbatim0 -F -n 1000 127.0.0.1
            wait $!""")
        self.assertRegex(printed, re.compile(r"^\s*65536\s+1000\s", re.MULTILINE))
        self.inside("dpkg --purge verbatim")
        self.assertEqual(self.inside("find / -xdev -name '*verbatim*' -not -path '/verbatim.deb' -not -path '/source/*' "
                                     "-not -path '/proc/*' -not -path '/var/log/*'"), "")

    def test_the_source_builds_for_aarch64(self):
        self.inside(f"dpkg --add-architecture arm64 && apt-get update -qq && "
                    f"apt-get install -y -qq --no-install-recommends {CROSS}")
        self.inside("""
            cmake -S /source -B /cross -G Ninja -DCMAKE_BUILD_TYPE=Release -DVERBATIM_TESTS=OFF -DVERBATIM_BENCH=OFF \
                -DCMAKE_TOOLCHAIN_FILE=/source/cmake/aarch64.cmake
            ninja -C /cross""")
        for file in ("bin/verbatim", "lib/verbatim/libibverbs.so.1", "lib/verbatim/librdmacm.so.1",
                     "lib/verbatim/verbatim-agent"):
            header = run("readelf", "--file-header", f"{self.root}/cross/{file}").stdout
            self.assertRegex(header, r"Machine:\s+AArch64", file)


if __name__ == "__main__":
    unittest.main()
