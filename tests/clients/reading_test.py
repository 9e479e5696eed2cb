"""What the client tests read from the programs' output, shown on output of known content."""
import unittest

from cm_pair import NOBODY_LISTENS
from figures import problems_of as figure_problems_of
from perftest_matrix import ALL, MAPPED, NONE, Variant
from perftest import knows_its_clock, options_in, rows_in
from pingpong import PROGRAMS, XRC, Case, cases, problems_of as pingpong_problems_of
from pyverbs_suite import Outcome, outcomes_in, problems_of, skips_in
from rping import pings_in

BANDWIDTH = """\
 Dual-port       : OFF          Device         : verbatim0
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 2          5000             3.81               2.00               1.000000
 65536      5000             4000.00            3000.00            0.048000
"""

GIGABITS = """\
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1000       5000             8.00               4.00               0.500000
"""

LATENCY = """\
 #bytes #iterations  t_min[usec]  t_max[usec]  t_avg[usec]  t_stdev[usec]  99% percentile[usec]  99.9% percentile[usec]
 2       1000          0.25         4.61         0.27           0.10            0.33                   4.61
"""

DURATION = """\
 #bytes        #iterations       t_avg[usec]    tps average
 2             1000000           0.50           1000000.00
"""

HELP = """\
  -a, --all  Run sizes from 2 till 2^23
  -l, --post_list=<list size>
 Post list of send WQEs of <list size> size (instead of single post)
      --mmap=file  Use an mmap'd file, not like -q, --qp
"""

SKIPS = """\
| promise | test |
|---|---|
| `test_other.*` | nothing |

| skipped test | the suite says | because |
|---|---|---|
| `test_a.Case.*raw*` | Raw is | we say so |

| `test_late.*` | not in the table | |
"""

PINGS = """\
server ping data: rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr
server ping data: rdma-ping-1: BCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrs
wait for RDMA_READ_ADV state 10
"""


class Connections(unittest.TestCase):
    def test_pings_are_those_of_one_side(self):
        self.assertEqual(pings_in(PINGS, "server"), [0, 1])
        self.assertEqual(pings_in(PINGS, "client"), [])
        self.assertEqual(pings_in("ping data: rdma-ping-7: A", "client"), [7])

    def test_a_server_that_does_not_listen_yet_is_told_from_one_that_refuses(self):
        for refusal in ("cma event RDMA_CM_EVENT_REJECTED, error 8", "cmatose: event: RDMA_CM_EVENT_REJECTED, error: 8",
                        "rdma_connect: Connection refused", "udaddy: event: RDMA_CM_EVENT_UNREACHABLE, error: 1"):
            self.assertRegex(refusal, NOBODY_LISTENS)
        for refusal in ("cma event RDMA_CM_EVENT_REJECTED, error 28", "Event: RDMA_CM_EVENT_REJECTED; error: 8.",
                        "udaddy: event: RDMA_CM_EVENT_UNREACHABLE, error: 2",
                        "udaddy: event: RDMA_CM_EVENT_UNREACHABLE, error: -110"):
            self.assertNotRegex(refusal, NOBODY_LISTENS)


class Tables(unittest.TestCase):
    def test_bandwidth_is_in_binary_megabytes(self):
        small, large = rows_in(BANDWIDTH)
        self.assertEqual(small.bandwidths(), {"BW peak": 3.81 * 2**20, "BW average": 2.0 * 2**20})
        self.assertEqual((large.values["#bytes"], large.values["MsgRate"]), (65536, 0.048))

    def test_gigabits_are_decimal(self):
        self.assertEqual(rows_in(GIGABITS)[0].bandwidths(), {"BW peak": 1e9, "BW average": 0.5e9})

    def test_latency_columns_keep_their_names(self):
        row, = rows_in(LATENCY)
        self.assertEqual(row.values["t_min"], 0.25)
        self.assertEqual(row.values["99.9% percentile"], 4.61)
        self.assertEqual(row.units["99% percentile"], "usec")

    def test_the_table_of_a_timed_latency_run_is_read(self):
        self.assertEqual(rows_in(DURATION)[0].values,
                         {"#bytes": 2, "#iterations": 1e6, "t_avg": 0.5, "tps average": 1e6})

    def test_tables_follow_each_other(self):
        self.assertEqual(len(rows_in(BANDWIDTH + GIGABITS + LATENCY)), 4)

    def test_numbers_without_a_header_are_no_row(self):
        self.assertEqual(rows_in("1 2 3\n"), [])

    def test_a_row_that_does_not_fit_its_header_is_an_error(self):
        with self.assertRaises(ValueError):
            rows_in(DURATION + " 4 1000\n")

    def test_a_figure_that_is_no_number_stays_visible(self):
        row, = rows_in(DURATION.replace("0.50", "inf "))
        self.assertEqual(row.values["t_avg"], float("inf"))


