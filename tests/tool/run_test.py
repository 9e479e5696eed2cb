"""`verbatim run`: what it sets, what it leaves alone, what it refuses."""
import os
import struct
import tempfile
import unittest

from tool import NOBODY, InPrefix, clean_environment

PRINT_PATH = ("sh", "-c", 'printf %s "$LD_LIBRARY_PATH"')


def without_path(environment):
    return {k: v for k, v in environment.items() if k != "LD_LIBRARY_PATH"}


def mount_ignores_setuid():
    return bool(os.statvfs(tempfile.gettempdir()).f_flag & os.ST_NOSUID)


class SearchPath(InPrefix):
    def test_our_folder_is_the_library_path(self):
        self.assertEqual(self.verbatim("run", "--", *PRINT_PATH).stdout, self.folder)

    def test_our_folder_comes_before_what_was_there(self):
        result = self.verbatim("run", "--", *PRINT_PATH, env={"LD_LIBRARY_PATH": "/first:/second"})
        self.assertEqual(result.stdout, f"{self.folder}:/first:/second")

    def test_an_empty_path_does_not_become_the_current_folder(self):
        result = self.verbatim("run", "--", *PRINT_PATH, env={"LD_LIBRARY_PATH": ""})
        self.assertEqual(result.stdout, self.folder)

    def test_nothing_else_of_the_environment_changes(self):
        result = self.verbatim("run", "env", "-0", env={"ODD": "a\nb", "EMPTY": ""})
        after = dict(entry.split("=", 1) for entry in result.stdout.split("\0") if entry)
        self.assertEqual(without_path(after), {**clean_environment(), "ODD": "a\nb", "EMPTY": ""})
        self.assertEqual(after["LD_LIBRARY_PATH"], self.folder)

    def test_a_link_to_the_tool_finds_the_tools_own_libraries(self):
        os.makedirs(f"{self.prefix}/elsewhere/bin")
        link = f"{self.prefix}/elsewhere/bin/v"
        os.symlink(self.tool, link)
        self.tool = link
        self.assertEqual(self.verbatim("run", "--", *PRINT_PATH).stdout, self.folder)

    def test_a_moved_prefix_works(self):
        moved = f"{self.prefix}/moved"
        os.makedirs(moved)
        os.rename(f"{self.prefix}/bin", f"{moved}/bin")
        os.rename(f"{self.prefix}/lib", f"{moved}/lib")
        self.tool = f"{moved}/bin/verbatim"
        self.assertEqual(self.verbatim("run", "--", *PRINT_PATH).stdout, f"{moved}/lib/verbatim")

    def test_a_prefix_that_the_loader_cannot_be_told_is_refused(self):
        odd = f"{self.prefix}/a:b"
        os.makedirs(odd)
        os.rename(f"{self.prefix}/bin", f"{odd}/bin")
        os.rename(f"{self.prefix}/lib", f"{odd}/lib")
        self.tool = f"{odd}/bin/verbatim"
        self.assert_refused(self.verbatim("run", "true"), 126, "':'")

    def test_an_installation_without_libraries_is_refused(self):
        for file in ("libibverbs.so.1", "librdmacm.so.1"):
            os.remove(f"{self.folder}/{file}")
        self.assert_refused(self.verbatim("run", "true"), 126, self.folder)


class Only(InPrefix):
    def test_just_the_named_libraries_are_in_the_path(self):
        result = self.verbatim("run", "--only", "ibverbs", "--", *PRINT_PATH)
        self.assertEqual(result.stdout, f"{self.folder}/only/ibverbs")
        self.assertEqual(os.listdir(result.stdout), ["libibverbs.so.1"])
        result = self.verbatim("run", "--only=ibverbs,rdmacm", *PRINT_PATH)
        self.assertEqual(result.stdout, f"{self.folder}/only/ibverbs:{self.folder}/only/rdmacm")

    def test_a_library_this_installation_lacks_is_refused(self):
        self.assert_refused(self.verbatim("run", "--only", "ibverbs,rpma", "true"), 126, "librpma.so.0")

    def test_a_link_whose_library_is_gone_is_refused(self):
        os.remove(f"{self.folder}/libibverbs.so.1")
        self.assert_refused(self.verbatim("run", "--only", "ibverbs", "true"), 126, "libibverbs.so.1")

    def test_an_unknown_library_is_a_usage_error(self):
        self.assert_refused(self.verbatim("run", "--only", "ibumad", "true"), 2, "ibumad")

    def test_no_library_at_all_is_a_usage_error(self):
        self.assert_refused(self.verbatim("run", "--only"), 2, "--only")


