"""The man pages say what the code does: reasons, variables, commands, functions."""
import re
import shlex
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


def functions_of_header():
    definitions = re.findall(r"^RDMA_VERBS_FUNCTION (.*?) {", read("include/rdma/rdma_verbs.h"), re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s+", " ", definition).replace("* ", " *") for definition in definitions]


def documented_functions(page):
    """The prototypes of a page, in its order."""
    return ["".join(shlex.split(line)).removesuffix(";")
            for line in re.findall(r"^\.BI (.*\brdma_\w+\(.*)$", read(page), re.MULTILINE)]


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

    def test_rdma_verbs_7_lists_the_functions_of_the_header(self):
        self.assertTrue(functions_of_header())
        self.assertEqual(sorted(documented_functions("man/rdma_verbs.7")), sorted(functions_of_header()))

    def test_rdma_get_send_comp_3_describes_two_of_them(self):
        functions = documented_functions("man/rdma_get_send_comp.3verbatim")
        self.assertEqual(len(functions), 2)
        self.assertLessEqual(set(functions), set(functions_of_header()))
        self.assertEqual(read("man/rdma_get_recv_comp.3verbatim"), ".so man3/rdma_get_send_comp.3verbatim\n")


if __name__ == "__main__":
    unittest.main()
