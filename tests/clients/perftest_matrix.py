"""What is run of perftest: the programs and their connections, the options, the two interfaces for posting."""
from typing import NamedTuple

from harness import TEST_ALL

ATOMIC_SIZE, BANDWIDTH_SIZE, LATENCY_SIZE = 8, 65536, 2  # the programs' defaults
INLINE_SIZE = 64
LARGEST_POWER = 23  # of -a


class Variant(NamedTuple):
    """A program with the arguments that choose what it measures."""
    program: str
    connection: str = "RC"
    atomic: str = ""

    def arguments(self):
        return ["-c", self.connection, *(["-A", self.atomic] if self.atomic else [])]

    def __str__(self):
        return " ".join([self.program, *self.arguments()])

    @property
    def may_lose(self):
        """Messages that find no receive are lost, and perftest waits for them for ever."""
        return "send" in self.program and self.connection in ("UC", "UD")

    @property
    def bandwidth(self):
        return self.program.endswith("_bw")

    def sizes(self, option, mtu):
        """The sizes of the messages; those of UD are one packet."""
        largest = mtu if self.connection == "UD" else 1 << LARGEST_POWER
        if self.atomic:
            return [ATOMIC_SIZE]
        if option.all_sizes:
            return [1 << power for power in range(1, LARGEST_POWER + 1) if 1 << power <= largest]
        return [min(option.size or (BANDWIDTH_SIZE if self.bandwidth else LATENCY_SIZE), largest)]


def variants(verb, *connections, atomics=("",)):
    return [Variant(f"ib_{verb}_{figure}", connection, atomic)
            for figure in ("bw", "lat") for connection in connections for atomic in atomics]


ONE_SIDED = variants("write", "RC") + variants("read", "RC")
MESSAGES = variants("send", "RC", "UC", "UD", "XRC") + variants("write", "UC", "XRC") + variants("read", "XRC")
ATOMICS = variants("atomic", "RC", "XRC", atomics=("CMP_AND_SWAP", "FETCH_AND_ADD"))


class Option(NamedTuple):
    """One way to run a program."""
    flags: tuple = ()  # what its help must list
    arguments: tuple = ()
    note: str = ""
    size: int = 0  # of the messages, where it is not the program's default
    all_sizes: bool = False
    directions: int = 1
    environment: dict = {}
    prints: str = ""
    outruns: bool = False  # the senders may be faster than the receiver posts

    def __str__(self):
        return " ".join(self.arguments or ("no option",)) + (f" ({self.note})" if self.note else "")

    @property
    def timed(self):
        return "-D" in self.flags


class Interface(NamedTuple):
    """How perftest posts: it decides by the device's part id, as it does how much data it sends inline."""
    arguments: tuple = ()
    environment: dict = {}
    inline_environment: dict = {}
    prints: str = ""


# To perftest our device is unknown, which means no inline data; a ConnectX-3 has some, and is driven the old way too.
POST_SEND = Interface(inline_environment={"VERBATIM_VENDOR_PART_ID": "4099"}, prints=" ibv_wr* API     : OFF")
CONNECTX_5 = {"VERBATIM_VENDOR_PART_ID": "4119"}
WORK_REQUEST_CALLS = Interface((), CONNECTX_5, CONNECTX_5, " ibv_wr* API     : ON")
OLD_ON_REQUEST = Interface(("--use_old_post_send",), CONNECTX_5, CONNECTX_5, " ibv_wr* API     : OFF")

# All sizes at the default number of messages would move 80 GB.
ALL = Option(("-a",), ("-a", "-n", "1000" if TEST_ALL else "200"), all_sizes=True)
MAPPED = Option(("--mmap",), ("--mmap",))
NONE = Option()


WHOLE_LISTS = ("-l", "16", "-n", "1600")


def options(interface):
    """One at a time, and the pairs that meet in our code: many queues, lists, inline data, a shared queue."""
    inline = Option(("-I",), ("-I", str(INLINE_SIZE), "-s", str(INLINE_SIZE)), "a device that perftest knows",
                    INLINE_SIZE, environment=interface.inline_environment,
                    prints=f"Max inline data : {INLINE_SIZE}[B]")
    return [
        NONE,
        Option(("-q",), ("-q", "16")),
        Option(("-b",), ("-b",), directions=2),
        Option(("-l",), WHOLE_LISTS),
        Option(("--use-srq",), ("--use-srq",)),
        Option(("-D",), ("-D", "3")),
        Option(("-I",), ("-I", str(INLINE_SIZE))),
        inline,
        Option(("--report_gbits",), ("--report_gbits",)),
        Option(("-b", "-q"), ("-b", "-q", "16"), directions=2),
        # 16 times 128 requests for 512 receives.
        Option(("--use-srq", "-q"), ("--use-srq", "-q", "16"), outruns=True),
        inline._replace(flags=("-I", "-l"), arguments=inline.arguments + WHOLE_LISTS),
        Option(("-q", "-l"), ("-q", "16", *WHOLE_LISTS)),
        Option(("-b", "-l"), ("-b", *WHOLE_LISTS), directions=2),
        Option(("-b", "--use-srq"), ("-b", "--use-srq"), directions=2),
    ]


# Those that wait for completions in a channel.
SLEEPING_OPTIONS = [
    Option(("-e",), ("-e",)),
    Option(("-e", "-q"), ("-e", "-q", "16")),
    Option(("-e", "-b"), ("-e", "-b"), directions=2),
    Option(("-e", "--use-srq"), ("-e", "--use-srq")),
    Option(("-e", "-l"), ("-e", *WHOLE_LISTS)),
]
