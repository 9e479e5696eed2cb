"""Whether the figures that a perftest program reports are possible on this machine."""
import os
import subprocess

from perftest import rows_in

# A transfer touches memory as a memcpy does, so memcpy is its ceiling. The margin is for what two measurements do not
# hold still: the processor's frequency, the neighbours in its caches, a copy routine other than memcpy's.
MARGIN = 1.5


class MemcpyCeiling:
    """Bytes per second of a memcpy of each size, the best of what was measured before and after a run."""

    def __init__(self, sizes):
        self._sizes = sizes
        self._best = dict.fromkeys(sizes, 0.0)

    def measure(self):
        command = [os.environ["MEMCPY_LIMIT"], *map(str, self._sizes)]
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        for line in result.stdout.splitlines():
            size, speed = line.split()
            self._best[int(size)] = max(self._best[int(size)], float(speed))

    def of(self, size):
        return self._best[size]


def problems_of(output, ceiling=None, directions=1, no_peak=False):
    """What is wrong with the tables of a side's output, one line for each impossible figure.

    `ceiling`: for bandwidths, unless they say nothing of what arrived; `directions`: how many processes copy at a time; `no_peak`: perftest kept no
    times of single messages, as in a run of -D, and reports 0 for the fastest.
    """
    problems = []
    for row in rows_in(output):
        size = row.values["#bytes"]
        zero_is_right = {"t_stdev"}
        # perftest rounds bandwidths to 0.01 MB/s and message rates to a message a second: small messages on a machine
        # that is busy with something else may show in the latter only.
        if 0 < row.values.get("MsgRate", 0) * 1e6 * size < 0.005e6:
            zero_is_right.add("BW average")
        if no_peak:
            zero_is_right.add("BW peak")
        for name, value in row.values.items():
            if not (0 < value < float("inf")) and not (value == 0 and name in zero_is_right):
                problems.append(f"{size:.0f} bytes: {name} is {value}")
        for name, speed in row.bandwidths().items():
            limit = ceiling.of(size) * directions * MARGIN if ceiling else float("inf")
            if speed > limit:
                problems.append(f"{size:.0f} bytes: {name} is {speed:.4g} bytes/s, and memcpy would allow {limit:.4g}")
    return problems
