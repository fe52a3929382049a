"""Images, shelving, volumes and ports of servers over HTTP: codes, bodies and what each version knows."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.cell_db.models import BlockDevice, Instance
from conductor.core.states import VmState
from conductor.image.models import Image
from conductor.journal.models import AuditRecord, ResourceLock, WorkflowRun
from conductor.network.models import Port
from conductor.services.volumes import volumes
from conductor.services.volumes.volumes import VolumeCreate
from conductor.volume.models import Volume
from tests.compute_rows import Cloud
from tests.fixtures.attached_volumes import make_device, volume, web

__all__ = ["volume", "web"]

ROOT = "/compute/v2.1/servers"
NOTHING = "99999999-9999-9999-9999-999999999999"


def act(client: Any, server: str, **action: Any) -> Any:
    return client.post(f"{ROOT}/{server}/action", action)


def runs() -> list[str]:
    return list(WorkflowRun.objects.using("cell1").order_by("pk").values_list("flow", flat=True))


def test_an_image_is_named_in_a_header_and_later_in_the_body(api_client: Any, web: str) -> None:
    answer = act(api_client("ana", version="2.44"), web, createImage={"name": "gold", "metadata": {"a": "b"}})
    assert (answer.status_code, answer.content) == (202, b"")
    image_id = answer.headers["Location"].rpartition("/")[2]
    assert api_client("ana").get(f"/image/v2/images/{image_id}").json()["status"] == "queued"
    assert runs() == ["create_image"]
    assert api_client("ana").get(f"{ROOT}/{web}").json()["server"]["OS-EXT-STS:task_state"] == "image_snapshot_pending"


def test_a_backup_is_answered_like_an_image(api_client: Any, web: str) -> None:
    value = {"name": "nightly", "backup_type": "daily", "rotation": "2"}
    answer = act(api_client("ana", version="2.45"), web, createBackup=value)
    assert answer.status_code == 202
    image = Image.objects.get(uuid=answer.json()["image_id"])
    assert (image.properties["image_type"], image.properties["backup_type"]) == ("backup", "daily")
    assert WorkflowRun.objects.using("cell1").get().inputs["rotation"] == 2


def test_an_image_of_a_running_snapshot_accepts_no_upload_and_can_be_deleted(api_client: Any, web: str) -> None:
    ana = api_client("ana", version="2.45")
    image_id = act(ana, web, createImage={"name": "gold"}).json()["image_id"]
    run_uuid = str(WorkflowRun.objects.using("cell1").get().uuid)
    path = f"/image/v2/images/{image_id}"
    answer = ana.put(f"{path}/file", b"mine", headers={"Content-Type": "application/octet-stream"})
    assert answer.status_code == 409
    assert run_uuid in answer.content.decode()
    assert Image.objects.get(uuid=image_id).status == "queued"
    assert ana.delete(path).status_code == 204
    assert Image.objects.get(uuid=image_id).status == "deleted"


@pytest.mark.parametrize(
    ("version", "action", "words"),
    [
        ("2.1", {"createImage": {}}, "createImage"),
        ("2.1", {"createImage": {"name": ""}}, "createImage.name"),
        ("2.1", {"createImage": {"name": "x", "colour": 1}}, "colour"),
        ("2.1", {"createBackup": {"name": "x", "backup_type": "daily"}}, "rotation"),
        ("2.1", {"createBackup": {"name": "x", "backup_type": "daily", "rotation": -1}}, "createBackup.rotation"),
        ("2.76", {"unshelve": {"availability_zone": "az-1"}}, "unshelve"),
        ("2.90", {"unshelve": {"host": "sim-1-01"}}, "unshelve"),
        ("2.91", {"unshelve": {}}, "unshelve"),
        ("2.1", {"shelve": {"now": True}}, "shelve"),
    ],
)
def test_bodies_are_strict(version: str, action: dict[str, Any], words: str, api_client: Any, web: str) -> None:
    answer = act(api_client("ana", version=version), web, **action)
    assert answer.status_code == 400
    assert words in answer.json()["badRequest"]["message"]
    assert runs() == []


def test_roles_that_may_shelve(api_client: Any, web: str) -> None:
    assert act(api_client("chi"), web, shelve=None).status_code == 404
    assert act(api_client("rea"), web, shelve=None).status_code == 403
    assert act(api_client("ana"), web, shelveOffload=None).status_code == 403
    refused = act(api_client("ana"), web, unshelve=None)
    assert refused.status_code == 409
    assert f"Cannot 'unshelve' instance {web} while it is in vm_state active" in refused.content.decode()
    refusals = AuditRecord.objects.using("default").filter(result="refused")
    assert refusals.count() == 3  # a caller that may not know of the server leaves no record of it
    assert runs() == []
    assert act(api_client("ana"), web, shelve=None).status_code == 202
    assert runs() == ["shelve_instance"]


def test_unshelve_to_a_host_is_for_administrators(api_client: Any, web: str) -> None:
    Instance.objects.using("cell1").update(vm_state=VmState.SHELVED_OFFLOADED, host=None, node=None)
    assert act(api_client("ana", version="2.91"), web, unshelve={"host": "sim-1-01"}).status_code == 403
    assert runs() == []
    answer = act(api_client("admin", version="2.91"), web, unshelve={"host": "sim-1-01", "availability_zone": None})
    assert answer.status_code == 202
    assert WorkflowRun.objects.using("cell1").get().inputs == {"host": "sim-1-01", "availability_zone": ""}


@pytest.mark.parametrize(
    ("version", "extra"),
    [
        ("2.1", {"id"}),
        ("2.70", {"id", "tag"}),
        ("2.79", {"id", "tag", "delete_on_termination"}),
        ("2.89", {"tag", "delete_on_termination", "attachment_id", "bdm_uuid"}),
    ],
)
def test_an_attachment_shows_what_its_version_knows(
    version: str, extra: set[str], api_client: Any, web: str, volume: str
) -> None:
    ana = api_client("ana", version=version)
    answer = ana.post(f"{ROOT}/{web}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume}})
    assert answer.status_code == 200
    shown = answer.json()["volumeAttachment"]
    assert shown.keys() == {"volumeId", "serverId", "device"} | extra
    assert (shown["volumeId"], shown["serverId"], shown["device"]) == (volume, web, "/dev/vdb")
    assert ana.get(f"{ROOT}/{web}/os-volume_attachments").json() == {"volumeAttachments": [shown]}
    assert ana.get(f"{ROOT}/{web}/os-volume_attachments/{volume}").json() == {"volumeAttachment": shown}


def test_volumes_that_cannot_be_attached_are_refused(api_client: Any, web: str, volume: str) -> None:
    ana, path = api_client("ana", version="2.85"), f"{ROOT}/{web}/os-volume_attachments"

    def attach(**value: Any) -> Any:
        return ana.post(path, {"volumeAttachment": {"volumeId": volume, **value}})

    assert attach(volumeId=NOTHING).status_code == 404
    assert attach(volumeId="fish").status_code == 400
    assert attach(device="/dev/vda").status_code == 409
    assert attach(colour="blue").status_code == 400
    assert (
        api_client("ana", version="2.48").post(path, {"volumeAttachment": {"volumeId": volume, "tag": "a"}}).status_code
        == 400
    )
    assert api_client("chi").post(path, {"volumeAttachment": {"volumeId": volume}}).status_code == 404
    assert api_client("rea").post(path, {"volumeAttachment": {"volumeId": volume}}).status_code == 403
    assert (runs(), BlockDevice.objects.using("cell1").count()) == ([], 0)
    assert not ResourceLock.objects.using("default").exists()
    assert attach().status_code == 200
    again = attach()
    assert again.status_code == 409
    assert str(WorkflowRun.objects.using("cell1").get().uuid) in again.json()["conflictingRequest"]["message"]


def test_an_attachment_is_changed_and_ended(api_client: Any, web: str, volume: str) -> None:
    ana, path = api_client("ana", version="2.85"), f"{ROOT}/{web}/os-volume_attachments"
    ana.post(path, {"volumeAttachment": {"volumeId": volume}})
    kept = {"volumeAttachment": {"volumeId": volume, "delete_on_termination": True}}
    assert ana.put(f"{path}/{volume}", kept).status_code == 202
    assert BlockDevice.objects.using("cell1").get().delete_on_termination
    assert api_client("ana", version="2.84").put(f"{path}/{volume}", kept).status_code == 400
    swap = {"volumeAttachment": {"volumeId": NOTHING}}
    assert ana.put(f"{path}/{volume}", swap).status_code == 403
    assert api_client("admin", version="2.85").put(f"{path}/{volume}", swap).status_code == 404
    assert ana.delete(f"{path}/{NOTHING}").status_code == 404
    server = ana.get(f"{ROOT}/{web}").json()["server"]
    assert server["os-extended-volumes:volumes_attached"] == [{"id": volume, "delete_on_termination": True}]
    assert ana.delete(f"{path}/{volume}").status_code == 409  # it is still being attached


def test_services_swap_volumes(api_client: Any, web: str, cloud: Cloud, volume: str) -> None:
    path, admin = f"{ROOT}/{web}/os-volume_attachments", api_client("admin", version="2.85")
    make_device(web, volume)
    new, tiny = (str(volumes.create(cloud.people.ana.context(), VolumeCreate(size_gb=size)).uuid) for size in (2, 1))
    Volume.objects.filter(uuid=volume).update(size_gb=2)

    def swap(client: Any, volume_id: str, **extra: Any) -> Any:
        return client.put(f"{path}/{volume}", {"volumeAttachment": {"volumeId": volume_id, **extra}})

    for client, volume_id, status in (
        (api_client("ana", version="2.85"), new, 403),
        (api_client("chi", version="2.85"), new, 403),
        (admin, NOTHING, 404),
        (admin, "fish", 400),
        (admin, tiny, 400),
    ):
        assert swap(client, volume_id).status_code == status, volume_id
    assert swap(admin, new, colour="blue").status_code == 400
    assert (runs(), BlockDevice.objects.using("cell1").count()) == ([], 1)
    answer = swap(admin, new)
    assert (answer.status_code, answer.content) == (202, b"")
    assert runs() == ["swap_volume"]
    run_uuid = str(WorkflowRun.objects.using("cell1").get().uuid)
    assert run_uuid in answer.headers["Link"]
    again = swap(admin, new)
    assert (again.status_code, run_uuid in again.json()["conflictingRequest"]["message"]) == (409, True)


@pytest.mark.parametrize(("version", "extra"), [("2.1", set()), ("2.70", {"tag"})])
def test_ports_are_plugged_shown_and_unplugged(
    version: str, extra: set[str], api_client: Any, cloud: Cloud, web: str
) -> None:
    ana, path = api_client("ana", version=version), f"{ROOT}/{web}/os-interface"
    answer = ana.post(path, {"interfaceAttachment": {"net_id": str(cloud.network.uuid)}})
    assert answer.status_code == 200
    shown = answer.json()["interfaceAttachment"]
    assert shown.keys() == {"port_id", "net_id", "mac_addr", "port_state", "fixed_ips"} | extra
    assert shown["net_id"] == str(cloud.network.uuid)
    assert shown["fixed_ips"][0]["ip_address"].startswith("10.64.")
    assert ana.get(path).json() == {"interfaceAttachments": []}  # until it is plugged
    assert runs() == ["attach_interface"]
    assert ana.delete(f"{path}/{NOTHING}").status_code == 404
    deleted = ana.delete(f"/network/v2.0/ports/{shown['port_id']}")
    assert deleted.status_code == 409
    assert str(WorkflowRun.objects.using("cell1").get().uuid) in deleted.json()["NeutronError"]["message"]


def test_ports_that_cannot_be_plugged_are_refused(api_client: Any, cloud: Cloud, web: str) -> None:
    ana, path = api_client("ana", version="2.49"), f"{ROOT}/{web}/os-interface"
    network = str(cloud.network.uuid)
    for value, status in (
        ({"net_id": NOTHING}, 404),
        ({"port_id": NOTHING}, 404),
        ({"net_id": "fish"}, 400),
        ({"fixed_ips": [{"ip_address": "10.64.0.99"}]}, 400),
        ({"net_id": network, "fixed_ips": [{"ip_address": "fish"}]}, 400),
        ({"net_id": network, "colour": "blue"}, 400),
    ):
        assert ana.post(path, {"interfaceAttachment": value}).status_code == status, value
    assert api_client("ana", version="2.48").post(path, {"interfaceAttachment": {"tag": "a"}}).status_code == 400
    assert api_client("chi").post(path, {}).status_code == 404
    assert api_client("rea").post(path, {}).status_code == 403
    assert (runs(), Port.objects.count()) == ([], 0)
    assert ana.post(path, {}).status_code == 200  # the one network that there is
