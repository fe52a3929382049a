"""Two hosts with a libvirt daemon each, between which guests move while they run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from compute_drivers.libvirt.driver import LibvirtDriver
from conductor.core.compute_driver import GuestSpec
from conductor.core.consoles import ConsoleKind
from conductor.services.server_migrations.convergence import ConvergenceVerdict, Sample, judge, sample_of
from tests.compute_drivers.libvirtd import Daemon
from tests.compute_drivers.real_guests import PROJECT, QUICK, SECONDS, SHELF, wait_for
from tests.waiting import wait_until

# Output of the guest from its start on: a shell on the same port may write between these lines, never into one.
COUNTS = b"#!/bin/sh\n(i=0; while :; do i=$((i+1)); echo count-$i > /dev/ttyS0; sleep 0.2; done) &\n"
ASKS = b"\x03\nread -r t _ < /proc/uptime; echo up for ${t%.*}.\n"
COUNT = re.compile(rb"count-(\d+)\r\n")
UP = re.compile(rb"up for (\d+)\.")


@dataclass
class Host:
    """A daemon, and a driver that uses it."""

    daemon: Daemon
    driver: LibvirtDriver

    def options(self, **others: object) -> dict[str, Any]:
        return {**self.driver.options, **others}

    @contextmanager
    def with_options(self, **options: object) -> Iterator[LibvirtDriver]:
        """Yield the same host with other options, as after a restart of its agent."""
        again = LibvirtDriver(self.driver.host, self.options(**options), SHELF.open)
        again.start()
        yield again
        again.stop()


def opened(folder: Path, name: str) -> Host:
    """Start a host and its daemon. Return the host."""
    daemon = Daemon(folder / name)
    daemon.start()
    options = {"uri": daemon.uri, "migration_uri": daemon.uri, "migration_address": "unix", **QUICK}
    driver = LibvirtDriver(name, {"state_dir": str(folder / f"{name}-state"), **options}, SHELF.open)
    driver.start()
    return Host(daemon, driver)


def close(host: Host) -> None:
    for guest in host.driver.guests():
        host.driver.destroy(guest.instance_uuid)
    host.driver.stop()
    host.daemon.stop()


@contextmanager
def two(folder: Path) -> Iterator[tuple[Host, Host]]:
    with ExitStack() as stack:
        found = []
        for name in ("live-a", "live-b"):
            found.append(opened(folder, name))
            stack.callback(close, found[-1])
        yield found[0], found[1]


class Inside:
    """The answers of a Linux guest, on whichever host it runs; it counts all the time."""

    def __init__(self, driver: LibvirtDriver, guest: GuestSpec) -> None:
        self.guest, self.uuid = guest, guest.instance_uuid
        wait_for(driver, self.uuid, b":/root# ")
        wait_for(driver, self.uuid, b"count-3\r\n")

    def counts(self, driver: LibvirtDriver) -> list[int]:
        return [int(found) for found in COUNT.findall(driver.console_log(self.uuid, 0))]

    def goes_on(self, driver: LibvirtDriver, since: int) -> int:
        """Wait until the guest has counted beyond `since`, without a gap. Return its last number."""

        def counted_on() -> list[int]:
            found = self.counts(driver)
            return found if found and found[-1] >= max(since, found[0]) + 2 else []

        found: list[int] = wait_until(
            f"the guest counts beyond {since}", counted_on, SECONDS, details=lambda: self.counts(driver)[-3:]
        )
        assert found == list(range(found[0], found[-1] + 1))
        return found[-1]

    def uptime(self, driver: LibvirtDriver) -> int:
        """Seconds since its kernel started, by its own word."""
        output = len(driver.console_log(self.uuid, 0))
        with driver.open_console(self.uuid, ConsoleKind.SERIAL) as line:
            line.sendall(ASKS)
            found: list[bytes] = wait_until(
                "its uptime on the console",
                lambda: UP.findall(driver.console_log(self.uuid, output)),
                SECONDS,
                details=lambda: driver.console_log(self.uuid, output),
            )
        return int(found[-1])


class Watching:
    """A `progress` that records its reports, and runs something once memory is sent, or when `when` is true."""

    def __init__(
        self, does: Callable[[], object] = lambda: None, when: Callable[[Mapping[str, int]], bool] | None = None
    ) -> None:
        self.sentences: list[str] = []
        self.figures: list[Mapping[str, int]] = []
        self._does: Callable[[], object] | None = does
        self._when = when or (lambda figures: figures.get("memory_processed", 0) > 1 << 20)

    def __call__(self, message: str, share: float | None = None, figures: Mapping[str, int] | None = None, /) -> None:
        self.sentences.append(message)
        if figures is None:
            return
        self.figures.append(figures)
        if self._does is not None and self.is_time(figures):
            does, self._does = self._does, None
            does()

    def is_time(self, figures: Mapping[str, int]) -> bool:
        return self._when(figures)


class Judging(Watching):
    """Judges convergence as the migration page does, acts once the guest does not converge, and notifies `then`."""

    def __init__(self, does: Callable[[], object], then: Watching) -> None:
        super().__init__(does)
        self.verdicts: list[ConvergenceVerdict] = []
        self._then = then
        self._samples: list[Sample] = []

    def __call__(self, message: str, share: float | None = None, figures: Mapping[str, int] | None = None, /) -> None:
        super().__call__(message, share, figures)
        if self._does is None:
            self._then(message, share, figures)

    def is_time(self, figures: Mapping[str, int]) -> bool:
        now = datetime.now(UTC)
        sample = sample_of(now, figures)
        if sample is None or self._does is None:
            return False
        self._samples.append(sample)
        self.verdicts.append(judge(self._samples, now))
        return self.verdicts[-1].text.startswith("Not converging")


AGENT = """
import json, sys
from compute_drivers.libvirt.driver import LibvirtDriver
from conductor.core.compute_driver import GuestSpec
inputs = json.load(sys.stdin)
driver = LibvirtDriver(inputs["host"], inputs["options"], None)
driver.start()
def progress(message, share=None, figures=None):
    if figures and figures.get("memory_processed", 0) > 1 << 20:
        print("memory is on its way", flush=True)
driver.live_migrate(GuestSpec.from_json(inputs["guest"]), inputs["target"], progress, is_block_migration=None)
"""


def agent_of(source: Host, options: dict[str, Any], inside: Inside, target: dict[str, Any]) -> subprocess.Popen[str]:
    """Start a process that migrates the guest and reports."""
    order = {"host": source.driver.host, "options": options, "guest": inside.guest.to_json(), "target": target}
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT
    )
    assert agent.stdin is not None
    agent.stdin.write(json.dumps(order))
    agent.stdin.close()
    return agent
