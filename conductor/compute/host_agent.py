"""One host of an agent: its driver, started until it succeeds, and all that works with it."""

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
from conductor.compute.driver_account import DriverAccount
from conductor.compute.driver_words import ENDS_THREADS, staying, usable_result
from conductor.compute.guest_counts import GuestCounts
from conductor.compute.heartbeat import Heartbeat
from conductor.compute.host_journal import HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.manager import ComputeManager, Shared
from conductor.core.compute_driver import ComputeDriver
from conductor.core.consoles import CAPABILITY_OF, ConsoleKind
from conductor.core.errors import NotSupported, NovellaError, Unavailable
from conductor.core.guest_questions import CAPABILITY_OF as QUESTION_NEEDS
from conductor.core.guest_questions import GuestQuestion
from conductor.core.port_filters import PortFilter
from conductor.rpc import keys
from conductor.rpc.codec import decode
from conductor.rpc.messages import ConsolesOffered, FilterPorts, KeysAnnounced

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
# After a command the host reports at once, but many commands make no more reports than this.
SHORTEST_BEAT_SECONDS = 1.0
PRUNE_SECONDS = 3600.0
PORT_FILTERS_MESSAGE = "filter_ports"
KEYS_MESSAGE = "keys_announced"
OFFER_CONSOLES_SECONDS = 60.0  # again and again: a message may be lost


def _forget_password(driver: ComputeDriver, instance_uuid: str) -> Mapping[str, Any]:
    driver.forget_password(instance_uuid)
    return {}


ANSWERS: Mapping[GuestQuestion, Callable[[ComputeDriver, str], Mapping[str, Any]]] = {
    GuestQuestion.DIAGNOSTICS: lambda driver, uuid: driver.diagnostics(uuid),
    GuestQuestion.PASSWORD: lambda driver, uuid: {"password": driver.posted_password(uuid)},
    GuestQuestion.FORGET_PASSWORD: _forget_password,
}


@dataclass(frozen=True)
class _Parts:
    driver: ComputeDriver
    manager: ComputeManager
    heartbeat: Heartbeat
    follower: ConsoleFollower
    account: DriverAccount
    counts: GuestCounts


