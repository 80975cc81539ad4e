"""Tests of tools/image and tools/release: `cargo test -p portolan --test artifacts` runs them.

A stand-in for the release binary keeps them fast: /bin/sh, which is a small program with libraries.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
PROGRAM = pathlib.Path("/bin/sh").resolve()
CERTIFICATES = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"


class ArtifactTest(unittest.TestCase):
    """Test with a directory of its own."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def skip(self, reason):
        """Ends the test in the way that .ci/report reads."""
        print(f"skipped: {self.id().rpartition('.')[2]}: {reason}", flush=True)
        self.skipTest(reason)

    def needs(self, *programs):
        """Skips the test if a program is missing."""
        for program in programs:
            if shutil.which(program) is None:
                self.skip(f"{program} is not installed")

    def needs_namespaces(self):
        """Skips the test if this user cannot create user and network namespaces."""
        self.needs("unshare")
        attempt = run(["unshare", "--map-root-user", "--net", "true"], is_checked=False)
        if attempt.returncode:
            self.skip(f"the kernel refuses user namespaces: {attempt.stderr.strip()}")


def run(command, is_checked=True, source_date="1700000000", variables=(), **options):
    """Runs a program and returns its output. Fails with the output if the program fails."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": source_date, "LC_ALL": "C", **dict(variables)}
    words = [str(word) for word in command]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, check=False, **options)
    if is_checked and done.returncode:
        raise AssertionError(f"{words} exited with {done.returncode}: {done.stdout}{done.stderr}")
    return done
