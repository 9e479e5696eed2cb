#!/usr/bin/env python3
"""Runs ./dev demo and holds what it prints first against the transcript in README.md, but for numbers and addresses."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIRST_LINE = "$ build/bin/verbatim devices"
A_PORT_GID = re.compile(r"^\s+\d+\s+\d+\s+RoCE v2\s")
# A machine's own: numbers, addresses, and what has another width with them.
VARIABLE = re.compile(r"(?<!\w)(0x)?[0-9a-f:.]*[0-9][0-9a-f:.]*(?!\w)")


def transcript(readme):
    """The lines of the block that begins with the demo's first command."""
    for block in re.findall(r"^```\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL):
        if block.startswith(FIRST_LINE):
            return block.splitlines()
    sys.exit(f"README.md has no transcript that begins with {FIRST_LINE!r}")


def shape(lines):
    """What two machines have in common. However many addresses there are, they are one line."""
    shapes = []
    for line in lines:
        if A_PORT_GID.match(line):
            line = "<port GIDs>"
            if shapes and shapes[-1] == line:
                continue
        # Where the usual port is taken, the demo says so.
        line = re.sub(r" -p \d+", "", line)
        shapes.append(" ".join(VARIABLE.sub("<number>", line).split()))
    return shapes


def bandwidths(lines):
    """Peak and average of the result line."""
    for line in lines:
        words = line.split()
        if len(words) == 5 and words[:2] == ["65536", "5000"]:
            return [float(words[2]), float(words[3])]
    return []


def main():
    run = subprocess.run([ROOT / "dev", "demo"], stdout=subprocess.PIPE, text=True, check=False)
    printed = run.stdout.splitlines()
    # What had to be installed first is no part of it.
    begin = printed.index(FIRST_LINE) if FIRST_LINE in printed else 0
    wanted = shape(transcript((ROOT / "README.md").read_text()))
    got = shape(printed[begin:])
    errors = [f"README.md has {a!r}, ./dev demo prints {b!r}" for a, b in zip(wanted, got) if a != b]
    if len(got) < len(wanted):
        errors.append(f"./dev demo ends before {wanted[len(got)]!r}")
    if not all(figure > 0 for figure in bandwidths(printed)) or not bandwidths(printed):
        errors.append("there is no bandwidth above zero")
    if run.returncode != 0:
        errors.append(f"./dev demo ends with status {run.returncode}")
    for error in errors:
        print(error)
    if errors:
        print(run.stdout)
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
