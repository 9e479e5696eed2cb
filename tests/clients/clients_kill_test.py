"""kill -9 of either side, or of the agent, at a random moment of a transfer: nobody hangs, and nothing is left.

10 rounds by default, 100 with VERBATIM_TEST_ALL=1. Each run prints its seed; VERBATIM_TEST_SEED repeats one.
"""
import contextlib
import os
import random
import signal
import time
import unittest

from client_case import ClientCase
from harness import TEST_ALL, users, wait_until
from pair import Pair
from perftest import rows_in

ROUNDS = 100 if TEST_ALL else 10
PROGRAMS = ("ib_write_bw", "ib_read_bw")

# The first that is long enough: on a busy machine a short transfer may be over before we have seen it begin.
TRANSFER_SECONDS = (3, 6, 12, 24)
LAST_KILL = {"transfer": 1.5, "setup": 0.2}  # seconds into it
SECONDS_TO_START = 30
SECONDS_TO_END = 30

# Printed by both sides when the queue pairs are connected; the transfer follows.
TRANSFER_STARTS = "#bytes"

# IBV_WC_RETRY_EXC_ERR as perftest prints it: what a NIC reports for a peer that answers no more.
RETRIES_EXHAUSTED = "Failed status 12"

# (who dies, when): during the transfer, or when the sides have found each other over TCP and set up their queue pairs.
VICTIMS = (("server", "transfer"), ("client", "transfer"), ("agent", "transfer"), ("server", "setup"),
           ("client", "setup"))


class TransferOver(Exception):
    """There was nothing left to kill anybody in the middle of."""


class Kill(ClientCase):
    def test_the_others_go_on_or_end_and_nothing_is_left(self):
        seed = int(os.environ.get("VERBATIM_TEST_SEED") or random.SystemRandom().randrange(2**32))
        print(f"VERBATIM_TEST_SEED={seed}")
        chance = random.Random(seed)
        for number in range(ROUNDS):
            victim, phase = VICTIMS[number % len(VICTIMS)]
            program, user = chance.choice(PROGRAMS), chance.choice(users())
            delay = chance.uniform(0, LAST_KILL[phase])
            with self.subTest(seed=seed, round=number, program=program, user=user.name, victim=victim, phase=phase,
                              delay=delay):
                self.round(program, user, victim, phase, delay)
                print(f"round {number}: {program} as {user.name}, {victim} killed {delay:.3f} s into the {phase}")

    def round(self, program, user, victim, phase, delay):
        for seconds in TRANSFER_SECONDS:
            with contextlib.suppress(TransferOver):
                return self.round_of(seconds, program, user, victim, phase, delay)
        self.fail(f"{seconds} s are over before anybody is killed")

    def round_of(self, seconds, program, user, victim, phase, delay):
        with self.agent_namespace() as namespace, \
                Pair(self.installation, namespace, user, program, ["-F", "-D", str(seconds)], terminal=True) as pair:
            self.wait_for(phase, pair)
            time.sleep(delay)  # the random moment
            if victim == "agent":
                self.kill_agent(namespace, pair, seconds)
            elif phase == "transfer":
                self.kill_side(pair, victim)
            else:
                getattr(pair, victim).signal(signal.SIGKILL)
                self.assertNotIn(None, pair.wait(SECONDS_TO_END), pair.report())

    def wait_for(self, phase, pair):
        def begun():
            return TRANSFER_STARTS in pair.client.output if phase == "transfer" else pair.connected()

        wait_until(lambda: begun() or pair.client.status is not None, SECONDS_TO_START)
        self.assertTrue(begun(), f"the {phase} does not begin" + pair.report())

    def kill_agent(self, namespace, pair, seconds):
        agent = namespace.agent()
        if rows_in(pair.client.output):
            raise TransferOver
        self.assertIsNotNone(agent, "there is no agent to kill")
        os.kill(agent, signal.SIGKILL)
        self.assertEqual(pair.wait(seconds + SECONDS_TO_END), (0, 0), pair.report())
        row, = rows_in(pair.client.output)
        self.assertGreater(row.values["BW average"], 0, pair.report())

    def kill_side(self, pair, victim):
        getattr(pair, victim).signal(signal.SIGKILL)
        server, client = pair.wait(SECONDS_TO_END)
        if rows_in(pair.client.output):
            raise TransferOver
        survivor = server if victim == "client" else client
        self.assertIsNotNone(survivor, "the survivor hangs" + pair.report())
        self.assertNotEqual(survivor, 0, pair.report())
        if victim == "server":
            self.assertIn(RETRIES_EXHAUSTED, pair.client.output, pair.report())


if __name__ == "__main__":
    unittest.main()
