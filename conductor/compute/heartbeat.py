"""Reports a host to the conductor: a heartbeat with its inventory, its guests, and their usage."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from conductor.compute.driver_statistics import DriverStatistics
from conductor.compute.driver_validation import (
    validate_guests,
    validate_kept,
    validate_report,
    validate_result,
)
from conductor.compute.failures import THREAD_EXITS
from conductor.compute.host_journal import HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.manager import Send
from conductor.core.compute_driver import ComputeDriver, GuestInfo
from conductor.core.guest_questions import CAPABILITY_OF, GuestQuestion
from conductor.core.guest_usage import pack_usage, usage_of
from conductor.core.metrics import BOOTED_AT
from conductor.core.states import PowerState
from conductor.rpc import keys
from conductor.rpc.identities import KEYS
from conductor.rpc.messages import GuestsCounted, HostReported
from conductor.rpc.versions import SERVICE_VERSION

log = logging.getLogger(__name__)

USAGE_INTERVAL_SECONDS = 300.0
MAX_FIRST_DELAY_SECONDS = 60.0  # random, so that hosts that start together do not report usage together


@cache
def boot_time() -> dict[str, int]:
    """Return when this machine booted, as part of a report; empty where the kernel does not report it."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return {}
    found = next((line for line in lines if line.startswith("btime ")), None)
    return {BOOTED_AT: int(found.split()[1])} if found else {}


class Heartbeat:
    """Sends the reports of one host. `guests` are those of the last report."""

    def __init__(
        self,
        config: HostConfig,
        driver: ComputeDriver,
        *,
        journal: HostJournal,
        send: Send,
        statistics: DriverStatistics | None = None,
    ) -> None:
        self._config = config
        self._driver = driver
        self._journal = journal
        self._send = send
        self._statistics = statistics or DriverStatistics(driver.name)
        self._last_report: dict[str, Any] = {}
        self.guests: tuple[GuestInfo, ...] = ()

    def beat(self) -> None:
        """Send one report. Raises what the driver raises, and then sends nothing, so that the host counts as down."""
        # The number is taken first: of two reports, the one with the higher number has the newer data.
        number = self._journal.next_report_number()
        report = self._driver_report()
        self.guests = validate_guests(self._driver.guests())
        kept = validate_kept(self._driver.kept_guests())
        statistics = self._statistics.take()
        try:
            self._send(self._config.cell, self._report(number, report, statistics, kept))
        except BaseException:
            self._statistics.restore(statistics)
            raise

    def _driver_report(self) -> dict[str, Any]:
        """Return the driver's report with what the agent adds."""
        self._last_report = validate_report(self._driver.report(), self._last_report)
        added = {"actions": sorted(self._driver.capabilities), **boot_time(), **self._keys()}
        traits = {
            "network_is_host_specific": self._driver.network_is_host_specific,
            "checks_builds": type(self._driver).check_build is not ComputeDriver.check_build,
        }
        added |= {name: True for name, is_so in traits.items() if is_so}
        return {**self._last_report, "capabilities": {**self._last_report["capabilities"], **added}}

    def _keys(self) -> dict[str, Any]:
        """Return the host's keys and the conductors that it accepts; the conductors announce newer ones."""
        identity = keys.identity_of(self._config.host)
        return {} if identity is None else {KEYS: identity.reported}

    def _report(
        self, number: int, report: dict[str, Any], statistics: Mapping[str, Any], kept: list[str]
    ) -> HostReported:
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
            driver_statistics=dict(statistics),
            kept=kept,
        )


class GuestUsageReporter:
    """Reports what each guest of one host has used, all guests in one message. `due_at` is on the monotonic clock."""

    def __init__(self, config: HostConfig, driver: ComputeDriver, send: Send) -> None:
        self._config = config
        self._driver = driver
        self._send = send
        self.due_at = time.monotonic() + MAX_FIRST_DELAY_SECONDS * random.random()

    def report(self, guests: Iterable[GuestInfo]) -> None:
        """Send the usage of each running guest; one whose statistics cannot be read is left out until next time."""
        self.due_at = time.monotonic() + USAGE_INTERVAL_SECONDS * random.uniform(0.9, 1.0)
        if CAPABILITY_OF[GuestQuestion.DIAGNOSTICS] not in self._driver.capabilities:
            return
        usage: dict[str, list[float | None]] = {}
        for guest in guests:
            if guest.power_state != PowerState.RUNNING:
                continue
            try:
                usage[guest.instance_uuid] = pack_usage(
                    usage_of(validate_result(self._driver.diagnostics(guest.instance_uuid)))
                )
            except (Exception, *THREAD_EXITS) as error:
                log.info("guest usage not read: host=%s instance=%s: %s", self._config.host, guest.instance_uuid, error)
        if usage:
            self._send(self._config.cell, GuestsCounted(host=self._config.host, counted_at=time.time(), guests=usage))
