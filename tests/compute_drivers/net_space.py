"""A network namespace that a test has for itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.services.namespaces import NetworkNamespace


@contextmanager
def net_space() -> Iterator[str]:
    """Run this thread and its processes in a network namespace without devices of others; it is removed afterwards."""
    made = NetworkNamespace.create()
    try:
        with made.entered():
            yield made.name
    finally:
        made.delete()


def devices() -> list[str]:
    """Return all devices of this namespace but its own end."""
    output = subprocess.run(["ip", "-json", "link"], check=True, capture_output=True).stdout
    return sorted(link["ifname"] for link in json.loads(output) if link["ifname"] != "lo")