class Program(InPrefix):
    def arguments_seen(self, *own, program):
        return self.verbatim("run", *own, *program).stdout.split("\0")[:-1]

    def test_arguments_arrive_as_they_were_given(self):
        odd = ["cat", "/proc/self/cmdline", "--"]
        self.assertEqual(self.arguments_seen("--", program=odd), odd)
        odd = [self.file("show", b'#!/bin/sh\nprintf "%s\\0" "$@"\n'), "", "[a,b]", "--only", "x", "-h", "--", "--version"]
        for own in ([], ["--"], ["--only", "ibverbs"], ["--only", "ibverbs", "--"]):
            self.assertEqual(self.arguments_seen(*own, program=odd), odd[1:])

    def test_the_exit_status_is_the_programs(self):
        for status in (0, 1, 2, 37, 126, 255):
            self.assertEqual(self.verbatim("run", "sh", "-c", f"exit {status}").returncode, status)

    def test_a_signal_ends_it_as_it_would_the_program(self):
        self.assertEqual(self.verbatim("run", "sh", "-c", "kill -TERM $$").returncode, -15)

    def test_a_script_without_interpreter_line_runs(self):
        self.assertEqual(self.verbatim("run", self.file("script", b"exit 5\n")).returncode, 5)

    def test_a_program_in_the_current_folder_runs_with_an_empty_path_element(self):
        self.file("here", b"#!/bin/sh\nexit 6\n")
        result = self.verbatim("run", "here", env={"PATH": ":/usr/bin"}, cwd=self.prefix)
        self.assertEqual(result.returncode, 6, result.stderr)

    def test_an_unfit_file_early_in_the_path_does_not_hide_a_fit_one(self):
        os.makedirs(f"{self.prefix}/early")
        self.file("early/true", b"", 0o644)
        result = self.verbatim("run", "true", env={"PATH": f"{self.prefix}/early:{os.environ['PATH']}"})
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_no_program_is_a_usage_error(self):
        for arguments in (["run"], ["run", "--"], ["run", "--only", "ibverbs"]):
            self.assert_refused(self.verbatim(*arguments), 2, "program")

    def test_an_unknown_option_or_command_is_a_usage_error(self):
        self.assert_refused(self.verbatim("run", "--quick", "true"), 2, "--quick")
        self.assert_refused(self.verbatim("--quick"), 2)
        self.assert_refused(self.verbatim("walk", "true"), 2)
        self.assert_refused(self.verbatim(), 2)

    def test_a_missing_program_is_not_found(self):
        self.assert_refused(self.verbatim("run", "no-such-program"), 127, "no-such-program")
        self.assert_refused(self.verbatim("run", "./no/such/program"), 127, "./no/such/program")

    def test_a_missing_interpreter_is_not_found(self):
        self.assert_refused(self.verbatim("run", self.file("script", b"#!/no/such/shell\n")), 127, "script")

    def test_what_is_not_executable_is_refused(self):
        self.assert_refused(self.verbatim("run", self.file("plain", b"exit 0\n", 0o644)), 126, "not executable")
        self.assert_refused(self.verbatim("run", self.prefix), 126, "directory")