class Figures(unittest.TestCase):
    def problems(self, average, rate):
        return figure_problems_of(f"{BANDWIDTH.splitlines()[1]}\n 8 200 1.07 {average} {rate}\n")

    def test_a_bandwidth_may_be_too_small_to_show_but_not_a_message_rate(self):
        self.assertEqual(self.problems("0.00", "0.000311"), [])
        self.assertEqual(self.problems("0.00", "0.000000"), ["8 bytes: BW average is 0.0", "8 bytes: MsgRate is 0.0"])
        self.assertEqual(self.problems("0.00", "0.100000"), ["8 bytes: BW average is 0.0"])
        self.assertEqual(self.problems("0.76", "0.100000"), [])


class Clock(unittest.TestCase):
    def test_a_program_says_when_it_could_not_measure_it(self):
        self.assertTrue(knows_its_clock(BANDWIDTH))
        complaint = "Correlation coefficient r^2: 0.880414 < 0.9\n"
        self.assertFalse(knows_its_clock(complaint + BANDWIDTH))
        # It goes another way than the rows, and so may stand in the middle of one.
        self.assertFalse(knows_its_clock(BANDWIDTH[:-1] + complaint))


class Help(unittest.TestCase):
    def test_only_the_start_of_a_line_names_an_option(self):
        self.assertEqual(options_in(HELP), {"-a", "--all", "-l", "--post_list", "--mmap"})


class Matrix(unittest.TestCase):
    def test_sizes_are_the_defaults_of_the_program_unless_an_option_says_otherwise(self):
        self.assertEqual(Variant("ib_send_bw").sizes(NONE, 1024), [65536])
        self.assertEqual(Variant("ib_send_lat").sizes(MAPPED, 1024), [2])
        self.assertEqual(Variant("ib_send_bw").sizes(NONE._replace(size=64), 1024), [64])
        self.assertEqual(Variant("ib_send_bw").sizes(ALL, 1024)[-1], 1 << 23)

    def test_a_datagram_fits_a_packet(self):
        self.assertEqual(Variant("ib_send_bw", "UD").sizes(NONE, 1024), [1024])
        self.assertEqual(Variant("ib_send_bw", "UD").sizes(ALL, 8), [2, 4, 8])

    def test_an_atomic_has_eight_bytes(self):
        self.assertEqual(Variant("ib_atomic_bw", "RC", "FETCH_AND_ADD").sizes(ALL, 1024), [8])


class Pingpong(unittest.TestCase):
    def test_the_cases_have_each_option_size_and_gid(self):
        for program in PROGRAMS:
            these = cases(program, 1024, [0, 3])
            self.assertEqual({case.options for case in these}, set(program.options))
            self.assertEqual({case.gid_index for case in these}, {0, 3})
            self.assertEqual(max(case.size for case in these), 1024 if program.up_to_mtu else 4 << 20)

    def test_output_without_its_two_lines_or_with_a_complaint_is_a_problem(self):
        case = Case(0, (), 4096, 0)
        good = "8192000 bytes in 0.01 seconds = 1.00 Mbit/sec\n1000 iters in 0.01 seconds = 1.00 usec/iter\n"
        self.assertEqual(pingpong_problems_of(PROGRAMS[0], case, good), [])
        self.assertEqual(pingpong_problems_of(PROGRAMS[0], case, good + "invalid data in page 0\n"),
                         ["invalid data in page 0"])
        self.assertEqual(len(pingpong_problems_of(PROGRAMS[0], case, good.replace("8192000", "4096"))), 1)
        self.assertEqual(len(pingpong_problems_of(PROGRAMS[0], case, "")), 2)
        self.assertEqual(pingpong_problems_of(XRC, case, "success\n"), [])
        self.assertEqual(pingpong_problems_of(XRC, case, good), ["no success"])


class PyverbsSuite(unittest.TestCase):
    def test_only_the_table_of_skips_is_read_as_one(self):
        skip, = skips_in(SKIPS)
        self.assertTrue(skip.covers("test_a.Case.test_raw_qp", "Raw is not supported"))
        self.assertFalse(skip.covers("test_a.Case.test_raw_qp", "Something else"))
        self.assertFalse(skip.covers("test_b.Case.test_raw_qp", "Raw is not supported"))
        self.assertFalse(skip.covers("test_aXCase.test_raw_qp", "Raw is not supported"))

    def test_the_last_word_on_a_test_counts(self):
        lines = ['{"test": "tests.test_a.C.f", "outcome": "started", "detail": ""}',
                 '{"test": "tests.test_a.C.f", "outcome": "passed", "detail": ""}',
                 '{"test": "tests.test_a.C.g", "outcome": "started", "detail": ""}']
        self.assertEqual([each[:2] for each in outcomes_in(lines)],
                         [("test_a.C.f", "passed"), ("test_a.C.g", "started")])

    def test_only_what_passed_or_is_rightly_skipped_is_no_problem(self):
        outcomes = [Outcome("test_a.Case.test_raw", "skipped", "Raw is not supported"), Outcome("a", "passed", ""),
                    Outcome("test_a.Case.test_raw", "skipped", "no time"), Outcome("c", "started", ""),
                    Outcome("d", "failed", "because")]
        self.assertEqual(problems_of(outcomes, skips_in(SKIPS)),
                         ["test_a.Case.test_raw was skipped: no time", "c did not end", "d failed\nbecause"])


if __name__ == "__main__":
    unittest.main()
