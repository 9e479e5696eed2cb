#!/usr/bin/env python3
"""Each program and library that clients.tsv lists for our library finds on it all that it finds on the system's.

usage: abi_clients_load.py LIBRARY CLIENTS

`ldd -r` makes the loader resolve every symbol, those of lazily bound plugins
too, without running a line of the client. What it also misses on the system's
library (a Python module's interpreter, a plugin's host) is not ours to provide.

VERBATIM_TEST_SKIP_PACKAGES=a,b leaves out packages that are not installed; the
test then counts as skipped, not as passed.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
PROBLEM = re.compile(r"undefined symbol|not defined in file|not found|no version information|Error")


def main(library, clients):
    library = pathlib.Path(library).resolve()
    skip = set(filter(None, os.environ.get("VERBATIM_TEST_SKIP_PACKAGES", "").split(",")))
    problems, missing, skipped, checked = [], {}, set(), 0
    with tempfile.TemporaryDirectory() as alone:
        # Alone: with the system's others, such as its librdmacm on our libibverbs. Folder: with whatever else we ship.
        pathlib.Path(alone, library.name).symlink_to(library)
        for package, client in read_clients(pathlib.Path(clients), library.name):
            if not os.path.exists(client):
                skipped.add(package) if package in skip else missing.setdefault(package, client)
                continue
            checked += 1
            for folder in (alone, library.parent):
                problems += [f"{client} ({package}): {line}" for line in check(client, folder, library)]
    for package, client in missing.items():
        problems.append(f"{client} is not there: install {package}")
    for problem in problems:
        print(problem)
    print(f"{checked} clients loaded, {len(problems)} problems" + "".join(f", {p} skipped" for p in sorted(skipped)))
    if not checked:
        sys.exit("not one client is installed: this test shows nothing")
    sys.exit(1 if problems else SKIPPED if skipped else 0)


def read_clients(path, library):
    """(package, ELF file) pairs of those that need the library."""
    for line in path.read_text(encoding="ascii").splitlines():
        if line and not line.startswith("#"):
            package, client, needed = line.split("\t")
            if library.startswith(tuple(f"lib{name}." for name in needed.split(","))):
                yield package, client


def check(client, folder, library):
    resolved, with_ours = ldd(client, str(folder))
    _, with_systems = ldd(client, None)
    yield from sorted(with_ours - with_systems)
    if library.name not in resolved:
        yield f"does not need {library.name} at all: it has no place in this list"
    elif pathlib.Path(resolved[library.name]).resolve() != library:
        yield f"{library.name} resolves to {resolved[library.name]}, not to {library}"


def ldd(client, folder):
    """soname -> file, and the lines in which the loader complains, without load addresses."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
    environment["LC_ALL"] = "C"
    if folder:
        environment["LD_LIBRARY_PATH"] = folder
    result = subprocess.run(["ldd", "-r", client], capture_output=True, text=True, env=environment)
    lines = (result.stdout + result.stderr).splitlines()
    resolved = dict(re.findall(r"^\s*(\S+) => (/\S+)", result.stdout, re.MULTILINE))
    complaints = {line.strip().replace(f"{folder}/", "") for line in lines if PROBLEM.search(line)}
    if result.returncode and not complaints:
        complaints.add(f"ldd ends with {result.returncode}: {' '.join(lines)}")
    return resolved, complaints


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
