"""The `dev` script: what it promises without building anything."""
import os
import tempfile
import unittest

from tool import SOURCE, run

DEV = f"{SOURCE}/dev"


class Dev(unittest.TestCase):
    def test_help_names_each_subcommand(self):
        result = run(DEV, "help")
        self.assertEqual(result.returncode, 0)
        for command in ("demo", "build", "test", "asan", "tsan", "sim", "fuzz", "fmt", "lint", "bench"):
            self.assertRegex(result.stdout, rf"(?m)^  {command}\b")

    def test_what_has_no_content_yet_says_so_and_fails(self):
        result = run(DEV, "sim")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"^dev: .*nothing to \w+ yet")

    def test_an_unknown_subcommand_is_a_usage_error(self):
        for arguments in (["polish"], [], ["test", "--most"], ["fuzz", "0"], ["fuzz", "1", "2"], ["bench", "many"]):
            result = run(DEV, *arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn("dev: ", result.stderr)

    def test_missing_packages_are_named_where_they_cannot_be_installed(self):
        with tempfile.TemporaryDirectory() as fakes:
            for name, script in {"id": "echo 1000", "sudo": "exit 1", "dpkg-query": "exit 1"}.items():
                with open(f"{fakes}/{name}", "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\n{script}\n")
                os.chmod(f"{fakes}/{name}", 0o755)
            result = run(DEV, "fmt", env={"PATH": f"{fakes}:{os.environ['PATH']}"})
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, r"^dev: missing packages: .*clang-format")
        self.assertEqual(len(result.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
