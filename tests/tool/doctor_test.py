"""`verbatim doctor`, installed: every user, and machines that allow less than this one."""
import ctypes
import errno
import os
import platform
import re
import struct
import tempfile
import unittest

from tool import BUILD, NOBODY, run

LINE = re.compile(r"^(ok|note|slower|missing) +([A-Za-z ]+): (\S.*)\. ([A-Z'].*\.)$")
CHECKS = ["ptrace scope", "seccomp", "peer memory", "shared files", "shared tables", "seals", "doorbells", "deaths",
          "abstract sockets", "descriptor passing", "robust futexes", "membarrier", "restartable sequences", "user",
          "namespaces",
          "user namespaces", "descriptors", "locked memory", "address space", "file size", "memory", "processors",
          "environment", "library", "agent", "other libraries", "RDMA devices"]

# asm/unistd.h
CALLS = {"x86_64": {"process_vm_readv": 310, "set_robust_list": 273, "membarrier": 324},
         "aarch64": {"process_vm_readv": 270, "set_robust_list": 99, "membarrier": 283}}
# linux/seccomp.h, linux/prctl.h
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
RETURN_ERRNO, RETURN_ALLOW, RETURN_KILL = 0x00050000, 0x7fff0000, 0x80000000


def forbid(call, answer):
    """For preexec_fn: from here on the kernel gives that answer to a system call."""
    number = CALLS[platform.machine()][call]
    load, equal, give = 0x20, 0x15, 0x06  # linux/bpf_common.h
    program = b"".join(struct.pack("=HBBI", *step) for step in
                       ((load, 0, 0, 0), (equal, 0, 1, number), (give, 0, 0, answer), (give, 0, 0, RETURN_ALLOW)))
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_ = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)

    def install(_program=buffer):  # the filter names it by address only
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_):
            raise OSError(ctypes.get_errno(), "seccomp")
    return install


class Doctor(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        self.prefix = f"{folder.name}/installed"
        result = run("cmake", "--install", BUILD, "--prefix", self.prefix)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.tool = f"{self.prefix}/bin/verbatim"
        self.folder = f"{self.prefix}/lib/verbatim"

    def doctor(self, *before, **options):
        """The marks by name, those of one name joined, and the exit status, after every line was looked at."""
        result = run(*before, self.tool, "doctor", **options)
        self.assertEqual(result.stderr, "")
        *lines, verdict = result.stdout.splitlines()
        marks = {}
        for line in lines:
            match = LINE.match(line)
            self.assertTrue(match, line)
            mark, name = match.group(1, 2)
            marks[name] = f"{marks[name]} {mark}" if name in marks else mark
        self.assertEqual(list(marks), CHECKS)
        missing = [name for name, mark in marks.items() if "missing" in mark]
        self.assertEqual(verdict, f"Programs cannot run here as on an RDMA NIC: see {', '.join(missing)}." if missing
                         else "Programs can run here.")
        self.assertEqual(result.returncode, 1 if missing else 0)
        self.output = result.stdout
        return marks, result.returncode

    def test_programs_can_run_here_whoever_asks(self):
        users = [()]
        if os.getuid() == 0:
            users.append(("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"))
        for user in users:
            self.assertEqual(self.doctor(*user)[1], 0, self.output)
        self.assertIn(f"the user ID is {NOBODY if os.getuid() == 0 else os.getuid()}.", self.output)

    def test_too_few_descriptors_are_missing_and_few_are_noted(self):
        for number, mark in ((6, "missing"), (16, "missing"), (17, "note"), (30, "note")):
            marks, status = self.doctor("prlimit", f"--nofile={number}:{number}", "--")
            self.assertEqual((marks["descriptors"], status), (mark, 1 if mark == "missing" else 0))
            self.assertIn(f"RLIMIT_NOFILE is {number} ", self.output)

    def test_tables_need_address_space_and_length(self):
        limits = {"--fsize=1000000": "file size", "--as=500000000": "address space"}
        if os.environ.get("SANITIZER"):
            del limits["--as=500000000"]  # what is instrumented does not start with so little
        for limit, name in limits.items():
            marks, _ = self.doctor("prlimit", limit, "--")
            self.assertEqual([name for name, mark in marks.items() if mark == "missing"], [name])

    def test_a_filter_of_system_calls_is_found_by_trying(self):
        for answer, mark, words in ((RETURN_ERRNO | errno.EPERM, "slower", "not permitted"),
                                    (RETURN_KILL, "missing", "is killed")):
            marks, status = self.doctor(preexec_fn=forbid("process_vm_readv", answer))
            self.assertEqual((marks["peer memory"], marks["shared files"], status),
                             (mark, "ok", 1 if mark == "missing" else 0))
            self.assertRegex(self.output, f"peer memory: .*{words}.*seccomp filter")

    def test_programs_run_without_membarrier_and_robust_futexes(self):
        for call, name, mark in (("membarrier", "membarrier", "slower"), ("set_robust_list", "robust futexes", "note")):
            marks, status = self.doctor(preexec_fn=forbid(call, RETURN_ERRNO | errno.ENOSYS))
            self.assertEqual((marks[name], status), (mark, 0))

    def test_programs_run_without_restartable_sequences(self):
        marks, status = self.doctor(env={**os.environ, "GLIBC_TUNABLES": "glibc.pthread.rseq=0"})
        self.assertEqual((marks["restartable sequences"], status), ("note", 0))

    def test_an_installation_that_is_not_whole_is_missing_something(self):
        os.chmod(f"{self.folder}/verbatim-agent", 0o644)
        self.assertEqual(self.doctor()[0]["agent"], "missing")
        os.remove(f"{self.folder}/verbatim-agent")
        with open(f"{self.folder}/libibverbs.so.1", "wb"):
            pass
        marks, _ = self.doctor()
        self.assertEqual((marks["agent"], marks["library"]), ("missing", "missing"))

    def test_other_libraries_are_found_where_they_come_first(self):
        os.makedirs(f"{self.prefix}/other")
        with open(f"{self.prefix}/other/libibverbs.so.1", "wb"):
            pass
        marks, status = self.doctor(env={"LD_LIBRARY_PATH": f"/nowhere::{self.prefix}/other"})
        self.assertEqual((marks["other libraries"], status), ("note", 0))
        self.assertEqual(self.doctor(env={"LD_LIBRARY_PATH": self.folder})[0]["other libraries"], "ok")

    def test_a_misspelt_variable_is_noted(self):
        marks, status = self.doctor(env={"VERBATIM_LOGG": "warn", "VERBATIM_LOG": "off"})
        self.assertEqual((marks["environment"], status), ("note ok", 0))

    def test_an_argument_is_a_usage_error(self):
        self.assertEqual(run(self.tool, "doctor", "now").returncode, 2)


if __name__ == "__main__":
    unittest.main()
