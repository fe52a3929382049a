"""Conformance tests of faults: killed processes, late and reordered commands, broken images. See `driver.py`."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from conductor.conformance.base import Base, NewGuest, RecordedProgress, offers, power_state, restarted, uuids
from conductor.core.compute_driver import ComputeDriver, GuestSpec
from conductor.core.errors import DriverError, GuestMissing, StaleToken
from conductor.core.states import PowerState

KILL_SECONDS = 120.0
# Builds one guest, and is killed at the first progress of the second.
PROGRAM = """
import importlib, json, os, signal, sys
inputs = json.load(sys.stdin)
sys.path[:] = inputs["path"]
from conductor.core.compute_driver import GuestSpec
kind = getattr(importlib.import_module(inputs["module"]), inputs["kind"])
driver = kind(inputs["host"], inputs["options"], lambda image_id: open(inputs["images"][image_id], "rb"))
driver.start()
first, second = map(GuestSpec.from_json, inputs["guests"])
driver.spawn(first, lambda *words: None)
driver.spawn(second, lambda *words: os.kill(os.getpid(), signal.SIGKILL))
"""


class Breaking(io.RawIOBase):
    """An image whose data cannot be read to the end."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        raise OSError("the connection was lost")


class FaultConformance(Base):
    """`lives_in_process` is true where the hypervisor runs in this process, not in a process of its own."""

    lives_in_process = False

    def test_a_process_killed_with_9_leaves_what_can_be_built_again_and_removed(
        self, driver: ComputeDriver, new_guest: NewGuest, tmp_path: Path
    ) -> None:
        first, second, before = new_guest(), new_guest(), uuids(driver)
        if not self.lives_in_process:
            driver.stop()
            try:
                _killed(driver, (first, second), tmp_path)
            finally:
                driver.start()
        assert uuids(driver) <= before | {first.instance_uuid, second.instance_uuid}
        for _ in range(2):
            driver.spawn(first, RecordedProgress())
            assert power_state(driver, first) is PowerState.RUNNING
        driver.destroy(second.instance_uuid)
        assert second.instance_uuid not in uuids(driver)
        assert driver.console_log(second.instance_uuid, 0) == b""
        driver.spawn(second, RecordedProgress())
        assert uuids(driver) == before | {first.instance_uuid, second.instance_uuid}

    def test_a_build_that_comes_after_its_removal_can_be_removed_again(
        self, driver: ComputeDriver, new_guest: NewGuest
    ) -> None:
        """Reordered commands: the agent refuses the stale one, but may have begun it."""
        guest, before = new_guest(), uuids(driver)
        driver.destroy(guest.instance_uuid)
        with pytest.raises(StaleToken):
            driver.spawn(guest, RecordedProgress(stop_at=1))
        assert uuids(driver) == before
        driver.spawn(guest, RecordedProgress())
        driver.destroy(guest.instance_uuid)
        assert uuids(driver) == before

    def test_commands_out_of_their_order_end_where_the_last_one_says(
        self, driver: ComputeDriver, running: GuestSpec
    ) -> None:
        uuid = running.instance_uuid
        driver.power_on(running)
        if offers(driver, "pause"):
            driver.unpause(uuid)
        if offers(driver, "suspend"):
            driver.resume(running)
        if offers(driver, "migrate"):
            driver.confirm_migration(uuid)
        if offers(driver, "live_migrate"):
            driver.abort_live_migration(uuid)
            driver.cancel_live_migration(uuid)
        assert power_state(driver, running) is PowerState.RUNNING
        for _ in range(2):
            driver.power_off(uuid, 0.0)
            driver.power_on(running)
        assert power_state(driver, running) is PowerState.RUNNING
        driver.destroy(uuid)
        with pytest.raises(GuestMissing):
            driver.power_on(running)
        assert uuid not in uuids(driver)

    def test_an_image_that_breaks_off_fails_the_build_and_leaves_nothing(
        self, driver: ComputeDriver, new_guest: NewGuest
    ) -> None:
        """A driver that ignores the image builds the guest, and it runs."""
        guest, before = new_guest(), uuids(driver)
        guest = replace(guest, image=replace(guest.image, image_id=f"{guest.image.image_id}-broken"))
        open_image, driver.open_image = driver.open_image, _breaks
        try:
            driver.spawn(guest, RecordedProgress())
        except (OSError, DriverError):
            assert uuids(driver) == before
            assert driver.console_log(guest.instance_uuid, 0) == b""
        else:
            assert power_state(driver, guest) is PowerState.RUNNING
        finally:
            driver.open_image = open_image
        again = restarted(driver)
        try:
            assert uuids(again) >= before
        finally:
            again.stop()
            driver.start()


def _breaks(image_id: str) -> BinaryIO:
    return io.BufferedReader(Breaking())


def _killed(driver: ComputeDriver, guests: Iterable[GuestSpec], folder: Path) -> None:
    """Build the guests in another process with a driver of the same kind, host and options, until it is killed."""
    guests = tuple(guests)
    body = {
        "path": sys.path,
        "module": type(driver).__module__,
        "kind": type(driver).__qualname__,
        "host": driver.host,
        "options": dict(driver.options),
        "images": {spec.image.image_id: str(_stored(driver, spec.image.image_id, folder)) for spec in guests},
        "guests": [guest.to_json() for guest in guests],
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(body, default=str),
        capture_output=True,
        text=True,
        timeout=KILL_SECONDS,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, f"it was to be killed at its first word: {done.stderr[-2000:]}"


def _stored(driver: ComputeDriver, image_id: str, folder: Path) -> Path:
    """Return the image as a file, for a process that can only read files. An unavailable image is empty."""
    path = folder / f"image-{image_id}"
    try:
        with driver.open_image(image_id) as data:
            path.write_bytes(data.read())
    except Exception:  # as for the driver: its build reports the fault
        path.write_bytes(b"")
    return path
