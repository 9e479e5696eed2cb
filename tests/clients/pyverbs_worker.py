"""Runs modules of pyverbs' own suite and writes what becomes of each test, one JSON object a line, as it happens.

usage: pyverbs_worker.py FOLDER OUTPUT MODULE...

FOLDER holds the suite's package `tests`. Runs under the python that pyverbs is built for, so it uses nothing of ours.
"""
import json
import subprocess
import sys
import unittest


class Recorder(unittest.TestResult):
    """Standard output is the tests' own: some of them print."""

    def __init__(self, output):
        super().__init__()
        self._output = output

    def _write(self, test, outcome, detail=""):
        print(json.dumps({"test": test.id(), "outcome": outcome, "detail": detail}), file=self._output, flush=True)

    # "started" is what remains of a test that ends the process.
    def startTest(self, test):
        super().startTest(test)
        self._write(test, "started")

    def addSuccess(self, test):
        self._write(test, "passed")

    def addSkip(self, test, reason):
        self._write(test, "skipped", reason)

    def addFailure(self, test, err):
        self._write(test, "failed", self._exc_info_to_string(err, test))

    addError = addFailure

    def addExpectedFailure(self, test, err):
        self._write(test, "passed")

    def addUnexpectedSuccess(self, test):
        self._write(test, "failed", "expected to fail, and passed")


def interface():
    """By which this host reaches others; if by none, its loopback interface."""
    routes = json.loads(subprocess.check_output(["ip", "-j", "route", "show", "default"]) or "[]")
    return routes[0]["dev"] if routes else "lo"


def show_interface(case):
    """The suite looks in sysfs which interface a device has, and does without rdma_cm where it finds none. A device
    that is in no kernel is not in sysfs; ours has all interfaces."""
    def get_ip_mac(self, device, port, index):
        self.args.append([device, port, index, *self.get_ip_mac_address(interface())])

    case._get_ip_mac = get_ip_mac


def main():
    folder, output, *modules = sys.argv[1:]
    sys.path[:0] = [folder, f"{folder}/tests"]
    sys.argv[1:] = []
    from args_parser import parser  # the suite's; its tests ask it which device to use
    parser.parse_args()
    if "test_rdmacm" in modules:
        from tests.base import RDMATestCase
        show_interface(RDMATestCase)
    with open(output, "w", encoding="utf-8") as file:
        unittest.TestLoader().loadTestsFromNames([f"tests.{module}" for module in modules]).run(Recorder(file))


if __name__ == "__main__":
    main()
