"""Garbage collection in a long-lived process: rarer, and without the objects from its start."""

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


def test_objects_from_the_start_are_not_collected() -> None:
    message = subprocess.run([sys.executable, "-c", SETTLED], capture_output=True, text=True, check=True).stdout
    assert json.loads(message) == [list(THRESHOLDS), True, True]


LOADED = """
import gc, json
from conductor.core import garbage
garbage.rest()
rests, loaded, before = not gc.isenabled(), [[] for _ in range(10_000)], gc.get_freeze_count()
garbage.resume()
print(json.dumps([rests, gc.get_freeze_count() - before >= len(loaded), gc.isenabled()]))
"""


def test_no_garbage_is_collected_while_modules_are_loaded() -> None:
    message = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout
    assert json.loads(message) == [True, True, True]
