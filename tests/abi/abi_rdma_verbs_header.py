#!/usr/bin/env python3
"""A program that uses all of <rdma/rdma_verbs.h> compiles with ours and with the distribution's, in C and in C++.

usage: abi_rdma_verbs_header.py C_COMPILER CXX_COMPILER INCLUDE_FOLDER PROGRAM TABLE GENERATOR_DIR

Ours must not warn either; and what it defines is what the library exports in its own node.
"""

import pathlib
import re
import subprocess
import sys

DIALECTS = {"c": ["c99", "gnu99", "c11", "c17"], "c++": ["c++11", "gnu++17", "c++20"]}
OWN_NODE = "VERBATIM_1.0"


def main(c_compiler, cxx_compiler, include_folder, program, table, generator_dir):
    compilers = {"c": c_compiler, "c++": cxx_compiler}
    ours = ["-I", include_folder, "-DEXPECT_OURS"]
    problems, compiled = [], 0
    for language, dialects in DIALECTS.items():
        for dialect in dialects:
            for header in (ours, []):
                problems += compile_errors([compilers[language], "-x", language, f"-std={dialect}", *header, program])
                compiled += 1
    problems += different_from_node(pathlib.Path(include_folder, "rdma/rdma_verbs.h"), table, generator_dir)
    print("\n".join(problems) or f"{compiled} compilations")
    sys.exit(1 if problems else 0)


def compile_errors(command):
    # Without optimisation inline functions are kept, and with it they are inlined: either may warn of its own.
    for optimisation in ("-O0", "-O2"):
        whole = [*command, optimisation, "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "-o", "/dev/null"]
        result = subprocess.run(whole, capture_output=True, text=True, check=False)
        if result.returncode:
            yield f"{' '.join(whole)}\n{result.stderr}"


def different_from_node(header, table, generator_dir):
    sys.path.insert(0, generator_dir)
    from generate_abi import read_table

    defined = re.findall(r"^RDMA_VERBS_FUNCTION .*?\b(rdma_\w+)\(", header.read_text(encoding="ascii"), re.MULTILINE)
    exported = [symbol.name for symbol in read_table(pathlib.Path(table)) if symbol.node == OWN_NODE]
    if sorted(defined) != sorted(exported):
        yield f"the header defines {sorted(defined)}, {OWN_NODE} has {sorted(exported)}"


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    main(*sys.argv[1:])
