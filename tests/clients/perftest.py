"""What the programs of perftest offer, and the tables they print."""
import re
import subprocess
from typing import NamedTuple

# Bytes per second in a unit of the bandwidth columns; "MB" is 2^20 bytes, as perftest's help says.
BANDWIDTH_UNITS = {"MB/sec": 2**20, "MiB/sec": 2**20, "Gb/sec": 1e9 / 8}

COLUMN = re.compile(r"#\w+|tps average|[^\s#\[\]][^#\[\]]*\[[^\]]*\]")
NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|inf|nan)"
ROW = re.compile(rf"\s*{NUMBER}(?:\s+{NUMBER})*\s*", re.IGNORECASE)


def options_of(program):
    """The options that the program's help lists, short and long."""
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=False, timeout=30).stdout
    return options_in(text)


def knows_its_clock(output):
    """Whether the program could tell the processor's frequency. Where it is interrupted while it measures that, it says
    so, goes on, and reports every speed as 0."""
    return not re.search(r"Correlation coefficient r\^2: .* < ", output)


def options_in(help_text):
    options = set()
    for line in help_text.splitlines():
        match = re.match(r"\s*(?:(-\w),\s*)?(--[\w-]+)", line)
        if match:
            options.update(filter(None, match.groups()))
    return options


class Row(NamedTuple):
    """A line of a result table: the columns by the names in its header, without their units, and those units."""
    values: dict
    units: dict

    def bandwidths(self):
        """Column → bytes per second."""
        return {name: value * BANDWIDTH_UNITS[self.units[name]] for name, value in self.values.items()
                if name.startswith("BW ")}


def rows_in(output):
    """The rows of every table in the output. ValueError for a row that does not fit the header above it."""
    header, rows = None, []
    for line in output.splitlines():
        if line.lstrip().startswith("#bytes"):
            header = [split_unit(column) for column in COLUMN.findall(line)]
        elif header and ROW.fullmatch(line):
            numbers = [float(word) for word in line.split()]
            if len(numbers) != len(header):
                raise ValueError(f"{len(numbers)} figures under {len(header)} columns: {line}")
            names, units = zip(*header)
            rows.append(Row(dict(zip(names, numbers)), dict(zip(names, units))))
    return rows


def split_unit(column):
    name, _, unit = column.partition("[")
    return name.strip(), unit.rstrip("]")
