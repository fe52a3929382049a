"""The compute agent: serves any number of hosts with a fixed number of threads, and has no database."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from conductor.compute.console_relay import ConsoleRelay, RelayAddress, RelayAnnouncement
from conductor.compute.host_agent import HostAgent
from conductor.compute.hosts import HostConfig
from conductor.compute.keyed_executor import KeyedExecutor
from conductor.compute.manager import AgentResources, Send, no_image_store
from conductor.compute.report_clock import ReportClock
from conductor.compute.report_round import HostMessage, ReportRound, SendReports
from conductor.core.compute_driver import ComputeDriver, OpenImage, StoreImage
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import NotFound
from conductor.core.guest_questions import GuestQuestion
from conductor.rpc.broker import send_to_conductor

log = logging.getLogger(__name__)

COMMAND_THREADS = 32
URGENT_THREADS = 2
REPORT_THREADS = 4
USAGE_THREADS = 2
CONSOLE_SECONDS = 1.0
STOP_SECONDS = 5.0


class ComputeAgent:
    """Serves hosts, each with its own driver and journal. A host that does not start or hangs delays no other."""

    def __init__(
        self,
        hosts: Iterable[HostConfig],
        drivers: Mapping[str, type[ComputeDriver]],
        open_image: OpenImage,
        heartbeat_seconds: float,
        *,
        send: Send = send_to_conductor,
        store_image: StoreImage = no_image_store,
    ) -> None:
        self._commands = KeyedExecutor("compute-command", COMMAND_THREADS)
        self._urgent = KeyedExecutor("compute-urgent", URGENT_THREADS)
        self._usage = KeyedExecutor("compute-usage", USAGE_THREADS)  # separate: it takes long with many guests
        self._stopped = threading.Event()
        self._relay: ConsoleRelay | None = None
        self._send = send
        self._reports: ReportRound | None = None
        resources = AgentResources(
            self._commands,
            self._urgent,
            send,
            report=self._report,
            bring_forward=self._bring_forward,
            store_image=store_image,
            console_announcement=self._console_announcement,
        )
        self._hosts = {
            config.host: HostAgent(config, partial(_make_driver, config, drivers, open_image), resources)
            for config in hosts
        }
        self._clock = ReportClock(
            self._hosts.values(),
            heartbeat_seconds,
            threads=REPORT_THREADS,
            after_run=self._report_usage,
            after_round=self._end_round,
        )
        self._consoles = threading.Thread(target=self._follow_consoles, name="compute-consoles", daemon=True)

    def has_host(self, host: str) -> bool:
        return host in self._hosts

    def has_started(self) -> bool:
        """Return whether the driver of every host has started."""
        return all(host.has_started for host in self._hosts.values())

    def receive(self, body: Mapping[str, Any]) -> None:
        """Queue an encoded command for one of the hosts. Raises NotFound."""
        self._host(body["body"]["host"]).receive(body)

    def open_console(self, host: str, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        """Open a console of a guest. Raises NotFound, and what the driver raises."""
        return self._host(host).open_console(instance_uuid, kind)

    def ask_guest(self, host: str, instance_uuid: str, question: GuestQuestion) -> Mapping[str, Any]:
        """Answer a query about a guest. Raises NotFound, and what the driver raises."""
        return self._host(host).ask_guest(instance_uuid, question)

    def _host(self, name: str) -> HostAgent:
        if name not in self._hosts:
            raise NotFound(f"Host {name} is not served here.")
        return self._hosts[name]

    def relay_consoles(self, address: RelayAddress | None) -> None:
        """Relay the consoles of all guests at `address` from `start` on. With None none are relayed."""
        self._relay = ConsoleRelay(address, self.open_console, self.ask_guest) if address is not None else None

    def report_together(self, send_reports: SendReports) -> None:
        """Send the reports of hosts that are due at the same time by one call, from `start` on."""
        self._reports = ReportRound(send_reports)

    def start(self) -> None:
        """Start drivers and reports in the background."""
        if self._relay is not None:
            self._relay.start()
        self._clock.start()
        self._consoles.start()

    def stop(self) -> None:
        """Start nothing more, wait shortly for running work, then close drivers and journals."""
        self._stopped.set()
        if self._relay is not None:
            self._relay.stop()
        if self._consoles.is_alive():
            self._consoles.join(STOP_SECONDS)
        are_idle = [part.stop(STOP_SECONDS) for part in (self._clock, self._commands, self._urgent, self._usage)]
        if not all(are_idle) or self._consoles.is_alive():
            log.warning("a driver is still at work; its commands are done again after the next start")
            return
        for host in self._hosts.values():
            host.stop()

    def _console_announcement(self) -> RelayAnnouncement | None:
        return self._relay.announcement if self._relay is not None else None

    def _report(self, cell: str, message: HostMessage) -> None:
        if self._reports is None:
            self._send(cell, message)
        else:
            self._reports.add(cell, message)

    def _end_round(self) -> None:
        if self._reports is not None:
            self._reports.send()

    def _bring_forward(self, host: HostAgent, due_at: float) -> None:
        self._clock.bring_forward(host, due_at)

    def _report_usage(self, host: HostAgent) -> None:
        name = host.config.host
        if host.is_usage_due and not self._usage.is_busy(name, "usage"):
            self._usage.submit(name, "usage", host.report_usage)

    def _follow_consoles(self) -> None:
        while not self._stopped.wait(CONSOLE_SECONDS):
            for host in self._hosts.values():
                if self._stopped.is_set():
                    return
                try:
                    host.follow_consoles()
                except Exception:
                    log.exception("consoles not followed: host=%s", host.config.host)


def _make_driver(
    config: HostConfig, drivers: Mapping[str, type[ComputeDriver]], open_image: OpenImage
) -> ComputeDriver:
    if config.driver not in drivers:
        known = ", ".join(sorted(drivers)) or "none"
        raise NotFound(f"There is no driver {config.driver}. Known drivers: {known}.")
    return drivers[config.driver](config.host, config.options, open_image)
