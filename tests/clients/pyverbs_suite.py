"""pyverbs' own tests: where Debian installs them, how they are run, and which may be skipped."""
import glob
import gzip
import json
import os
import re
import shutil
from typing import NamedTuple

from harness import Process, environment_of

INSTALLED = "/usr/share/doc/rdma-core/tests"
INTERPRETER = "/usr/bin/python3"  # the one that python3-pyverbs is built for, whichever runs us
WORKER = os.path.join(os.path.dirname(__file__), "pyverbs_worker.py")
SKIPS = os.path.join(os.path.dirname(__file__), "../../docs/TESTING.md")

# Tests of one vendor's devices.
NOT_OURS = re.compile(r"test_(mlx5_\w+|efa\w*|cuda_\w+)")


def unpack(folder):
    """Copies the suite to `folder`/tests and returns the names of the modules to run."""
    if not os.path.isdir(INSTALLED):
        raise AssertionError(f"no {INSTALLED}: install python3-pyverbs, on a system whose dpkg keeps documentation")
    target = os.path.join(folder, "tests")
    os.mkdir(target)
    for path in glob.glob(f"{INSTALLED}/*"):
        copy = os.path.join(target, os.path.basename(path).removesuffix(".gz"))
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as source, open(copy, "wb") as destination:
            shutil.copyfileobj(source, destination)
    # The suite's own file imports all of its modules, other vendors' too.
    with open(os.path.join(target, "__init__.py"), "wb"):
        pass
    shutil.copy(WORKER, folder)  # to where every user can read it
    modules = {name.removesuffix(".py") for name in os.listdir(target) if name.startswith("test_")}
    return sorted(module for module in modules if not NOT_OURS.fullmatch(module))


class Skip(NamedTuple):
    """A skip that is right."""
    tests: re.Pattern
    says: str  # what the suite gives as its reason, or the beginning of it

    def covers(self, test, reason):
        return self.tests.fullmatch(test) is not None and reason.startswith(self.says)


def skips_in(markdown):
    """The rows of the table whose first column is headed "skipped test"."""
    rows, inside = [], False
    for line in markdown.splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
        if line.startswith("| skipped test "):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not re.fullmatch("-+", cells[0]):
            tests = "".join(".*" if part == "*" else re.escape(part) for part in re.split(r"(\*)", cells[0]))
            rows.append(Skip(re.compile(tests), cells[1]))
    return rows


class Outcome(NamedTuple):
    test: str  # module.class.function
    outcome: str  # started, passed, skipped, failed
    detail: str


def outcomes_in(lines):
    """The last that was written of each test, in the order of their beginning."""
    last = {}
    for line in lines:
        record = json.loads(line)
        test = record["test"].removeprefix("tests.")
        last[test] = Outcome(test, record["outcome"], record["detail"])
    return list(last.values())


def problems_of(outcomes, skips):
    """A sentence for each test that is neither passed nor rightly skipped."""
    problems = []
    for test, outcome, detail in outcomes:
        if outcome == "started":
            problems.append(f"{test} did not end")
        elif outcome == "failed":
            problems.append(f"{test} failed\n{detail}")
        elif outcome == "skipped" and not any(skip.covers(test, detail) for skip in skips):
            problems.append(f"{test} was skipped: {detail}")
    return problems


class Run:
    """One module as one user in a process of its own: a crash or a hang is that module's."""

    def __init__(self, installation, namespace, user, folder, module):
        self._results = os.path.join(folder, f"{module}-{user.name}.json")
        with open(self._results, "w", encoding="utf-8"):
            os.chmod(self._results, 0o666)
        command = [INTERPRETER, "-B", os.path.join(folder, os.path.basename(WORKER)), folder, self._results, module]
        self.process = Process(installation.command(user, *command), environment_of(namespace), folder)

    def outcomes(self):
        with open(self._results, encoding="utf-8") as lines:
            return outcomes_in(lines)
