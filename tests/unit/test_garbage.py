"""A process that lives long looks for garbage less often, and not at all at what it had when it began."""

from __future__ import annotations

import json
import subprocess
import sys

from conductor.core.garbage import THRESHOLDS

SETTLED = """
import gc, json
from conductor.core import garbage
old, before = [[] for _ in range(10_000)], gc.get_freeze_count()
garbage.settle()
print(json.dumps([gc.get_threshold(), gc.get_freeze_count() - before >= len(old), gc.isenabled()]))
"""


def test_what_is_there_once_it_can_work_is_looked_through_no_more() -> None:
    said = subprocess.run([sys.executable, "-c", SETTLED], capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == [list(THRESHOLDS), True, True]
