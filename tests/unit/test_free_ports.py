"""Free ports for services and clouds in tests: a port that was drawn and is not bound yet is not drawn again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.services import process

# Another worker of the tests, which looks at all ports in their order.
ANOTHER = """
from tests.services import process
process._chance.sample = lambda ports, count: list(ports)
print(process.free_port(), flush=True)
input()
"""


def test_two_processes_never_draw_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process._chance, "sample", lambda ports, count: list(ports))
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", ANOTHER], stdin=pipe, stdout=pipe, text=True) as another:
        assert another.stdout is not None
        theirs = int(another.stdout.readline())
        assert not process.listens(theirs)
        ours = [process.free_port(), process.free_port()]
        another.communicate("\n")
    assert theirs not in ours
    assert len(set(ours)) == 2


def test_a_port_is_free_again_when_the_process_that_drew_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ANOTHER.replace("input()", "")
    theirs = int(subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout)
    monkeypatch.setattr(process._chance, "sample", lambda ports, count: [theirs])
    assert process.free_port() == theirs
