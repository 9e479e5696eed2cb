"""The five pingpong programs of ibverbs-utils: how each may be run, and what it prints when all went well."""
import re
from typing import NamedTuple

from harness import TEST_ALL

SMALL_ITERATIONS, LARGE_ITERATIONS = 1000, 100
LARGE = 1 << 18  # bytes


class Program(NamedTuple):
    name: str
    options: tuple  # the ways to run it, each a tuple of arguments
    up_to_mtu: bool = False  # the message is one packet


PROGRAMS = (
    Program("ibv_rc_pingpong", (("-c",), ("-c", "-e"), ("-c", "-N"), ("-c", "-N", "-e"), ("-c", "-o"),
                                ("-c", "-o", "-e"))),
    Program("ibv_uc_pingpong", (("-c",), ("-c", "-e"))),
    Program("ibv_ud_pingpong", (("-c",), ("-c", "-e")), up_to_mtu=True),
    Program("ibv_srq_pingpong", (("-c",), ("-c", "-e"), ("-c", "-o"), ("-c", "-o", "-e"))),
    Program("ibv_xsrq_pingpong", ((), ("-e",), ("-o",), ("-o", "-e"))),
)
XRC = PROGRAMS[-1]


class Case(NamedTuple):
    """One run; `turn` counts the runs of its program."""
    turn: int
    options: tuple
    size: int
    gid_index: int

    def arguments(self, program):
        common = [*self.options, "-s", str(self.size), "-g", str(self.gid_index)]
        # -n is another thing for xsrq, whose default is few exchanges.
        return common if program == XRC else [*common, "-n", str(self.iterations())]

    def iterations(self):
        return LARGE_ITERATIONS if self.size >= LARGE else SMALL_ITERATIONS


def sizes(program, mtu):
    """From 1 byte to 4 MiB, or to one packet; with those around the sizes of pages and slices."""
    if program.up_to_mtu:
        return sorted({1, 63, mtu // 2 + 1, mtu})
    return [1, 100, 1024, 4095, 65536, 65537, 1 << 20, 1 << 22]


def cases(program, mtu, gid_indexes):
    """All of them, or as few as have each option, each size and each GID once."""
    offered = (program.options, sizes(program, mtu), gid_indexes)
    if TEST_ALL:
        combinations = [(option, size, gid) for option in offered[0] for size in offered[1] for gid in offered[2]]
    else:
        combinations = [[each[turn % len(each)] for each in offered] for turn in range(max(map(len, offered)))]
    return [Case(turn, *combination) for turn, combination in enumerate(combinations)]


def problems_of(program, case, output):
    """What one side should have printed and did not, and what it should not."""
    if program == XRC:
        return [] if re.search(r"^success$", output, re.MULTILINE) else ["no success"]
    problems = re.findall(r"^invalid data in page \d+$", output, re.MULTILINE)
    iterations = case.iterations()
    for line in (f"{2 * case.size * iterations} bytes in", f"{iterations} iters in"):
        if not re.search(rf"^{line} \d", output, re.MULTILINE):
            problems.append(f'no line "{line}"')
    return problems
