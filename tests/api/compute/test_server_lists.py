"""Server lists: statuses, and when deleted servers are included."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.db.transactions import database_now
from tests.compute_rows import Cloud, make_instance

LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.fixture
def listed(cloud: Cloud, api_client: Any) -> Any:
    ana = cloud.people.ana.context()
    make_instance(ana, "cell1", "calm")
    make_instance(ana, "cell2", "rebooting", task_state="rebooting")
    make_instance(ana, "cell1", "moving", vm_state="stopped", task_state="resize_prep")
    make_instance(ana, "cell2", "halted", vm_state="stopped")
    make_instance(ana, "cell1", "soft", vm_state="soft-delete", soft_deleted_at=database_now())
    make_instance(ana, "cell2", "gone", vm_state="deleted", deleted_at=database_now())

    def names(query: str, who: str = "ana") -> list[str]:
        everywhere = "&all_tenants=1" if who == "admin" else ""
        path = f"/compute/v2.1/servers?sort_key=display_name&sort_dir=asc{everywhere}&{query}"
        answer = api_client(who, version="2.75").get(path)
        assert answer.status_code == 200, answer.content
        return [server["name"] for server in answer.json()["servers"]]

    return names


def test_a_status_filter_finds_servers_that_show_this_status(listed: Any) -> None:
    assert listed("status=REBOOT") == ["rebooting"]
    assert listed("status=resize") == ["moving"]
    assert listed("status=RESIZE&status=REBOOT") == ["moving", "rebooting"]
    assert listed("status=ACTIVE") == ["calm", "rebooting"]
    assert listed("status=SHUTOFF") == ["halted", "moving"]
    assert listed("status=MIGRATING") == []


def test_deleted_servers_are_listed_only_on_request(listed: Any) -> None:
    alive = ["calm", "halted", "moving", "rebooting"]
    assert listed("") == alive
    assert listed("deleted=True&soft_deleted=True") == alive  # members have no such filters
    assert listed("status=SOFT_DELETED") == ["soft"]
    assert listed(f"changes-since={LONG_AGO}") == sorted([*alive, "gone", "soft"])
    assert listed("changes-before=2200-01-01T00:00:00Z") == sorted([*alive, "gone", "soft"])
    assert listed("", "admin") == alive
    assert listed(f"deleted=False&changes-since={LONG_AGO}", "admin") == alive
    assert listed("soft_deleted=True", "admin") == sorted([*alive, "soft"])
    assert listed("deleted=True", "admin") == ["gone", "soft"]
    assert listed("deleted=True&soft_deleted=False", "admin") == ["gone"]
    assert listed("status=DELETED", "admin") == ["gone"]
