"""One host of an agent: starts its driver, retrying until it succeeds, and everything that works with it."""

from __future__ import annotations

import logging
import random
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from conductor.compute.console_follower import ConsoleFollower
from conductor.compute.driver_statistics import DriverStatistics
from conductor.compute.driver_validation import thread_exits_as_errors, validate_result
from conductor.compute.failures import THREAD_EXITS
from conductor.compute.heartbeat import GuestUsageReporter, Heartbeat
from conductor.compute.host_journal import HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.manager import AgentResources, ComputeManager
from conductor.compute.report_clock import MIN_REPORT_INTERVAL_SECONDS
from conductor.core.compute_driver import ComputeDriver
from conductor.core.consoles import CAPABILITY_OF, ConsoleKind
from conductor.core.errors import NotSupported, NovellaError, Unavailable
from conductor.core.guest_questions import CAPABILITY_OF as QUESTION_CAPABILITIES
from conductor.core.guest_questions import GuestQuestion
from conductor.rpc import keys
from conductor.rpc.codec import decode
from conductor.rpc.messages import ConsolesOffered, KeysAnnounced

log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 60.0
PRUNE_INTERVAL_SECONDS = 3600.0
KEYS_MESSAGE = "keys_announced"
ANNOUNCEMENT_SECONDS = 60.0  # repeated, as a message may be lost


def _forget_password(driver: ComputeDriver, instance_uuid: str) -> Mapping[str, Any]:
    driver.forget_password(instance_uuid)
    return {}


ANSWERS: Mapping[GuestQuestion, Callable[[ComputeDriver, str], Mapping[str, Any]]] = {
    GuestQuestion.DIAGNOSTICS: lambda driver, uuid: driver.diagnostics(uuid),
    GuestQuestion.PASSWORD: lambda driver, uuid: {"password": driver.posted_password(uuid)},
    GuestQuestion.FORGET_PASSWORD: _forget_password,
}


@dataclass(frozen=True)
class _HostParts:
    driver: ComputeDriver
    manager: ComputeManager
    heartbeat: Heartbeat
    follower: ConsoleFollower
    statistics: DriverStatistics
    usage: GuestUsageReporter


