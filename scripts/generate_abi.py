#!/usr/bin/env python3
"""Turns a symbol table into what gives a shared library its ABI.

usage: generate_abi.py TABLE OUTDIR [--library NAME]

Writes OUTDIR/NAME.map, the linker's version script, and OUTDIR/refusals.c, the
functions and objects that answer for what is not built. docs/ABI.md describes
the table.
"""

import argparse
import pathlib
import re
import sys
from dataclasses import dataclass

COLUMNS = ["name", "node", "default", "kind", "answer"]
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NODE = re.compile(r"(?P<family>[A-Z][A-Z0-9_]*)_(?P<number>\d+(\.\d+)*)")
ANSWER = re.compile(r"(?P<word>implemented|same|errno|null|zero|void)|(?P<sized>minus|bytes)(:(?P<number>\d+))?")


class TableError(Exception):
    """A row that means nothing; the text names the line."""


@dataclass(frozen=True)
class Symbol:
    name: str
    node: str
    default: bool
    kind: str
    answer: str
    number: int  # N of minus:N and bytes:N

    @property
    def bound(self):
        """Whether .symver gives it its version, not the version script.

        True of an object's default too: GNU ld takes an unversioned name for the remains of the .symver of a twin at
        the same address, and drops it.
        """
        return not self.default or self.kind == "object"

    @property
    def c_name(self):
        """What the C source calls it: its name belongs to what the version script versions."""
        return f"{self.name}__{self.node.replace('.', '_')}" if self.bound else self.name


