"""The man pages say what the code does: reasons, variables, commands."""
import re
import unittest

from reasons import read, table
from tool import TOOL, run


def plain(roff):
    return roff.replace("\\-", "-")


def documented_reasons():
    section = read("man/verbatim.7").split(".SH REASONS")[1].split(".SH ")[0]
    rows = re.findall(r"^\.TP\n\.B 0x([0-9a-f]+) (\S+)\n((?:[^.].*\n)+)", section, re.MULTILINE)
    return [(int(number, 16), plain(name), plain(" ".join(meaning.split("\n"))).strip())
            for number, name, meaning in rows]


def as_roff(row):
    number, name, meaning = row
    return ".TP\n.B 0x%x %s\n%s" % (number, name.replace("-", "\\-"), meaning.replace("-", "\\-"))


class Manual(unittest.TestCase):
    def test_verbatim_7_lists_the_reasons_of_the_code(self):
        self.assertTrue(table())
        self.assertEqual(documented_reasons(), table(),
                         "REASONS in man/verbatim.7 should hold\n" + "\n".join(map(as_roff, table())))

    def test_verbatim_7_lists_the_variables_that_the_tool_knows(self):
        rows = re.findall(r'\{"(VERBATIM_\w+)",[^{}]*, (true|false)\}', read("tools/verbatim/environment.cc"))
        known = {name for name, documented in rows if documented == "true"}
        self.assertTrue(known)
        section = read("man/verbatim.7").split(".SH ENVIRONMENT")[1].split(".SH ")[0]
        self.assertEqual(set(re.findall(r"^\.B (VERBATIM_\w+)$", section, re.MULTILINE)), known)

    def test_verbatim_1_describes_each_command(self):
        help_text = run(TOOL, "--help").stdout
        commands = re.findall(r"^  (\w+) ", help_text.split("Subcommands:")[1], re.MULTILINE)
        self.assertTrue(commands)
        self.assertEqual(re.findall(r"^\.SS (\w+)$", read("man/verbatim.1"), re.MULTILINE), commands)


if __name__ == "__main__":
    unittest.main()
