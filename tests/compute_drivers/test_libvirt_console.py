"""The log of a console: what a guest writes takes no more than its share of the disk, and its end is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from compute_drivers import console_log
from compute_drivers.libvirt.driver import LibvirtDriver
from conductor.compute.console_follower import ConsoleFollower
from conductor.compute.hosts import HostConfig
from conductor.conformance.driver import RecordedProgress
from conductor.core.console_text import TAIL_BYTES
from tests.compute_drivers.real_guests import SECONDS, SHELF, state_dir
from tests.guests import chatty_disk, guest_of, image_of
from tests.waiting import wait_until


def test_a_guest_that_never_stops_talking_does_not_fill_the_disk_and_its_last_words_are_read(
    driver: LibvirtDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real one, with bounds of the log that it reaches within a second; an agent follows it as it does everywhere."""
    monkeypatch.setattr(console_log, "PUNCH_AFTER_BYTES", 256 << 10)
    monkeypatch.setattr(console_log, "KEPT_BYTES", 96 << 10)
    disk = chatty_disk()
    image = image_of(str(uuid4()), disk)
    SHELF.images[image.image_id] = disk
    guest = guest_of(str(uuid4()), image)
    messages: list[dict[str, Any]] = []
    config = HostConfig(host=driver.host, cell="cell1", driver="libvirt", journal_path=Path("unused"))
    follower = ConsoleFollower(config, driver, lambda _, message: messages.extend(message.pieces))
    path = state_dir(driver) / "consoles" / f"{guest.instance_uuid}.log"
    driver.spawn(guest, RecordedProgress())

    def follow_until_it_is_long() -> bool:
        if path.stat().st_size >= 512 << 10:
            return True
        follower.follow([guest.instance_uuid])
        driver.pause(guest.instance_uuid)  # output between two checks does not matter here
        driver.console_log(guest.instance_uuid, 0)
        assert path.stat().st_blocks * 512 <= 256 << 10
        driver.unpause(guest.instance_uuid)
        return False

    wait_until("512 KiB of output", follow_until_it_is_long, SECONDS, pause=0.1)
    driver.pause(guest.instance_uuid)
    # One that begins now, as after a restart of the agent, reads what is left and none of the hole.
    late = ConsoleFollower(config, driver, lambda _, message: messages.extend(message.pieces))
    for one in (follower, late):
        one.follow([guest.instance_uuid])
        assert messages[-1]["offset"] + len(messages[-1]["text"]) == path.stat().st_size
        assert messages[-1]["text"].strip("tick\r\n") == ""
    assert len(messages[-1]["text"]) == TAIL_BYTES
