"""rping of rdmacm-utils: how it may be run, and what it prints of its pings."""
import itertools
import re

from harness import TEST_ALL

# -q: the program leads its queue pairs itself.
OPTIONS = ((), ("-q",), ("-d",), ("-d", "-q"))
SIZES = (23, 100, 4096, 65535)  # the least and the most that it allows


def runs(addresses, users):
    """(options, size, address, user): all of them, or as few as have each of these once."""
    offered = OPTIONS, SIZES, addresses, users
    if TEST_ALL:
        return list(itertools.product(*offered))
    return [tuple(each[turn % len(each)] for each in offered) for turn in range(max(map(len, offered)))]


def pings_in(output, side):
    """The numbers of the pings whose data a side has seen, in their order."""
    return [int(number) for number in re.findall(rf"^(?:{side} )?ping data: rdma-ping-(\d+): ", output, re.MULTILINE)]
