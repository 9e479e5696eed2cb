#!/usr/bin/env python3
"""Tests of scripts/generate_abi.py: usage: generate_abi_test.py GENERATOR_DIR"""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop())
import generate_abi  # noqa: E402: its folder is an argument

HEADER = "name\tnode\tdefault\tkind\tanswer\n"


def symbols_of(*rows, header=HEADER):
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder, "symbols.tsv")
        table.write_text(header + "".join(row.replace(" ", "\t") + "\n" for row in rows), encoding="ascii")
        return generate_abi.read_table(table)


class BadTable(unittest.TestCase):
    def refused(self, message, *rows, header=HEADER):
        with self.assertRaisesRegex(generate_abi.TableError, message):
            symbols_of(*rows, header=header)

    def test_the_line_of_a_bad_row_is_named(self):
        self.refused(r"symbols.tsv:3: unknown answer 'maybe'", "a L_1.0 yes func errno", "b L_1.0 yes func maybe")

    def test_columns_must_be_five(self):
        self.refused("4 columns", "a L_1.0 yes func")

    def test_the_header_is_required(self):
        self.refused("column names", "a L_1.0 yes func errno", header="")

    def test_an_empty_table_is_refused(self):
        self.refused("no symbols")

    def test_words_outside_the_vocabulary_are_refused(self):
        self.refused("not a C name", "a-b L_1.0 yes func errno")
        self.refused("not a version node", "a l.1 yes func errno")
        self.refused("not yes or no", "a L_1.0 maybe func errno")
        self.refused("not func or object", "a L_1.0 yes data errno")
        self.refused("unknown answer 'errno:3'", "a L_1.0 yes func errno:3")

    def test_functions_and_objects_do_not_answer_for_each_other(self):
        self.refused("func a cannot answer", "a L_1.0 yes func bytes:1")
        self.refused("object a cannot answer", "a L_1.0 yes object errno")
        self.refused("has no size", "a L_1.0 yes object bytes")

    def test_only_a_default_is_implemented_and_only_a_twin_is_the_same(self):
        self.refused("is not the default", "a L_1.0 no func implemented")
        self.refused("is the default", "a L_1.0 yes func same")
        self.refused("there is none", "a L_1.0 no func same")

    def test_a_name_has_one_default_and_stands_once_in_a_node(self):
        self.refused("two defaults, L_1.0 and L_1.1", "a L_1.0 yes func errno", "a L_1.1 yes func errno")
        self.refused("stands there twice", "a L_1.0 yes func errno", "a L_1.0 no func errno")

    def test_the_twins_of_an_object_have_its_size(self):
        self.refused("two sizes, 2 and 1", "a L_1.0 yes object bytes:1", "a L_1.1 no object bytes:2")


class VersionScript(unittest.TestCase):
    def test_public_nodes_inherit_in_numeric_order_and_private_ones_do_not(self):
        nodes = {"L_1.10", "L_1.9", "L_1.0", "L_PRIVATE_34", "L_PRIVATE_57", "OWN_1.0"}
        self.assertEqual(
            list(generate_abi.parent_nodes(nodes).items()),
            [("L_1.0", None), ("L_1.9", "L_1.0"), ("L_1.10", "L_1.9"), ("OWN_1.0", None),
             ("L_PRIVATE_34", None), ("L_PRIVATE_57", None)])

    def test_everything_unlisted_is_local_once(self):
        script = generate_abi.version_script(symbols_of("a L_1.0 yes func errno", "b L_1.1 yes func errno"))
        self.assertEqual(script, "L_1.0 {\n  global:\n    a;\n  local:\n    *;\n};\n\n"
                                 "L_1.1 {\n  global:\n    b;\n} L_1.0;\n")

    def test_unlisted_symbols_are_hidden_in_a_node_that_has_no_twin_to_hide(self):
        script = generate_abi.version_script(symbols_of("a L_1.0 no func errno", "a L_1.1 yes func errno"))
        self.assertEqual(script, "L_1.0 {\n};\n\nL_1.1 {\n  global:\n    a;\n  local:\n    *;\n} L_1.0;\n")
        with self.assertRaisesRegex(generate_abi.TableError, "every node has a twin"):
            generate_abi.version_script(symbols_of("a L_1.0 no func errno"))


class Refusals(unittest.TestCase):
    def test_what_is_implemented_is_not_defined(self):
        self.assertNotIn("built", generate_abi.refusals(symbols_of("built L_1.0 yes func implemented")))

    def test_a_default_keeps_its_name_and_a_twin_is_bound_to_its_node(self):
        code = generate_abi.refusals(symbols_of("a L_1.0 no func null", "a L_1.1 yes func errno"))
        self.assertIn("int a(void) { return EOPNOTSUPP; }", code)
        self.assertIn("void* a__L_1_0(void) { errno = EOPNOTSUPP; return NULL; }", code)
        self.assertIn('.symver a__L_1_0, a@L_1.0', code)

    def test_an_object_is_one_under_all_its_versions(self):
        code = generate_abi.refusals(symbols_of("a L_1.0 yes object bytes:2", "a L_1.1 no object bytes:2"))
        self.assertIn("unsigned char a__L_1_0[2];", code)
        self.assertIn(".symver a__L_1_0, a@@L_1.0", code)
        self.assertIn('a__L_1_1[2] __attribute__((alias("a__L_1_0")))', code)
        self.assertIn(".symver a__L_1_1, a@L_1.1", code)

    def test_minus_carries_its_number(self):
        code = generate_abi.refusals(symbols_of("a L_1.0 yes func minus", "b L_1.0 yes func minus:4"))
        self.assertIn("return -1;", code)
        self.assertIn("return -4;", code)

    def test_minus_is_negative_to_who_expects_a_wider_type_too(self):
        self.assertIn("long a(void)", generate_abi.refusals(symbols_of("a L_1.0 yes func minus")))


if __name__ == "__main__":
    unittest.main()
