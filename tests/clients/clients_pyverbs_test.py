"""pyverbs' own suite passes; what it skips is in the table of docs/TESTING.md."""
import os
import tempfile
import unittest

from client_case import ClientCase
from harness import users
from pyverbs_suite import SKIPS, Run, problems_of, skips_in, unpack

SECONDS = 300  # for a module


class Pyverbs(ClientCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="verbatim-clients-"))
        os.chmod(cls.folder, 0o755)
        cls.modules = unpack(cls.folder)
        with open(SKIPS, encoding="utf-8") as file:
            cls.skips = skips_in(file.read())

    def test_every_test_passes_or_is_skipped_for_a_reason_that_is_known(self):
        for module in self.modules:
            for user in users():
                with self.subTest(module=module, user=user.name), self.agent_namespace() as namespace:
                    self.check(module, user, namespace)

    def check(self, module, user, namespace):
        run = Run(self.installation, namespace, user, self.folder, module)
        try:
            status = run.process.wait(SECONDS)
        finally:
            run.process.end()
        outcomes = run.outcomes()
        problems = problems_of(outcomes, self.skips)
        if status != 0 or not outcomes:
            problems.append(run.process.report("the suite"))
        counts = {kind: sum(1 for each in outcomes if each.outcome == kind) for kind in ("passed", "skipped", "failed")}
        print(f"{module} as {user.name}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
        if problems:
            self.fail("\n".join(problems))


if __name__ == "__main__":
    unittest.main()
