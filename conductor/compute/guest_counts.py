"""Tells the conductor now and then what each guest of a host has used, all guests in one message."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable

from conductor.compute.driver_words import ENDS_THREADS, usable_result
from conductor.compute.hosts import HostConfig
from conductor.compute.manager import Send
from conductor.core.compute_driver import ComputeDriver, GuestInfo
from conductor.core.guest_figures import counters, packed
from conductor.core.guest_questions import CAPABILITY_OF, GuestQuestion
from conductor.core.states import PowerState
from conductor.rpc.messages import GuestsCounted

log = logging.getLogger(__name__)

EVERY_SECONDS = 300.0
FIRST_SECONDS = 60.0  # hosts that start together do not count together


class GuestCounts:
    """The counts of one host; they are due at `due_at`, on the monotonic clock."""

    def __init__(self, config: HostConfig, driver: ComputeDriver, send: Send) -> None:
        self._config = config
        self._driver = driver
        self._send = send
        self.due_at = time.monotonic() + FIRST_SECONDS * random.random()

    def count(self, guests: Iterable[GuestInfo]) -> None:
        """Ask the driver of each guest that runs. One that cannot be asked is left out: the next time will do."""
        self.due_at = time.monotonic() + EVERY_SECONDS * random.uniform(0.9, 1.0)
        if CAPABILITY_OF[GuestQuestion.DIAGNOSTICS] not in self._driver.capabilities:
            return
        found: dict[str, list[float | None]] = {}
        for guest in guests:
            if guest.power_state != PowerState.RUNNING:
                continue
            try:
                found[guest.instance_uuid] = packed(
                    counters(usable_result(self._driver.diagnostics(guest.instance_uuid)))
                )
            except (Exception, *ENDS_THREADS) as error:
                log.info("guest not counted: host=%s instance=%s: %s", self._config.host, guest.instance_uuid, error)
        if found:
            self._send(self._config.cell, GuestsCounted(host=self._config.host, counted_at=time.time(), guests=found))