def read_table(path):
    """The rows of a table, or TableError at the first one that is wrong."""
    symbols = []
    header_seen = False
    for line_number, line in enumerate(path.read_text(encoding="ascii").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        try:
            if header_seen:
                symbols.append(parse_row(fields))
            elif fields != COLUMNS:
                raise TableError(f"the first row must be the column names {' '.join(COLUMNS)}")
            header_seen = True
        except TableError as error:
            raise TableError(f"{path}:{line_number}: {error}") from None
    if not symbols:
        raise TableError(f"{path}: no symbols")
    check_names(path, symbols)
    return symbols


def parse_row(fields):
    if len(fields) != len(COLUMNS):
        raise TableError(f"{len(fields)} columns, not {len(COLUMNS)} separated by tabs")
    name, node, default, kind, answer = fields
    if not NAME.fullmatch(name):
        raise TableError(f"'{name}' is not a C name")
    if not NODE.fullmatch(node):
        raise TableError(f"'{node}' is not a version node such as IBVERBS_1.1")
    if default not in ("yes", "no"):
        raise TableError(f"default is '{default}', not yes or no")
    if kind not in ("func", "object"):
        raise TableError(f"kind is '{kind}', not func or object")
    match = ANSWER.fullmatch(answer)
    if not match:
        raise TableError(f"unknown answer '{answer}'")
    word = match["word"] or match["sized"]
    if (kind == "object") != (word == "bytes"):
        raise TableError(f"{kind} {name} cannot answer '{answer}'")
    if word == "bytes" and not match["number"]:
        raise TableError(f"object {name} has no size: bytes:N")
    if word == "implemented" and default == "no":
        raise TableError(f"{name}@{node} is not the default, so no C function of that name can be it: use 'same'")
    if word == "same" and default == "yes":
        raise TableError(f"{name}@@{node} is the default and cannot answer 'same'")
    return Symbol(name, node, default == "yes", kind, word, int(match["number"] or 1))


def check_names(path, symbols):
    """Each name@node once, and at most one default per name: the one a linker takes."""
    seen = set()
    defaults = {}
    for symbol in symbols:
        if (symbol.name, symbol.node) in seen:
            raise TableError(f"{path}: {symbol.name}@{symbol.node} stands there twice")
        seen.add((symbol.name, symbol.node))
        if symbol.default:
            if symbol.name in defaults:
                other = defaults[symbol.name].node
                raise TableError(f"{path}: {symbol.name} has two defaults, {other} and {symbol.node}")
            defaults[symbol.name] = symbol
    for symbol in symbols:
        default = defaults.get(symbol.name)
        if symbol.answer in ("same", "bytes") and not default:
            raise TableError(f"{path}: {symbol.name}@{symbol.node} answers as its default, and there is none")
        if symbol.answer == "bytes" and symbol.number != default.number:
            raise TableError(f"{path}: {symbol.name} has two sizes, {symbol.number} and {default.number}")


def version_script(symbols):
    """Twins are not listed: .symver in refusals.c puts them into their node."""
    parents = parent_nodes({symbol.node for symbol in symbols})
    hiding_node = node_without_twins(parents, symbols)
    blocks = []
    for node, parent in parents.items():
        names = sorted(symbol.name for symbol in symbols if symbol.node == node and symbol.default)
        lines = [f"{node} {{"]
        if names:
            lines += ["  global:"] + [f"    {name};" for name in names]
        if node == hiding_node:
            lines += ["  local:", "    *;"]
        lines.append(f"}} {parent};" if parent else "};")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def node_without_twins(nodes, symbols):
    """Where `local: *` may stand: GNU ld holds name@NODE against NODE's own patterns, and would hide a twin there."""
    with_twins = {symbol.node for symbol in symbols if not symbol.default}
    for node in nodes:
        if node not in with_twins:
            return node
    raise TableError("every node has a twin, so there is none to hide the unlisted symbols in")


def parent_nodes(nodes):
    """Node -> the one before it in its family, or None; in the order in which a script must declare them.

    A private node replaces the one before instead of adding to it, so it inherits nothing.
    """
    parents = {}
    last = {}
    for node in sorted(nodes, key=node_order):
        family = NODE.fullmatch(node)["family"]
        parents[node] = None if is_private(node) else last.get(family)
        last[family] = node
    return parents


def node_order(node):
    match = NODE.fullmatch(node)
    return is_private(node), match["family"], [int(part) for part in match["number"].split(".")]


def is_private(node):
    return "PRIVATE" in NODE.fullmatch(node)["family"]


def refusals(symbols):
    parts = [PROLOGUE]
    defaults = {symbol.name: symbol for symbol in symbols if symbol.default}
    for symbol in sorted(symbols, key=lambda s: (s.name, not s.default, node_order(s.node))):
        if symbol.answer == "implemented":
            continue
        parts.append(definition(symbol, defaults.get(symbol.name)))
        if symbol.bound:
            at = "@@" if symbol.default else "@"
            parts.append(f'__asm__(".symver {symbol.c_name}, {symbol.name}{at}{symbol.node}");')
    return "\n".join(parts) + "\n"


# What is exported must not have the hidden visibility the rest is compiled with.
PROLOGUE = """\
// Generated by scripts/generate_abi.py.
#include <errno.h>
#include <stddef.h>

#pragma GCC visibility push(default)

// Jumping leaves every argument where it is, whatever the signature.
#if defined(__x86_64__)
#define SAME_AS(twin, function) \\
  __asm__(".text\\n.globl " #twin "\\n.type " #twin ", @function\\n" #twin ":\\n\\tjmp " #function "@PLT\\n" \\
          ".size " #twin ", .-" #twin "\\n")
#elif defined(__aarch64__)
#define SAME_AS(twin, function) \\
  __asm__(".text\\n.balign 4\\n.globl " #twin "\\n.type " #twin ", %function\\n" #twin ":\\n\\tb " #function "\\n" \\
          ".size " #twin ", .-" #twin "\\n")
#else
#error "no jump for this machine yet"
#endif
"""


def definition(symbol, default):
    name = symbol.c_name
    if symbol.answer == "bytes":
        if symbol.default:
            return f"unsigned char {name}[{symbol.number}];"
        return f'extern unsigned char {name}[{symbol.number}] __attribute__((alias("{default.c_name}")));'
    return {
        "same": f"SAME_AS({name}, {symbol.name});",
        "errno": f"int {name}(void) {{ return EOPNOTSUPP; }}",
        # As long as the longest that answers -1: a caller that expects ssize_t reads all of it.
        "minus": f"long {name}(void) {{ errno = EOPNOTSUPP; return -{symbol.number}; }}",
        "null": f"void* {name}(void) {{ errno = EOPNOTSUPP; return NULL; }}",
        "zero": f"unsigned long {name}(void) {{ return 0; }}",
        "void": f"void {name}(void) {{}}",
    }[symbol.answer]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("outdir", type=pathlib.Path)
    parser.add_argument("--library", default="libibverbs", help="names the version script")
    arguments = parser.parse_args()
    try:
        symbols = read_table(arguments.table)
        arguments.outdir.mkdir(parents=True, exist_ok=True)
        (arguments.outdir / f"{arguments.library}.map").write_text(version_script(symbols), encoding="ascii")
        (arguments.outdir / "refusals.c").write_text(refusals(symbols), encoding="ascii")
    except (TableError, OSError, UnicodeDecodeError) as error:
        sys.exit(f"generate_abi.py: {error}")


if __name__ == "__main__":
    main()
