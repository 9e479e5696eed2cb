"""`verbatim reason` knows every reason, by number and by name."""
import unittest

from reasons import numbers, table
from tool import TOOL, run


class Reason(unittest.TestCase):
    def test_each_reason_is_explained_by_number_and_by_name(self):
        for number, name, meaning in table():
            for question in (str(number), hex(number), name):
                result = run(TOOL, "reason", question)
                self.assertEqual((result.returncode, result.stdout), (0, f"0x{number:x} {name}: {meaning}\n"))

    def test_each_enumerator_has_a_row(self):
        self.assertEqual({n for n in numbers().values() if n}, {number for number, *_ in table()})
        self.assertEqual(len({name for _, name, _ in table()}), len(table()))

    def test_an_unknown_reason_is_an_error(self):
        for question in ("0xffff", "4294967296", "no-such-reason", "", "0x", "1x"):
            result = run(TOOL, "reason", question)
            self.assertEqual((result.returncode, result.stdout), (1, ""), question)
            self.assertIn("no reason", result.stderr)

    def test_no_reason_is_a_usage_error(self):
        self.assertEqual(run(TOOL, "reason").returncode, 2)

    def test_the_version_is_printed(self):
        result = run(TOOL, "--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^verbatim \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    unittest.main()
