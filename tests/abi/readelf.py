"""What readelf (binutils) says about one shared library, as values."""

import re
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Export:
    name: str
    node: str  # "" when the symbol carries no version
    default: bool
    type: str  # FUNC, OBJECT, ...
    size: int

    def __str__(self):
        return f"{self.name}{'@@' if self.default else '@'}{self.node}"


def exports(path):
    """(name, node) -> Export of every defined dynamic symbol, the names of the nodes themselves left out."""
    found = {}
    for line in run("--dyn-syms", path):
        fields = line.split()
        if len(fields) < 8 or not re.fullmatch(r"\d+:", fields[0]):
            continue
        if fields[6] in ("UND", "ABS") or fields[4] == "LOCAL":
            continue
        name, at, node = fields[7].partition("@")
        export = Export(name, node.lstrip("@"), not at or node.startswith("@"), fields[3], int(fields[2], 0))
        found[name, export.node] = export
    return found


def dynamic(path):
    """tag -> list of its values, without the brackets: NEEDED, SONAME, FLAGS, FLAGS_1, ..."""
    tags = {}
    for line in run("--dynamic", path):
        match = re.match(r"\s*0x[0-9a-f]+ \((\w+)\)\s+(.*)", line)
        if match:
            value = re.sub(r".*\[(.*)\]", r"\1", match[2]).removeprefix("Flags: ")
            tags.setdefault(match[1], []).append(value.strip())
    return tags


def run(option, path):
    result = subprocess.run(["readelf", "--wide", option, path], capture_output=True, text=True, check=True)
    return result.stdout.splitlines()
