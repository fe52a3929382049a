"""`kill -9` at every place of every move: the move continues by itself, and the guest is only on its row's host."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from conductor.workflows.catalog import failpoints
from conductor.workflows.flow import Flow
from conductor.workflows.flows.live_migration import LIVE_MIGRATE_INSTANCE
from conductor.workflows.flows.resize import CONFIRM_RESIZE, RESIZE_INSTANCE, REVERT_RESIZE
from tests.acceptance.cloud import GUESTS_PORTS, Cloud
from tests.fixtures.killed_workers import DIED_BEFORE_IT_ANSWERED, SIGKILLED
from tests.waiting import wait_until

CELLS = ("cell1", "cell2")
# After an effect and before its record, and with a command on its way; the campaign kills at every other place, too.
WORST = (".effect", ".sent")
NOT_REACHED = ".CloseDestination."  # only with an unresponsive source
LIVE = {"os-migrateLive": {"host": None, "block_migration": "auto"}}


def places(flow: Flow) -> list[str]:
    return [place for place in failpoints(flow) if place.endswith(WORST) and NOT_REACHED not in place]


def settled(cloud: Cloud, uuid: str, status: str) -> dict[str, Any]:
    """Return the server once it has the status and nothing is under way."""

    def look() -> dict[str, Any] | None:
        server = cloud.server(uuid)
        is_there = server["status"] == status and server["OS-EXT-STS:task_state"] is None
        return server if is_there and not live_runs(cloud) else None

    found: dict[str, Any] = wait_until(f"{uuid} {status}", look, details=cloud.log_tail)
    return found


def live_runs(cloud: Cloud) -> list[Any]:
    states = "('queued', 'running', 'waiting', 'undoing')"
    requested = f"select flow, state from journal_workflowrun where state in {states}"
    return [row for cell in CELLS for row in cloud.rows(cell, requested)]


def assert_once(cloud: Cloud, uuid: str, *, consumers: int = 1) -> None:
    """Check that there is one guest and no lock, and in placement one consumer per end."""
    assert cloud.guests() == [uuid]
    assert [row for cell in CELLS for row in cloud.rows(cell, "select * from journal_resourcelock")] == []
    assert len(cloud.rows("api", "select distinct consumer_id from placement_allocation")) == consumers
    assert len(cloud.rows("api", f"select id from {GUESTS_PORTS}")) == 1


def killed(cloud: Cloud, place: str, uuid: str, action: dict[str, Any]) -> None:
    """Ask for the action in a cloud that dies at `place`, and start it again."""
    cloud.arm(place)
    with suppress(*DIED_BEFORE_IT_ANSWERED):
        answer = cloud.call("POST", f"/compute/v2.1/servers/{uuid}/action", action, user="admin", version="2.56")
        assert answer.status in (202, 204), answer.raw
    assert cloud.wait_for_death() == SIGKILLED
    cloud.start()


def launched(cloud: Cloud) -> str:
    uuid: str = cloud.launch("web-1").json["server"]["id"]
    cloud.wait_for_status(uuid, "ACTIVE")
    return uuid


def assert_all_goes(cloud: Cloud, uuid: str) -> None:
    """Check that a moved server can be deleted like any other, in any state of its move."""
    assert cloud.call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    cloud.wait_until_gone(uuid)
    cloud.wait_until_clean()


@pytest.mark.parametrize("place", places(LIVE_MIGRATE_INSTANCE))
def test_live_migration_killed_at(place: str, mortal: Cloud) -> None:
    uuid = launched(mortal)
    home = mortal.server(uuid)["OS-EXT-SRV-ATTR:host"]
    killed(mortal, place, uuid, LIVE)
    assert settled(mortal, uuid, "ACTIVE")["OS-EXT-SRV-ATTR:host"] != home
    assert_once(mortal, uuid)
    assert_all_goes(mortal, uuid)


@pytest.mark.parametrize("place", places(RESIZE_INSTANCE))
def test_cold_migration_killed_at(place: str, mortal: Cloud) -> None:
    uuid = launched(mortal)
    home = mortal.server(uuid)["OS-EXT-SRV-ATTR:host"]
    killed(mortal, place, uuid, {"migrate": None})
    assert settled(mortal, uuid, "VERIFY_RESIZE")["OS-EXT-SRV-ATTR:host"] != home
    assert_once(mortal, uuid, consumers=2)
    assert_all_goes(mortal, uuid)


@pytest.mark.parametrize("place", [*places(CONFIRM_RESIZE), *places(REVERT_RESIZE)])
def test_the_end_of_a_move_killed_at(place: str, mortal: Cloud) -> None:
    is_revert = place.startswith(REVERT_RESIZE.name)
    uuid = launched(mortal)
    home = mortal.server(uuid)["OS-EXT-SRV-ATTR:host"]
    mortal.call("POST", f"/compute/v2.1/servers/{uuid}/action", {"migrate": None}, user="admin")
    settled(mortal, uuid, "VERIFY_RESIZE")
    killed(mortal, place, uuid, {"revertResize" if is_revert else "confirmResize": None})
    assert (settled(mortal, uuid, "ACTIVE")["OS-EXT-SRV-ATTR:host"] == home) == is_revert
    assert_once(mortal, uuid)
    assert_all_goes(mortal, uuid)
