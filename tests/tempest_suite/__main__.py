"""Run the OpenStack integration tests of the compute, network and volume APIs: `make conformance`.

Tests that sign in to a guest are left out: simulated guests have no system.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.acceptance.cloud import Cloud
from tests.tempest_suite import configuration, results

PROJECT = Path(__file__).resolve().parents[2]
SUITE = ("tempest==47.0.0", "stestr==4.2.1")
# One cell, hosts for migrations, and administrators as the suite makes them: in projects of their own.
CLOUD = {
    "NOVELLA_CELLS": "cell1",
    "NOVELLA_SIMULATED_HOSTS": "9",
    "NOVELLA_SIMULATED_LATENCY_SECONDS": "0.1",
    "NOVELLA_ADMIN_PROJECT": "any",
}
# Prints name and outcome of each test; runs in the suite's environment, which can read its results.
READ = """
import sys
from subunit import ByteStreamToStreamResult
from testtools import StreamToDict
show = lambda test: print(test["id"], test["status"], sep="\\t")
result = StreamToDict(show)
result.startTestRun()
ByteStreamToStreamResult(sys.stdin.buffer).run(result)
result.stopTestRun()
"""


class Suite:
    """The installed suite, in an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self._programs = folder / "bin"

    def install(self) -> None:
        """Install the suite, unless it is there."""
        if not (self._programs / "tempest").exists():
            subprocess.run([sys.executable, "-m", "venv", self._programs.parent], check=True)
            subprocess.run([self._programs / "pip", "install", "--quiet", *SUITE], check=True)

    def run(self, work: Path, cloud: Cloud, *, chosen: str, workers: int) -> dict[str, str]:
        """Run the tests that match `chosen`; returns the outcome of each."""
        environment = {**os.environ, "HOME": str(work), "PATH": f"{self._programs}:{os.environ['PATH']}"}
        space = work / "suite"
        subprocess.run(["tempest", "init", space], env=environment, check=True, stdout=subprocess.DEVNULL)
        configuration.write(space / "etc" / "tempest.conf", cloud)
        words = ["tempest", "run", "--subunit", "--regex", chosen, "--concurrency", str(workers)]
        with (work / "results.subunit").open("wb") as output:  # it fails where a test does: the results say which
            subprocess.run(words, cwd=space, env=environment, stdout=output, check=False)
        with (work / "results.subunit").open("rb") as output:
            read = [self._programs / "python", "-c", READ]
            shown = subprocess.run(read, stdin=output, capture_output=True, check=True, text=True)
        return results.read(shown.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = rf"^tempest\.api\.({'|'.join(configuration.PARTS)})\."
    parser.add_argument("--tests", default=every, help="a regular expression of tests' names")
    parser.add_argument("--workers", type=int, default=2, help="how many tests run at once")
    parser.add_argument("--environment", type=Path, default=PROJECT / "build" / "tempest", help="where the suite is")
    parser.add_argument("--keep", action="store_true", help="keep the cloud's data and the suite's logs")
    requested = parser.parse_args()
    suite = Suite(requested.environment.resolve())
    suite.install()
    work = Path(tempfile.mkdtemp(prefix="novella-conformance-"))
    cloud = Cloud(work / "var", **CLOUD)
    try:
        outcomes = suite.run(work, cloud.start(), chosen=requested.tests, workers=requested.workers)
    finally:
        if cloud.is_alive:
            cloud.stop()
        if not requested.keep:
            shutil.rmtree(work, ignore_errors=True)
    print("\n".join(results.table(outcomes)))
    wrong = results.differences(outcomes, results.known(results.KNOWN.read_text().splitlines()))
    print("\n".join(wrong))
    if requested.keep:
        print(f"kept: {work}")
    return 1 if wrong or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
