"""Tells the conductor that a host is alive, what it offers and which guests it has."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from conductor.compute.host_journal import HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.manager import Send
from conductor.core.compute_driver import ComputeDriver, GuestInfo
from conductor.core.metrics import BOOTED_AT
from conductor.rpc.messages import HostReported
from conductor.rpc.versions import SERVICE_VERSION


@cache
def booted() -> dict[str, int]:
    """When this machine started, as reports tell it; nothing where the kernel does not say."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return {}
    found = next((line for line in lines if line.startswith("btime ")), None)
    return {BOOTED_AT: int(found.split()[1])} if found else {}


class Heartbeat:
    """Reports of one host. `guests` is what the last one said."""

    def __init__(self, config: HostConfig, driver: ComputeDriver, *, journal: HostJournal, send: Send) -> None:
        self._config = config
        self._driver = driver
        self._journal = journal
        self._send = send
        self.guests: tuple[GuestInfo, ...] = ()

    def beat(self) -> None:
        """Send one report; raises what the driver raises, and then says nothing: silence is what it deserves."""
        # The number comes before the look: of two reports, the one with the higher number looked later.
        number = self._journal.next_report_number()
        report = self._driver.report()
        told = {"actions": sorted(self._driver.capabilities), **booted()}
        report = replace(report, capabilities={**report.capabilities, **told})
        self.guests = tuple(self._driver.guests())
        self._send(
            self._config.cell,
            HostReported(
                host=self._config.host,
                cell=self._config.cell,
                driver=self._config.driver,
                is_simulated=self._driver.is_simulated,
                service_version=SERVICE_VERSION,
                report_number=number,
                availability_zone=self._config.availability_zone,
                report=report.to_json(),
                guests={guest.instance_uuid: int(guest.power_state) for guest in self.guests},
            ),
        )