class OutOfReach(InPrefix):
    """Programs for which the loader ignores the path, or that have no loader."""

    def setUp(self):
        super().setUp()
        with open(self.tool, "rb") as tool:
            self.tools_header = tool.read(64)

    def elf(self, name, bits, machine):
        """A file with just a 64-byte ELF header and one PT_LOAD segment: nothing asks for a loader."""
        ident = self.tools_header[:4] + bytes([bits]) + self.tools_header[5:16]
        header = struct.pack("=HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
        segment = struct.pack("=IIQQQQQQ", 1, 5, 0, 0, 0, 120, 120, 4096)
        return self.file(name, ident + header + segment)

    def test_a_static_program_is_refused(self):
        machine = struct.unpack_from("=H", self.tools_header, 18)[0]
        self.assert_refused(self.verbatim("run", self.elf("static", 2, machine)), 126, "statically linked")

    def test_a_program_for_another_machine_is_refused(self):
        machine = struct.unpack_from("=H", self.tools_header, 18)[0]
        self.assert_refused(self.verbatim("run", self.elf("small", 1, machine)), 126, "another kind of machine")
        self.assert_refused(self.verbatim("run", self.elf("alien", 2, 0x1234)), 126, "another kind of machine")

    @unittest.skipIf(os.getuid() != 0, "only root can give a file away")
    @unittest.skipIf(mount_ignores_setuid(), "the temporary folder is mounted nosuid")
    def test_a_program_of_another_user_or_group_is_refused(self):
        program = self.copy_of("true", "setuid")
        os.chown(program, NOBODY, 0)
        os.chmod(program, 0o4755)
        self.assert_refused(self.verbatim("run", program), 126, "setuid")
        os.chown(program, 0, NOBODY)
        os.chmod(program, 0o2755)
        self.assert_refused(self.verbatim("run", program), 126, "setgid")

    @unittest.skipIf(os.getuid() == 0, "needs a setuid program of another user")
    def test_the_systems_setuid_programs_are_refused(self):
        self.assert_refused(self.verbatim("run", "su", "--version"), 126, "setuid")

    def test_a_setuid_program_of_the_caller_runs(self):
        program = self.copy_of("true", "own")
        os.chmod(program, 0o4755)
        self.assertEqual(self.verbatim("run", program).returncode, 0)

    @unittest.skipIf(os.getuid() != 0, "only root can give a file capabilities")
    @unittest.skipIf(mount_ignores_setuid(), "the temporary folder is mounted nosuid")
    def test_a_program_with_file_capabilities_is_refused_unless_root_runs_it(self):
        program = self.copy_of("true", "capable")
        version_2_effective, net_raw = 0x02000001, 1 << 13
        os.setxattr(program, "security.capability", struct.pack("<5I", version_2_effective, net_raw, 0, 0, 0))
        as_nobody = self.verbatim("run", program, user=NOBODY, group=NOBODY, extra_groups=[])
        self.assert_refused(as_nobody, 126, "file capabilities")
        self.assertEqual(self.verbatim("run", program).returncode, 0)

    def test_a_setuid_script_runs_as_the_kernel_ignores_the_bit(self):
        self.assertEqual(self.verbatim("run", self.file("script", b"#!/bin/sh\nexit 4\n", 0o4755)).returncode, 4)


class Environment(InPrefix):
    def warnings(self, **variables):
        result = self.verbatim("run", "true", env=variables)
        self.assertEqual(result.returncode, 0)
        return result.stderr.splitlines()

    def test_good_values_are_silent(self):
        for value in ("", "off", "warn", "info", "trace", "warn:/tmp/x:y", "trace:%p.log"):
            self.assertEqual(self.warnings(VERBATIM_LOG=value), [])
        for value in ("", "1", "4660", "0xFFFFFF", "0x1234"):
            self.assertEqual(self.warnings(VERBATIM_VENDOR_ID=value, VERBATIM_VENDOR_PART_ID=value), [])
        self.assertEqual(self.warnings(OTHER="x", VERBATIMX="y"), [])

    def test_a_malformed_value_is_reported_and_the_program_runs(self):
        bad = {"VERBATIM_LOG": ("loud", "warn:", "Warn", ":x"),
               "VERBATIM_VENDOR_ID": ("0", "-1", "0x", "12x", "0x1000000", " 1"),
               "VERBATIM_VENDOR_PART_ID": ("x", "0x100000000")}
        for name, values in bad.items():
            for value in values:
                lines = self.warnings(**{name: value})
                self.assertEqual(len(lines), 1, (name, value, lines))
                self.assertTrue(lines[0].startswith(f"verbatim: warning: {name} is '{value}'"), lines[0])

    def test_an_unknown_variable_is_reported(self):
        lines = self.warnings(VERBATIM_LOGG="warn", VERBATIM_LOG="info")
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("VERBATIM_LOGG", lines[0])


if __name__ == "__main__":
    unittest.main()