class HostAgent:
    """One host. `run` starts it or sends a report; it is due at `due_at` on the monotonic clock."""

    def __init__(self, config: HostConfig, make_driver: Callable[[], ComputeDriver], resources: AgentResources) -> None:
        self.config = config
        self.due_at = 0.0
        self.last_run_at = 0.0
        self._make_driver = make_driver
        self._resources = resources
        self._journal: HostJournal | None = None
        self._parts: _HostParts | None = None
        self._pruned_at = time.monotonic()
        self._console_announcement_at = 0.0
        self._failures = 0
        self._last_error = ""

    @property
    def has_started(self) -> bool:
        return self._parts is not None

    def receive(self, body: Mapping[str, Any]) -> None:
        """Accept a command; one that arrives before the driver has started is dropped and will be repeated."""
        if self._parts is None:
            log.info("command before the driver has started: host=%s", self.config.host)
            return
        if body.get("message") == KEYS_MESSAGE:
            self._resources.urgent.submit(self.config.host, KEYS_MESSAGE, partial(self._renew_keys, body))
            return
        self._parts.manager.receive(body)

    def _renew_keys(self, body: Mapping[str, Any]) -> None:
        """Store announced keys. There is no answer: the next report lists the host's keys."""
        identity = keys.identity_of(self.config.host)
        if identity is None:
            return
        try:
            announced: KeysAnnounced = decode(body)
            is_new = identity.renew(announced.conductor_keys, announced.accepted, announced.replace)
            identity.is_answer_requested = False
        except (OSError, ValueError, NovellaError) as error:
            log.error("keys not renewed: host=%s %s: %s", self.config.host, type(error).__name__, error)
            return
        if is_new:
            log.info("keys renewed: host=%s key=%s", self.config.host, identity.signer.key_id)
            self._report_soon()

    def run(self) -> None:
        """Start the driver if it has not started, then report. Never raises."""
        try:
            parts = self._parts or self._start()
            self.last_run_at = time.monotonic()
            parts.heartbeat.beat()
            self._announce_consoles(parts.driver)
            self._prune_if_due()
        except (Exception, *THREAD_EXITS) as error:
            self._fail(error)
        else:
            self._recover()

    def open_console(self, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        """Open a console of a guest. Raises Unavailable before the driver has started, NotSupported, DriverError."""
        if self._parts is None:
            raise Unavailable(f"Host {self.config.host} is only starting.")
        driver = self._parts.driver
        if CAPABILITY_OF[kind] not in driver.capabilities:
            raise NotSupported(f"The driver of host {self.config.host} has no such console.")
        with thread_exits_as_errors():
            return driver.open_console(instance_uuid, kind)

    def ask_guest(self, instance_uuid: str, question: GuestQuestion) -> Mapping[str, Any]:
        """Answer a question about a guest. Raises Unavailable, NotSupported, DriverError."""
        if self._parts is None:
            raise Unavailable(f"Host {self.config.host} is only starting.")
        driver = self._parts.driver
        if QUESTION_CAPABILITIES[question] not in driver.capabilities:
            raise NotSupported(f"The driver of host {self.config.host} cannot report that of its guests.")
        with thread_exits_as_errors():
            return validate_result(ANSWERS[question](driver, instance_uuid))

    def follow_consoles(self) -> None:
        """Send new console output of the guests."""
        if self._parts is not None and (self._parts.heartbeat.guests or self._parts.follower.is_following):
            self._parts.follower.follow(guest.instance_uuid for guest in self._parts.heartbeat.guests)

    @property
    def is_usage_due(self) -> bool:
        return self._parts is not None and self._parts.usage.due_at <= time.monotonic()

    def report_usage(self) -> None:
        """Report what the guests have used."""
        if self._parts is not None:
            self._parts.usage.report(self._parts.heartbeat.guests)

    def stop(self) -> None:
        """Stop the driver and close the journal; guests keep running."""
        parts, self._parts = self._parts, None
        try:
            if parts is not None:
                parts.driver.stop()
        except (Exception, *THREAD_EXITS):
            log.exception("driver did not stop: host=%s", self.config.host)
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _start(self) -> _HostParts:
        if self._journal is None:
            self._journal = HostJournal(self.config.journal_path)
        driver = self._make_driver()
        driver.start()
        statistics = DriverStatistics(driver.name)
        follower = ConsoleFollower(self.config, driver, self._resources.send)
        manager = ComputeManager(
            self.config,
            driver,
            journal=self._journal,
            resources=self._resources,
            on_finished=self._after_command,
            statistics=statistics,
        )
        heartbeat = Heartbeat(
            self.config,
            driver,
            journal=self._journal,
            send=self._resources.send_report,
            statistics=statistics,
        )
        usage = GuestUsageReporter(self.config, driver, self._resources.send)
        self._parts = _HostParts(driver, manager, heartbeat, follower, statistics, usage)
        driver.watch(self._report_soon)
        return self._parts

    def _after_command(self, instance_uuid: str) -> None:
        if self._parts is not None:
            self._parts.follower.forget(instance_uuid)
        self._report_soon()

    def _report_soon(self) -> None:
        self._resources.bring_forward(self, self.last_run_at + MIN_REPORT_INTERVAL_SECONDS)

    def _recover(self) -> None:
        if self._failures:
            log.info("host works again: host=%s", self.config.host)
        self._failures, self._last_error = 0, ""

    def _fail(self, error: BaseException) -> None:
        """Log a new error, and schedule the next start with backoff. A repeated error is logged once."""
        message = error.message if isinstance(error, NovellaError) else f"{type(error).__name__}: {error}"
        if message != self._last_error:
            what = "host does not start" if self._parts is None else "host cannot report"
            is_ours = isinstance(error, NovellaError)
            log.error("%s: host=%s: %s", what, self.config.host, message, exc_info=None if is_ours else error)
            if self._parts is not None:
                self._parts.statistics.record_error("report", error)
        backoff = min(FIRST_BACKOFF_SECONDS * 2.0 ** min(self._failures, 16), MAX_BACKOFF_SECONDS)
        self._failures, self._last_error = self._failures + 1, message
        if self._parts is None:  # a started driver is asked again with each heartbeat
            self.due_at = time.monotonic() + backoff * random.uniform(0.8, 1.0)

    def _announce_consoles(self, driver: ComputeDriver) -> None:
        """Send where the consoles of guests can be reached. A failure must not stop heartbeats."""
        announcement = self._resources.console_announcement()
        if announcement is None or time.monotonic() < self._console_announcement_at:
            return
        if driver.capabilities.isdisjoint({*CAPABILITY_OF.values(), *QUESTION_CAPABILITIES.values()}):
            return
        self._console_announcement_at = time.monotonic() + ANNOUNCEMENT_SECONDS * random.uniform(0.9, 1.0)
        self._resources.send_report(self.config.cell, ConsolesOffered(host=self.config.host, **asdict(announcement)))

    def _prune_if_due(self) -> None:
        if self._journal is not None and time.monotonic() - self._pruned_at > PRUNE_INTERVAL_SECONDS:
            self._pruned_at = time.monotonic()
            self._journal.prune()
