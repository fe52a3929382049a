"""Tells the conductor that a host is alive, what it offers and which guests it has."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from conductor.compute.driver_account import DriverAccount
from conductor.compute.driver_words import usable_guests, usable_kept, usable_report
from conductor.compute.host_journal import HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.manager import Send
from conductor.core.compute_driver import ComputeDriver, GuestInfo
from conductor.core.metrics import BOOTED_AT
from conductor.rpc import keys
from conductor.rpc.identities import KEYS
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

    def __init__(
        self,
        config: HostConfig,
        driver: ComputeDriver,
        *,
        journal: HostJournal,
        send: Send,
        account: DriverAccount | None = None,
    ) -> None:
        self._config = config
        self._driver = driver
        self._journal = journal
        self._send = send
        self._account = account or DriverAccount(driver.name)
        self._usable: dict[str, Any] = {}
        self.guests: tuple[GuestInfo, ...] = ()

    def beat(self) -> None:
        """Send one report; raises what the driver raises, and then says nothing: silence is what it deserves."""
        # The number comes before the look: of two reports, the one with the higher number looked later.
        number = self._journal.next_report_number()
        report = self._offered()
        self.guests = usable_guests(self._driver.guests())
        kept = usable_kept(self._driver.kept_guests())
        doings = self._account.take()
        try:
            self._send(self._config.cell, self._report(number, report, doings, kept))
        except BaseException:
            self._account.give_back(doings)
            raise

    def _offered(self) -> dict[str, Any]:
        """The driver's report, and what the agent adds."""
        self._usable = usable_report(self._driver.report(), self._usable)
        said = {"actions": sorted(self._driver.capabilities), **booted(), **self._keys()}
        return {**self._usable, "capabilities": {**self._usable["capabilities"], **said}}

    def _keys(self) -> dict[str, Any]:
        """Which keys the host has and which conductors it obeys: the conductors announce what is new."""
        identity = keys.identity_of(self._config.host)
        return {} if identity is None else {KEYS: identity.summary}

    def _report(self, number: int, report: dict[str, Any], doings: Mapping[str, Any], kept: list[str]) -> HostReported:
        return HostReported(
            host=self._config.host,
            cell=self._config.cell,
            driver=self._config.driver,
            is_simulated=self._driver.is_simulated,
            service_version=SERVICE_VERSION,
            report_number=number,
            availability_zone=self._config.availability_zone,
            report=report,
            guests={guest.instance_uuid: int(guest.power_state) for guest in self.guests},
            doings=dict(doings),
            kept=kept,
        )