class HostAgent:
    """A host: `turn` starts it or beats, whenever `due_at` (on the monotonic clock) has come."""

    def __init__(self, config: HostConfig, make_driver: Callable[[], ComputeDriver], shared: Shared) -> None:
        self.config = config
        self.due_at = 0.0
        self._make_driver = make_driver
        self._shared = shared
        self._journal: HostJournal | None = None
        self._parts: _Parts | None = None
        self._last_beat_at = 0.0
        self._pruned_at = time.monotonic()
        self._offer_consoles_at = 0.0
        self._failures = 0
        self._complaint = ""

    @property
    def has_started(self) -> bool:
        return self._parts is not None

    def receive(self, body: Mapping[str, Any]) -> None:
        """Take a command; one that comes before the driver has started is left to come again."""
        if self._parts is None:
            log.info("command before the driver has started: host=%s", self.config.host)
            return
        own = {PORT_FILTERS_MESSAGE: self._filter_ports, KEYS_MESSAGE: self._renew_keys}.get(str(body.get("message")))
        if own is not None:
            self._shared.urgent.submit(self.config.host, str(body["message"]), partial(own, body))
            return
        self._parts.manager.receive(body)

    def _renew_keys(self, body: Mapping[str, Any]) -> None:
        """No answer is waited for: the next report says which keys the host has, and brings what it lacks."""
        identity = keys.identity_of(self.config.host)
        if identity is None:
            return
        try:
            announced: KeysAnnounced = decode(body)
            is_new = identity.renew(announced.conductor_keys, announced.accepted, announced.replace)
        except (OSError, ValueError, NovellaError) as error:
            log.error("keys not renewed: host=%s %s: %s", self.config.host, type(error).__name__, error)
            return
        if is_new:
            log.info("keys renewed: host=%s key=%s", self.config.host, identity.signer.key_id)
            self._report_soon()

    def _filter_ports(self, body: Mapping[str, Any]) -> None:
        """Nobody waits for an answer: the next report says what the host has, and it is told again what it has not."""
        if self._parts is None or not self._parts.driver.filters_ports:
            return
        try:
            told: FilterPorts = decode(body)
            self._parts.driver.filter_ports({port: PortFilter.from_json(found) for port, found in told.filters.items()})
        except (Exception, *ENDS_THREADS) as error:
            is_ours = isinstance(error, NovellaError)
            log.error("rules of ports not applied: host=%s: %s", self.config.host, error, exc_info=not is_ours)
            return
        self._report_soon()

    def turn(self) -> None:
        """Start the driver where that is still to be done, then report; never raises."""
        try:
            parts = self._parts or self._start()
            self._last_beat_at = time.monotonic()
            parts.heartbeat.beat()
            self._offer_consoles(parts.driver)
            self._prune_sometimes()
        except (Exception, *ENDS_THREADS) as error:
            self._fail(error)
        else:
            self._recover()
        finally:
            self._shared.wake()

    def open_console(self, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        """A console of a guest. Raises Unavailable before the driver has started, NotSupported, DriverError."""
        if self._parts is None:
            raise Unavailable(f"Host {self.config.host} is only starting.")
        driver = self._parts.driver
        if CAPABILITY_OF[kind] not in driver.capabilities:
            raise NotSupported(f"The driver of host {self.config.host} has no such console.")
        with staying():
            return driver.open_console(instance_uuid, kind)

    def ask_guest(self, instance_uuid: str, question: GuestQuestion) -> Mapping[str, Any]:
        """The answer to a question about a guest. Raises Unavailable, NotSupported, DriverError."""
        if self._parts is None:
            raise Unavailable(f"Host {self.config.host} is only starting.")
        driver = self._parts.driver
        if QUESTION_NEEDS[question] not in driver.capabilities:
            raise NotSupported(f"The driver of host {self.config.host} cannot tell that of its guests.")
        with staying():
            return usable_result(ANSWERS[question](driver, instance_uuid))

    def follow_consoles(self) -> None:
        """Send what guests wrote since the last time."""
        if self._parts is not None:
            self._parts.follower.follow(guest.instance_uuid for guest in self._parts.heartbeat.guests)

    @property
    def must_count(self) -> bool:
        return self._parts is not None and self._parts.counts.due_at <= time.monotonic()

    def count_guests(self) -> None:
        """Tell what the guests have used."""
        if self._parts is not None:
            self._parts.counts.count(self._parts.heartbeat.guests)

    def stop(self) -> None:
        """Let go of the hypervisor and of the journal; guests go on running."""
        parts, self._parts = self._parts, None
        try:
            if parts is not None:
                parts.driver.stop()
        except (Exception, *ENDS_THREADS):
            log.exception("driver did not stop: host=%s", self.config.host)
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _start(self) -> _Parts:
        if self._journal is None:
            self._journal = HostJournal(self.config.journal_path)
        driver = self._make_driver()
        driver.start()
        account = DriverAccount(driver.name)
        follower = ConsoleFollower(self.config, driver, self._shared.send)
        manager = ComputeManager(
            self.config,
            driver,
            journal=self._journal,
            shared=self._shared,
            on_finished=self._after_command,
            account=account,
        )
        heartbeat = Heartbeat(self.config, driver, journal=self._journal, send=self._shared.send, account=account)
        counts = GuestCounts(self.config, driver, self._shared.send)
        self._parts = _Parts(driver, manager, heartbeat, follower, account, counts)
        driver.watch(self._report_soon)
        return self._parts

    def _after_command(self, instance_uuid: str) -> None:
        if self._parts is not None:
            self._parts.follower.forget(instance_uuid)
        self._report_soon()

    def _report_soon(self) -> None:
        soon = self._last_beat_at + SHORTEST_BEAT_SECONDS
        if soon < self.due_at:  # else the clock knows
            self.due_at = soon
            self._shared.wake()

    def _recover(self) -> None:
        if self._failures:
            log.info("host works again: host=%s", self.config.host)
        self._failures, self._complaint = 0, ""

    def _fail(self, error: BaseException) -> None:
        """Say it once, however often it is tried."""
        complaint = error.message if isinstance(error, NovellaError) else f"{type(error).__name__}: {error}"
        if complaint != self._complaint:
            what = "host does not start" if self._parts is None else "host cannot report"
            is_ours = isinstance(error, NovellaError)
            log.error("%s: host=%s: %s", what, self.config.host, complaint, exc_info=None if is_ours else error)
            if self._parts is not None:
                self._parts.account.fault("report", error)
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 16), LONGEST_PAUSE_SECONDS)
        self._failures, self._complaint = self._failures + 1, complaint
        if self._parts is None:  # a driver that has started is asked with each beat
            self.due_at = time.monotonic() + pause * random.uniform(0.8, 1.0)

    def _offer_consoles(self, driver: ComputeDriver) -> None:
        """Say where the guests' consoles are, once they can be reached; consoles are not worth a heartbeat."""
        offer = self._shared.console_offer()
        if offer is None or time.monotonic() < self._offer_consoles_at:
            return
        if driver.capabilities.isdisjoint({*CAPABILITY_OF.values(), *QUESTION_NEEDS.values()}):
            return
        self._offer_consoles_at = time.monotonic() + OFFER_CONSOLES_SECONDS * random.uniform(0.9, 1.0)
        self._shared.send(self.config.cell, ConsolesOffered(host=self.config.host, **asdict(offer)))

    def _prune_sometimes(self) -> None:
        if self._journal is not None and time.monotonic() - self._pruned_at > PRUNE_SECONDS:
            self._pruned_at = time.monotonic()
            self._journal.prune()
