"""Effects of external events from other services."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from conductor.cell_db.models import BlockDevice, Instance
from conductor.db.transactions import database_now
from conductor.journal.models import Event, WorkflowRun
from conductor.services.servers import external_events
from conductor.services.servers.external_events import ExternalEvent
from tests.compute_rows import make_cloud, make_host, make_instance
from tests.people import People

pytestmark = pytest.mark.django_db(databases="__all__")


@pytest.fixture
def web(people: People) -> Instance:
    make_cloud(people)
    make_host("cell1", "sim-1-01")
    gone = {"port_uuid": str(uuid.uuid4()), "network_name": "private", "mac_address": "fa:16:3e:00:00:01"}
    values = {"host": "sim-1-01", "addresses": [gone], "launched_at": database_now()}
    return make_instance(people.ana.context(), "cell1", "web", **values)


def _post_event(people: People, web: Instance, name: str, tag: str | None = None) -> int:
    (code,) = external_events.take(people.admin.context(), [ExternalEvent(name, str(web.uuid), tag=tag)])
    return code


def _runs() -> list[str]:
    return list(WorkflowRun.objects.using("cell1").order_by("pk").values_list("action", flat=True))


def test_every_event_that_is_taken_is_in_the_log(people: People, web: Instance) -> None:
    assert _post_event(people, web, "accelerator-request-bound", "arq") == 200
    (event,) = Event.objects.using("cell1").filter(kind="instance.external_event")
    assert event.data == {"name": "accelerator-request-bound", "status": "completed", "tag": "arq"}
    assert _runs() == []


@pytest.mark.parametrize("name", ["network-changed", "network-vif-unplugged", "network-vif-deleted"])
def test_a_server_forgets_a_port_that_is_gone(people: People, web: Instance, name: str) -> None:
    assert _post_event(people, web, name, web.addresses[0]["port_uuid"]) == 200
    assert Instance.objects.using("cell1").get(pk=web.pk).addresses == []


def test_a_server_under_work_keeps_its_addresses_for_its_workflow(people: People, web: Instance) -> None:
    Instance.objects.using("cell1").filter(pk=web.pk).update(task_state="migrating")
    assert _post_event(people, web, "network-changed") == 200
    assert Instance.objects.using("cell1").get(pk=web.pk).addresses == web.addresses


def test_a_power_event_stops_the_server_once(people: People, web: Instance) -> None:
    assert _post_event(people, web, "power-update", "POWER_ON") == 200
    assert _runs() == []  # it is on
    assert _post_event(people, web, "power-update", "POWER_OFF") == 200
    assert _post_event(people, web, "power-update", "POWER_OFF") == 200
    assert _runs() == ["stop"]
    assert Instance.objects.using("cell1").get(pk=web.pk).task_state == "powering-off"


def test_a_volume_that_grew_is_on_record_if_it_is_attached(people: People, web: Instance) -> None:
    volume = uuid.uuid4()
    assert _post_event(people, web, "volume-extended", str(volume)) == 200
    assert _runs() == []
    _attach(web, volume)
    assert _post_event(people, web, "volume-extended", str(volume)) == 200
    assert _runs() == ["extend_volume"]


def _attach(web: Instance, volume: Any) -> None:
    values = {"volume_uuid": volume, "device_name": "/dev/vdb", "created_at": database_now()}
    BlockDevice.objects.using("cell1").create(instance_uuid=web.uuid, **values)


def test_invalid_external_events_change_nothing(people: People, web: Instance) -> None:
    context = people.admin.context()
    unknown = ExternalEvent("network-changed", str(uuid.uuid4()))
    Instance.objects.using("cell1").filter(pk=web.pk).update(host=None)
    assert external_events.take(context, [unknown, ExternalEvent("network-changed", str(web.uuid))]) == [404, 422]
    assert not Event.objects.using("cell1").filter(kind="instance.external_event").exists()
