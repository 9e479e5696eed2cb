#!/usr/bin/env python3
"""The built library exports what the table lists, and all that the original exports.

usage: abi_symbols.py LIBRARY ORIGINAL TABLE SONAME GENERATOR_DIR [NEEDED...]

NEEDED: the libraries of ours that it stands on.
"""

import pathlib
import sys

from readelf import dynamic, exports

# Everything a machine with a C library has; a C++ runtime among them would be one more thing to install.
ALLOWED_NEEDED = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def main(library, original, table, soname, generator_dir, *needed):
    if not pathlib.Path(original).exists():
        package = soname.replace(".so.", "")
        sys.exit(f"{original} is not there to compare with: install {package}")
    sys.path.insert(0, generator_dir)
    from generate_abi import read_table

    ours = exports(library)
    theirs = exports(original)
    problems = [
        *missing_from_original(ours, theirs),
        *different_from_table(ours, read_table(pathlib.Path(table))),
        *ambiguous_defaults(ours),
        *wrong_dynamic_section(dynamic(library), soname, ALLOWED_NEEDED.union(needed)),
    ]
    for problem in problems:
        print(problem)
    print(f"{len(ours)} symbols of ours, {len(theirs)} of {original}, {len(problems)} problems")
    sys.exit(1 if problems else 0)


def missing_from_original(ours, theirs):
    for key, symbol in theirs.items():
        mine = ours.get(key)
        if mine is None:
            yield f"{symbol} of the original is missing"
            continue
        if mine.default != symbol.default:
            yield f"{mine} is {symbol} in the original"
        if mine.type != symbol.type:
            yield f"{mine} is a {mine.type}, in the original a {symbol.type}"
        # A program may hold a copy of an object, so its size is part of the contract.
        if symbol.type == "OBJECT" and mine.size != symbol.size:
            yield f"{mine} has {mine.size} bytes, in the original {symbol.size}"


def different_from_table(ours, table):
    listed = {(symbol.name, symbol.node): symbol for symbol in table}
    for key, symbol in listed.items():
        mine = ours.get(key)
        if mine is None:
            yield f"{symbol.name}@{symbol.node} of the table is not exported"
        elif mine.default != symbol.default or mine.type != symbol.kind.upper():
            yield f"{mine} ({mine.type}) is not what the table says: {symbol}"
    for key, mine in ours.items():
        if key not in listed:
            yield f"{mine} is exported and not in the table"


def ambiguous_defaults(ours):
    nodes = {}
    for mine in ours.values():
        if mine.default:
            nodes.setdefault(mine.name, []).append(mine.node)
    for name, defaults in nodes.items():
        if len(defaults) > 1:
            yield f"{name} has more than one default: {', '.join(defaults)}"


def wrong_dynamic_section(tags, soname, allowed_needed):
    if tags.get("SONAME") != [soname]:
        yield f"SONAME is {tags.get('SONAME')}, not {soname}"
    for needed in tags.get("NEEDED", []):
        if needed not in allowed_needed:
            yield f"NEEDED {needed}: a program that ran without it no longer starts"
    flags = " ".join(tags.get("FLAGS", []) + tags.get("FLAGS_1", [])).split()
    for flag in ("BIND_NOW", "NODELETE"):
        if flag not in flags:
            yield f"not linked with {flag}"


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
