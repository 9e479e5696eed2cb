"""The bandwidth and latency programs of perftest run, and their figures are possible."""
import unittest

import perftest_case
from cm_pair import CmPerftest
from perftest_matrix import ATOMICS, MESSAGES, OLD_ON_REQUEST, ONE_SIDED, POST_SEND, WORK_REQUEST_CALLS


class OneSided(perftest_case.PerftestCase):
    variants, interface = ONE_SIDED, POST_SEND


class Messages(perftest_case.PerftestCase):
    variants, interface = MESSAGES, POST_SEND


class Atomics(perftest_case.PerftestCase):
    variants, interface = ATOMICS, POST_SEND
    default_kinds = ("options", "sleeping")


class WorkRequestCalls(perftest_case.PerftestCase):
    """ibv_wr_start and what follows it."""
    variants, interface = ONE_SIDED + MESSAGES + ATOMICS, WORK_REQUEST_CALLS
    all_sizes = False
    default_kinds = ("options",)


class OldOnRequest(perftest_case.PerftestCase):
    """--use_old_post_send on a device that has both interfaces: an option, hence without the others."""
    variants, interface = ONE_SIDED + MESSAGES + ATOMICS, OLD_ON_REQUEST
    all_variants = all_sizes = False
    kinds = ()


class ByRdmaCm(perftest_case.PerftestCase):
    """-R: the queue pairs are connected by rdma_cm, which perftest does for RC and UD alone."""
    variants = [variant for variant in ONE_SIDED + MESSAGES + ATOMICS if variant.connection in ("RC", "UD")]
    interface, pair = POST_SEND, CmPerftest
    all_sizes = False
    kinds = ("options", "sleeping")
    default_kinds = ()


if __name__ == "__main__":
    unittest.main()
