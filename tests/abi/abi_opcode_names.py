#!/usr/bin/env python3
"""ibv_wr_opcode_str gives the names programs print, and the same ones at each of its versions.

usage: abi_opcode_names.py LIBRARY TABLE GENERATOR_DIR
"""

import ctypes
import pathlib
import sys

from abi_refusals import versioned_address

NAMES = ["rdma-write", "rdma-write-with-imm", "send", "send-with-imm", "rdma-read", "atomic-cmp-and-swp",
         "atomic-fetch-and-add", "local-inv", "bind-mw", "send-with-inv", "tso", "driver1", "unknown", "unknown",
         "flush", "atomic-write", "unknown"]


def main(library, table, generator_dir):
    sys.path.insert(0, generator_dir)
    from generate_abi import read_table

    loaded = ctypes.CDLL(library)
    nodes = [row.node for row in read_table(pathlib.Path(table)) if row.name == "ibv_wr_opcode_str"]
    problems = [] if len(nodes) > 1 else ["the table has no twin of ibv_wr_opcode_str to try"]
    for node in nodes:
        address = versioned_address(loaded, "ibv_wr_opcode_str", node)
        function = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_uint)(address)
        names = [function(opcode).decode() for opcode in range(len(NAMES))]
        if names != NAMES or function(2**32 - 1) != b"unknown":
            problems.append(f"{node}: {names}")
    print("\n".join(problems) or f"{len(nodes)} versions agree")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
