"""What the tests of the `verbatim` command share."""
import os
import shutil
import subprocess
import tempfile
import unittest

# Not VERBATIM_...: the tool looks at those.
TOOL = os.environ["VERBATIM_TOOL"]
SOURCE = os.environ["SOURCE_FOLDER"]
BUILD = os.environ["BUILD_FOLDER"]

LIBRARIES = {"ibverbs": "libibverbs.so.1", "rdmacm": "librdmacm.so.1", "rpma": "librpma.so.0"}
NOBODY = 65534


def clean_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("VERBATIM_") and k != "LD_LIBRARY_PATH"}


def run(*command, env=None, **options):
    """Runs a command; `env` is added to an environment without VERBATIM_* and LD_LIBRARY_PATH."""
    return subprocess.run(command, env={**clean_environment(), **(env or {})}, capture_output=True, text=True,
                          check=False, timeout=60, **options)


class InPrefix(unittest.TestCase):
    """A prefix of its own for each test: the tool, and empty files for the libraries that `self.hold` names."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        self.prefix = os.path.realpath(folder.name)
        self.folder = f"{self.prefix}/lib/verbatim"
        self.tool = f"{self.prefix}/bin/verbatim"
        os.makedirs(f"{self.prefix}/bin")
        os.makedirs(self.folder)
        shutil.copy2(TOOL, self.tool)
        self.hold("ibverbs", "rdmacm")

    def hold(self, *names):
        for name in names:
            file = LIBRARIES[name]
            with open(f"{self.folder}/{file}", "wb"):
                pass
            os.makedirs(f"{self.folder}/only/{name}")
            os.symlink(f"../../{file}", f"{self.folder}/only/{name}/{file}")

    def verbatim(self, *arguments, **options):
        return run(self.tool, *arguments, **options)

    def file(self, name, content=b"", mode=0o755):
        path = f"{self.prefix}/{name}"
        with open(path, "wb") as out:
            out.write(content)
        os.chmod(path, mode)
        return path

    def copy_of(self, program, name):
        path = f"{self.prefix}/{name}"
        shutil.copyfile(shutil.which(program), path)
        os.chmod(path, 0o755)
        return path

    def assert_refused(self, result, status, *words):
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertTrue(result.stderr.startswith("verbatim: "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
