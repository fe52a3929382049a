"""The compute agent: serves any number of hosts with a handful of threads, and holds no database."""

from __future__ import annotations

import logging
import math
import random
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from conductor.compute.console_door import ConsoleDoor, DoorOffer, DoorPlace
from conductor.compute.host_agent import HostAgent
from conductor.compute.hosts import HostConfig
from conductor.compute.lanes import Lanes
from conductor.compute.manager import Send, Shared, store_nowhere
from conductor.core.compute_driver import ComputeDriver, OpenImage, StoreImage
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import NotFound
from conductor.core.guest_questions import GuestQuestion
from conductor.rpc.broker import tell_conductor

log = logging.getLogger(__name__)

COMMAND_THREADS = 32
URGENT_THREADS = 2
REPORT_THREADS = 4
COUNT_THREADS = 2
CONSOLE_SECONDS = 1.0
STOP_SECONDS = 5.0
LONGEST_SLEEP_SECONDS = 1.0


class ComputeAgent:
    """Hosts, each with its own driver and journal. One that does not start or hangs keeps no other waiting."""

    def __init__(
        self,
        hosts: Iterable[HostConfig],
        drivers: Mapping[str, type[ComputeDriver]],
        open_image: OpenImage,
        heartbeat_seconds: float,
        *,
        send: Send = tell_conductor,
        store_image: StoreImage = store_nowhere,
    ) -> None:
        self._heartbeat_seconds = heartbeat_seconds
        self._commands = Lanes("compute-command", COMMAND_THREADS)
        self._urgent = Lanes("compute-urgent", URGENT_THREADS)
        self._reports = Lanes("compute-report", REPORT_THREADS)
        self._counts = Lanes("compute-count", COUNT_THREADS)  # of many guests it takes long: no report waits for it
        self._stopped = threading.Event()
        self._woken = threading.Event()
        self._door: ConsoleDoor | None = None
        shared = Shared(self._commands, self._urgent, send, self._woken.set, store_image, self._console_offer)
        self._hosts = {
            config.host: HostAgent(config, partial(_make_driver, config, drivers, open_image), shared)
            for config in hosts
        }
        self._threads = [
            threading.Thread(target=self._keep_time, name="compute-clock", daemon=True),
            threading.Thread(target=self._follow_consoles, name="compute-consoles", daemon=True),
        ]

    def has_host(self, host: str) -> bool:
        return host in self._hosts

    def has_started(self) -> bool:
        """Whether the driver of every host has started."""
        return all(host.has_started for host in self._hosts.values())

    def receive(self, body: Mapping[str, Any]) -> None:
        """Take an encoded command for one of the hosts; returns before it is done. Raises NotFound."""
        self._host(body["body"]["host"]).receive(body)

    def open_console(self, host: str, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        """A console of a guest of one of the hosts. Raises NotFound, and what its driver raises."""
        return self._host(host).open_console(instance_uuid, kind)

    def ask_guest(self, host: str, instance_uuid: str, question: GuestQuestion) -> Mapping[str, Any]:
        """The answer to a question about a guest of one of the hosts. Raises NotFound, and what its driver raises."""
        return self._host(host).ask_guest(instance_uuid, question)

    def _host(self, name: str) -> HostAgent:
        if name not in self._hosts:
            raise NotFound(f"Host {name} is not served here.")
        return self._hosts[name]

    def open_door(self, place: DoorPlace | None) -> None:
        """Have the consoles of all guests be reached at `place`, from the start on; None: they cannot be reached."""
        self._door = ConsoleDoor(place, self.open_console, self.ask_guest) if place is not None else None

    def start(self) -> None:
        """Begin to start the drivers and to report; returns at once."""
        if self._door is not None:
            self._door.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin nothing more, give what is under way a moment, let go of hypervisors and journals."""
        self._stopped.set()
        self._woken.set()
        if self._door is not None:
            self._door.stop()
        for thread in filter(threading.Thread.is_alive, self._threads):
            thread.join(STOP_SECONDS)
        are_quiet = [lanes.stop(STOP_SECONDS) for lanes in self._all_lanes]
        if not all(are_quiet) or any(thread.is_alive() for thread in self._threads):
            log.warning("a driver is still at work; its commands are done again after the next start")
            return
        for host in self._hosts.values():
            host.stop()

    @property
    def _all_lanes(self) -> tuple[Lanes, ...]:
        return self._commands, self._urgent, self._reports, self._counts

    def _console_offer(self) -> DoorOffer | None:
        return self._door.offer if self._door is not None else None

    def _keep_time(self) -> None:
        while not self._stopped.is_set():
            self._woken.clear()
            idle = [(name, host) for name, host in self._hosts.items() if not self._reports.is_busy(name, "turn")]
            for name, host in idle:
                if host.due_at <= time.monotonic():
                    # Not all in step, or a thousand hosts would report in the same moment.
                    host.due_at = time.monotonic() + self._heartbeat_seconds * random.uniform(0.9, 1.0)
                    self._reports.submit(name, "turn", host.turn)
                    if host.must_count and not self._counts.is_busy(name, "count"):
                        self._counts.submit(name, "count", host.count_guests)
            next_due_at = min((host.due_at for _, host in idle), default=math.inf)
            self._woken.wait(min(max(next_due_at - time.monotonic(), 0.02), LONGEST_SLEEP_SECONDS))

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
