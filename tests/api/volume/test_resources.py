"""Snapshots, types, transfers, attachments, groups, limits and services of the volume API, as clients call them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from conductor.volume import operations, store
from conductor.volume.models import Snapshot, Transfer, Volume, VolumeGroup, VolumeMessage, VolumeType
from conductor.volume.operations import NewAttachment
from tests.fixtures.volume_requests import NEWEST, ROOT, VOLUME, act, made, settled, storage, volume

__all__ = ["storage"]


def test_a_snapshot_is_taken_shown_and_made_a_volume_of(api_client: Any) -> None:
    ana, chi = api_client("ana"), api_client("chi")
    source = volume(ana, name="data")
    row = made(ana, "snapshots", "snapshot", {"volume_id": source, "name": "first", "metadata": {"a": "b"}})
    assert (row["status"], row["size"], row["metadata"]) == ("creating", 1, {"a": "b"})
    settled()
    path = f"{ROOT}/snapshots/{row['id']}"
    shown = ana.get(path, headers=NEWEST).json()["snapshot"]
    assert (shown["status"], shown["os-extended-snapshot-attributes:progress"]) == ("available", "100%")
    assert shown["consumes_quota"] is True
    assert "consumes_quota" not in ana.get(path).json()["snapshot"]  # a later version's field
    for refused in (chi.get(path), chi.delete(path), chi.post(VOLUME, {"volume": {"snapshot_id": row["id"]}})):
        assert refused.status_code == 404
    assert chi.get(f"{ROOT}/snapshots/detail").json() == {"snapshots": []}
    assert ana.delete(f"{VOLUME}/{source}").status_code == 400
    copy = made(ana, "volumes", "volume", {"snapshot_id": row["id"]})
    assert (copy["size"], copy["snapshot_id"]) == (1, row["id"])
    assert ana.post(VOLUME, {"volume": {"snapshot_id": row["id"], "source_volid": source}}).status_code == 400
    settled()
    assert Volume.objects.get(uuid=copy["id"]).status == "available"
    assert ana.delete(path).status_code == 202
    assert (Snapshot.objects.count(), store.snapshot_path_of(row["id"]).exists()) == (0, False)


def test_lists_of_snapshots_are_paged_filtered_and_sorted(api_client: Any) -> None:
    ana = api_client("ana")
    source = volume(ana)
    for name in ("a", "b", "c"):
        made(ana, "snapshots", "snapshot", {"volume_id": source, "name": name})
        settled()
    first = ana.get(f"{ROOT}/snapshots?limit=2&sort=name:asc&with_count=True", headers=NEWEST).json()
    assert ([row["name"] for row in first["snapshots"]], first["count"]) == (["a", "b"], 3)
    following = first["snapshots_links"][0]["href"].partition("testserver")[2]
    assert [row["name"] for row in ana.get(following, headers=NEWEST).json()["snapshots"]] == ["c"]
    assert [row["name"] for row in ana.get(f"{ROOT}/snapshots?name=b").json()["snapshots"]] == ["b"]
    assert ana.get(f"{ROOT}/snapshots?limit=0").json()["snapshots"] == []
    for query, status in (("sort_key=colour", 400), ("limit=many", 400), (f"marker={uuid4()}", 404)):
        assert ana.get(f"{ROOT}/snapshots?{query}").status_code == status


def test_volume_types_have_access_lists_and_extra_specs(api_client: Any, people: Any) -> None:
    ana, admin = api_client("ana"), api_client("admin")
    wanted = {"name": "own", "os-volume-type-access:is_public": False, "extra_specs": {"vendor_name": "Novella"}}
    assert ana.post(f"{ROOT}/types", {"volume_type": wanted}).status_code == 403
    row = made(admin, "types", "volume_type", wanted, status=200)
    path = f"{ROOT}/types/{row['id']}"
    assert ana.get(path).status_code == 404
    assert ana.post(VOLUME, {"volume": {"size": 1, "volume_type": "own"}}).status_code == 404
    assert admin.post(f"{ROOT}/types", {"volume_type": wanted}).status_code == 409
    project = {"project": people.ana.project.id}
    assert act(admin, path, "addProjectAccess", project) == 202
    assert act(admin, path, "addProjectAccess", project) == 409
    assert ana.get(path).json()["volume_type"]["extra_specs"] == {}  # how the storage does it is its operator's
    assert {one["name"] for one in ana.get(f"{ROOT}/types").json()["volume_types"]} == {"files", "own"}
    assert admin.get(f"{path}/extra_specs/vendor_name").json() == {"vendor_name": "Novella"}
    mine = volume(ana, volume_type="own")
    assert admin.delete(path).status_code == 400
    assert act(ana, f"{VOLUME}/{mine}", "os-retype", {"new_type": "files", "migration_policy": "never"}) == 202
    assert ana.get(f"{VOLUME}/{mine}").json()["volume"]["volume_type"] == "files"
    assert admin.delete(path).status_code == 202
    assert [one.name for one in VolumeType.objects.all()] == ["files"]
    default = admin.get(f"{ROOT}/types/default").json()["volume_type"]["id"]
    assert admin.delete(f"{ROOT}/types/{default}").status_code == 400


def test_operations_that_no_storage_supports_are_reported_by_a_message(api_client: Any) -> None:
    ana, admin = api_client("ana"), api_client("admin")
    made(admin, "types", "volume_type", {"name": "fast", "extra_specs": {"storage_protocol": "FC"}}, status=200)
    failed = volume(ana, volume_type="fast")
    assert ana.get(f"{VOLUME}/{failed}").json()["volume"]["status"] == "error"
    (message,) = ana.get(f"{ROOT}/messages", headers=NEWEST).json()["messages"]
    assert (message["resource_uuid"], message["message_level"]) == (failed, "ERROR")
    assert ana.get(f"{ROOT}/messages").status_code == 404  # not in that version
    assert api_client("chi").get(f"{ROOT}/messages/{message['id']}", headers=NEWEST).status_code == 404
    assert ana.delete(f"{ROOT}/messages/{message['id']}", headers=NEWEST).status_code == 204
    assert not VolumeMessage.objects.exists()


@pytest.mark.parametrize("noun", ["os-volume-transfer", "volume-transfers"])
def test_a_volume_is_transferred_to_the_holder_of_the_key(noun: str, api_client: Any, people: Any) -> None:
    ana, chi = api_client("ana"), api_client("chi")
    given = volume(ana, name="gift")
    transfer = made(ana, noun, "transfer", {"volume_id": given, "name": "gift"})
    key = transfer.pop("auth_key")
    assert Volume.objects.get().status == "awaiting-transfer"
    assert key not in str(Transfer.objects.values())
    path = f"{ROOT}/{noun}/{transfer['id']}"
    assert ana.get(path, headers=NEWEST).json()["transfer"] == transfer
    assert chi.get(path, headers=NEWEST).status_code == 404
    assert chi.post(f"{path}/accept", {"accept": {"auth_key": "wrong"}}, headers=NEWEST).status_code == 400
    assert Volume.objects.get().project_id == people.ana.project.id
    assert chi.post(f"{path}/accept", {"accept": {"auth_key": key}}, headers=NEWEST).status_code == 202
    row = Volume.objects.get()
    assert (row.project_id, row.user_id, row.status) == (people.chi.project.id, people.chi.user.id, "available")
    assert ana.get(f"{VOLUME}/{given}").status_code == 404
    assert chi.post(f"{path}/accept", {"accept": {"auth_key": key}}, headers=NEWEST).status_code == 404


def test_attachments_are_made_completed_and_given_back(api_client: Any) -> None:
    ana = api_client("ana")
    held = volume(ana)
    wanted = {"volume_uuid": held, "instance_uuid": str(uuid4())}
    row = made(ana, "attachments", "attachment", wanted, status=200)
    path = f"{ROOT}/attachments/{row['id']}"
    assert (row["status"], row["connection_info"], Volume.objects.get().status) == ("reserved", {}, "reserved")
    assert ana.post(f"{ROOT}/attachments", {"attachment": wanted}, headers=NEWEST).status_code == 400
    data = ana.put(path, {"attachment": {"connector": {"host": "bare-1"}}}, headers=NEWEST).json()["attachment"]
    assert data["status"] == "attaching"
    assert "volumes/" not in str(data["connection_info"])  # the path of the data stays private
    assert act(ana, path, "os-complete", None) == 204
    assert ana.get(f"{VOLUME}/{held}").json()["volume"]["status"] == "in-use"
    assert ana.get(path, headers=NEWEST).json()["attachment"]["status"] == "attached"
    assert ana.delete(f"{VOLUME}/{held}").status_code == 400
    assert ana.delete(path, headers=NEWEST).json() == {"attachments": []}
    assert Volume.objects.get().status == "available"


def test_attachments_are_listed_newest_first_or_in_the_requested_order(api_client: Any) -> None:
    ana = api_client("ana")
    ids = [made(ana, "attachments", "attachment", {"volume_uuid": volume(ana)}, status=200)["id"] for _ in range(3)]
    for query, wanted in (
        ("", ids[::-1]),
        ("?sort=created_at:asc", ids),
        ("?sort_key=id&sort_dir=asc", sorted(ids)),
        (f"?sort_key=created_at&sort_dir=asc&limit=1&marker={ids[0]}", ids[1:2]),
    ):
        found = ana.get(f"{ROOT}/attachments{query}", headers=NEWEST).json()["attachments"]
        assert [row["id"] for row in found] == wanted, query


def test_a_multi_attach_volume_is_available_after_its_last_detach(api_client: Any) -> None:
    ana, admin = api_client("ana"), api_client("admin")
    specs = {"multiattach": "<is> True"}
    made(admin, "types", "volume_type", {"name": "shared", "extra_specs": specs}, status=200)
    shared = volume(ana, volume_type="shared")
    lent = [str(uuid4()), str(uuid4())]
    for number, uuid in enumerate(lent):
        operations.reserve(NewAttachment(uuid, shared, str(uuid4()), "/dev/vdb", f"sim-{number}"))
        operations.complete(uuid)
    shown = ana.get(f"{VOLUME}/{shared}").json()["volume"]
    assert (shown["multiattach"], shown["status"], len(shown["attachments"])) == (True, "in-use", 2)
    operations.begin_detaching(lent[0])
    assert Volume.objects.get().status == "in-use"
    operations.release(lent[0])
    assert Volume.objects.get().status == "in-use"
    operations.release(lent[1])
    assert Volume.objects.get().status == "available"


def test_a_group_is_snapshotted_and_copied_as_one(api_client: Any) -> None:
    ana, admin = api_client("ana"), api_client("admin")
    kind = made(admin, "group_types", "group_type", {"name": "together"})
    wanted = {"name": "both", "group_type": kind["id"], "volume_types": ["files"]}
    group = made(ana, "groups", "group", wanted)
    volumes = [volume(ana, group_id=group["id"]) for _ in range(2)]
    assert ana.delete(f"{VOLUME}/{volumes[0]}").status_code == 400
    taken = made(ana, "group_snapshots", "group_snapshot", {"group_id": group["id"], "name": "then"})
    path = f"{ROOT}/group_snapshots/{taken['id']}"
    assert ana.get(path, headers=NEWEST).json()["group_snapshot"]["status"] == "creating"
    settled()
    assert ana.get(path, headers=NEWEST).json()["group_snapshot"]["status"] == "available"
    body = {"create-from-src": {"name": "again", "group_snapshot_id": taken["id"]}}
    copy = ana.post(f"{ROOT}/groups/action", body, headers=NEWEST).json()["group"]
    settled()
    assert Volume.objects.filter(group_uuid=copy["id"], status="available").count() == 2
    assert act(ana, f"{ROOT}/groups/{copy['id']}", "delete", {"delete-volumes": False}) == 400
    assert act(ana, f"{ROOT}/groups/{copy['id']}", "delete", {"delete-volumes": True}) == 202
    assert ana.delete(path, headers=NEWEST).status_code == 202
    assert (Snapshot.objects.count(), Volume.objects.count(), VolumeGroup.objects.count()) == (0, 2, 1)


def test_operators_disable_the_storage_and_set_the_limits_of_all_projects(api_client: Any) -> None:
    ana, admin = api_client("ana"), api_client("admin")
    for path in ("os-services", "os-hosts", "scheduler-stats/get_pools", "capabilities/novella@files", "qos-specs"):
        assert ana.get(f"{ROOT}/{path}").status_code == 403
        assert admin.get(f"{ROOT}/{path}").status_code == 200
    service = {"binary": "cinder-volume", "host": "novella@files", "disabled_reason": "repair"}
    assert admin.put(f"{ROOT}/os-services/disable-log-reason", service).json()["status"] == "disabled"
    assert ana.get(f"{VOLUME}/{volume(ana)}").json()["volume"]["status"] == "error"
    assert admin.put(f"{ROOT}/os-services/enable", service).json()["status"] == "enabled"
    classes = f"{ROOT}/os-quota-class-sets/default"
    assert admin.put(classes, {"quota_class_set": {"volumes": 1}}).status_code == 200
    assert admin.put(classes, {"quota_class_set": {"wheels": 1}}).status_code == 400
    assert ana.post(VOLUME, {"volume": {"size": 1}}).status_code == 413
    assert ana.get(f"{ROOT}/limits").json()["limits"]["absolute"]["maxTotalVolumes"] == 1
    assert Volume.objects.count() == 1


@pytest.mark.parametrize(
    ("action", "values", "status"),
    [
        ("os-fly", None, 400),
        ("os-extend", {"new_size": 0}, 400),
        ("os-retype", {"new_type": "unknown"}, 400),
        ("os-volume_upload_image", {"image_name": "x", "disk_format": "floppy"}, 400),
        ("revert", {"snapshot_id": str(uuid4())}, 404),
        ("os-unset_image_metadata", {"key": "none"}, 404),
        ("os-update_readonly_flag", {"readonly": "maybe"}, 400),
        ("os-attach", {"mountpoint": "/dev/vdb"}, 400),
        ("os-initialize_connection", {"connector": {}}, 400),
        ("os-force_delete", None, 403),
    ],
)
def test_a_refused_action_changes_nothing(action: str, values: Any, status: int, api_client: Any) -> None:
    ana = api_client("ana")
    path = f"{VOLUME}/{volume(ana)}"
    before = ana.get(path).json()
    assert act(ana, path, action, values) == status
    assert ana.get(path).json() == before
    assert api_client("chi").post(f"{path}/action", {action: values}, headers=NEWEST).status_code in (400, 403, 404)
