"""Calls between storage services and servers: snapshots of attached volumes, and volumes that grow."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from conductor.core.states import LIVE_RUN_STATES
from conductor.journal.models import WorkflowRun
from conductor.services.volumes import volumes
from conductor.volume import operations, store
from conductor.volume.models import Snapshot, Volume, VolumeAttachment
from conductor.workflows.engine import executor
from tests.fixtures.attached_volumes import make_device, volume, web

__all__ = ["volume", "web"]  # fixtures
PATH = "/compute/v2.1/os-assisted-volume-snapshots"


@pytest.fixture(autouse=True)
def storage(settings: Any, tmp_path: Any) -> None:
    settings.NOVELLA_DATA = tmp_path


def body(volume_id: str, snapshot_id: str, **more: Any) -> dict[str, Any]:
    how = {"snapshot_id": snapshot_id, "type": "qcow2", "new_file": "next", **more}
    return {"snapshot": {"volume_id": volume_id, "create_info": how}}


def gone(snapshot_id: str, volume_id: str) -> str:
    return f"{PATH}/{snapshot_id}?delete_info={quote(json.dumps({'volume_id': volume_id}))}"


def test_an_assisted_snapshot_has_the_services_id_and_can_be_deleted_at_any_time(
    api_client: Any, web: str, volume: str
) -> None:
    admin, ana, wanted = api_client("admin"), api_client("ana"), str(uuid4())
    assert admin.post(PATH, body(volume, wanted)).status_code == 400  # no server has it
    store.ensure(volume, 1)
    make_device(web, volume)
    assert ana.post(PATH, body(volume, wanted)).status_code == 403
    assert admin.post(PATH, body(volume, wanted, type="raw")).status_code == 400
    assert not Snapshot.objects.exists()

    answer = admin.post(PATH, body(volume, wanted))
    assert (answer.status_code, answer.json()) == (200, {"snapshot": {"id": wanted, "volumeId": volume}})
    assert admin.post(PATH, body(volume, wanted)).status_code == 409
    shown = ana.get(f"/volume/v3/snapshots/{wanted}").json()["snapshot"]  # it is of the volume's project
    assert (shown["status"], shown["volume_id"]) == ("creating", volume)

    for wrong in (f"{PATH}/{wanted}", f"{PATH}/{wanted}?delete_info=x", gone(wanted, str(uuid4()))):
        assert admin.delete(wrong).status_code == 400
    assert admin.delete(gone(str(uuid4()), volume)).status_code == 404
    assert admin.delete(gone(wanted, volume)).status_code == 204
    volumes.settle_all()
    assert Snapshot.objects.get().status == "deleting"  # while the workflow is at work
    for run in WorkflowRun.objects.filter(state__in=LIVE_RUN_STATES):
        executor.run("default", run.uuid)
    operations.release(str(VolumeAttachment.objects.get().uuid))
    assert ana.delete(f"/volume/v3/volumes/{volume}").status_code == 202  # no reason to keep the volume
    assert not Volume.objects.exists()
    assert not Snapshot.objects.exists()
    assert not store.snapshot_path_of(wanted).exists()


def test_extending_an_attached_volume_is_an_action_of_the_server(api_client: Any, web: str, volume: str) -> None:
    ana = api_client("ana")
    store.ensure(volume, 1)
    make_device(web, volume)
    path = f"/volume/v3/volumes/{volume}"
    for version, status in (("3.41", 400), ("3.42", 202)):
        requested = ana.post(
            f"{path}/action", {"os-extend": {"new_size": 2}}, headers={"OpenStack-API-Version": f"volume {version}"}
        )
        assert requested.status_code == status, requested.content
    assert ana.get(path).json()["volume"]["size"] == 2
    actions = ana.get(f"/compute/v2.1/servers/{web}/os-instance-actions").json()["instanceActions"]
    assert [(action["action"], action["request_id"]) for action in actions] == [
        ("extend_volume", requested.headers["x-openstack-request-id"])
    ]
