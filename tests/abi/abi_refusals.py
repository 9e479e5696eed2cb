#!/usr/bin/env python3
"""Each function that the table says refuses does refuse, and in that way.

usage: abi_refusals.py LIBRARY TABLE GENERATOR_DIR
"""

import ctypes
import errno
import pathlib
import sys

UNTOUCHED = errno.EXDEV  # any value that no refusal sets


def main(library, table, generator_dir):
    sys.path.insert(0, generator_dir)
    from generate_abi import read_table

    loaded = ctypes.CDLL(library, use_errno=True)
    problems, called = [], 0
    symbols = read_table(pathlib.Path(table))
    defaults = {symbol.name: symbol for symbol in symbols if symbol.default}
    for symbol in symbols:
        address = versioned_address(loaded, symbol.name, symbol.node)
        if not address:
            problems.append(f"{symbol.name}@{symbol.node}: dlvsym does not find it")
        elif symbol.answer == "bytes":
            shared = versioned_address(loaded, symbol.name, defaults[symbol.name].node)
            if address != shared or ctypes.string_at(address, symbol.number).strip(b"\0"):
                problems.append(f"{symbol.name}@{symbol.node}: not the one object of {symbol.number} zero bytes")
        elif symbol.answer not in ("implemented", "same"):
            called += 1
            problems += wrong_answer(symbol, address)
    for problem in problems:
        print(problem)
    print(f"{called} refusals called, {len(problems)} problems")
    sys.exit(1 if problems or not called else 0)


def versioned_address(loaded, name, node):
    dlvsym = ctypes.CDLL(None).dlvsym
    dlvsym.restype = ctypes.c_void_p
    dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    return dlvsym(loaded._handle, name.encode(), node.encode())


def wrong_answer(symbol, address):
    """Compares the value and errno; what a refusal does not set it must leave alone."""
    word, number = symbol.answer, symbol.number
    expected_value = {"errno": errno.EOPNOTSUPP, "minus": -number, "null": None, "zero": 0, "void": None}[word]
    expected_errno = errno.EOPNOTSUPP if word in ("minus", "null") else UNTOUCHED
    result_type = {"minus": ctypes.c_long, "null": ctypes.c_void_p, "zero": ctypes.c_ulong, "void": None}.get(
        word, ctypes.c_int)
    function = ctypes.CFUNCTYPE(result_type, use_errno=True)(address)
    ctypes.set_errno(UNTOUCHED)
    value = function()
    if (value, ctypes.get_errno()) != (expected_value, expected_errno):
        yield f"{symbol.name}@{symbol.node}: {value}, errno {ctypes.get_errno()}, where the table says {word}"


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
