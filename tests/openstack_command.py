"""The real `openstack` command, kept running: starting it anew for each line would take most of a test's time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from threading import Timer
from typing import Any

SECONDS = 300.0
# The command as it is installed: loaded once, and forked for each line that comes, which so finds it untouched.
RUN_EACH = """
import contextlib, io, json, os, sys
from openstackclient.shell import OpenStackShell

def run(words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = OpenStackShell().run(words)
        except SystemExit as ended:
            code = ended.code
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}

run(["server", "list", "--help"])
for line in sys.stdin:
    asked = json.loads(line)
    reads, writes = os.pipe()
    if not (child := os.fork()):
        os.environ.update(asked["environment"])
        with os.fdopen(writes, "w") as result:
            json.dump(run(asked["words"]), result)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as result:
        print(result.read(), flush=True)
    os.waitpid(child, 0)
"""


class OpenStackCommand:
    """Runs command lines one after the other, each as the user in `environment`."""

    def __init__(self) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", RUN_EACH], env=clean, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, words: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, str]:
        """Return exit code, output, and error output."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"words": list(words), "environment": dict(environment)}) + "\n")
        process.stdin.flush()
        hangs = Timer(SECONDS, process.kill)
        hangs.start()
        try:
            line = process.stdout.readline()
        finally:
            hangs.cancel()
        assert line.strip(), f"openstack {' '.join(words)} hung or died"
        answered: dict[str, Any] = json.loads(line)
        return answered["code"], answered["out"], answered["err"]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=SECONDS)
        self._process.stdout.close()
