"""The volume API, as clients call it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from conductor.db.transactions import database_now
from conductor.journal.models import ResourceLock
from conductor.volume import operations, store
from conductor.volume.models import Volume
from conductor.volume.operations import NewAttachment, VolumeCreate
from conductor.volume.store import GIB

ROOT = "/volume/v3"
NEWEST = {"OpenStack-API-Version": "volume 3.68"}
# As the command line sends it: every key, mostly null.
SENT: dict[str, Any] = dict.fromkeys(
    (
        "description",
        "volume_type",
        "availability_zone",
        "imageRef",
        "source_volid",
        "consistencygroup_id",
        "snapshot_id",
    )
)


def created(client: Any, **values: Any) -> dict[str, Any]:
    answer = client.post(f"{ROOT}/volumes", {"volume": {**SENT, "size": 1, **values}})
    assert answer.status_code == 202, answer.content
    found: dict[str, Any] = answer.json()["volume"]
    return found


def shown(client: Any, volume_id: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"{ROOT}/volumes/{volume_id}").json()["volume"]
    return found


def test_a_volume_is_made_shown_and_deleted(api_client: Any, people: Any) -> None:
    ana = api_client("ana")
    made = created(ana, name="data", size="2", metadata={"a": "b"})
    assert (made["status"], made["size"], made["attachments"]) == ("creating", 2, [])
    row = shown(ana, made["id"])
    assert (row["status"], row["name"], row["metadata"], row["bootable"]) == ("available", "data", {"a": "b"}, "false")
    assert row["user_id"] == people.ana.user.id
    assert store.path_of(made["id"]).stat().st_size == 2 * GIB
    assert store.path_of(made["id"]).stat().st_blocks * 512 < GIB / 1024  # sparse
    answer = ana.delete(f"{ROOT}/{people.ana.project.id}/volumes/{made['id']}")
    assert (answer.status_code, answer.content) == (202, b"")
    assert ana.get(f"{ROOT}/volumes/{made['id']}").status_code == 404
    assert not store.path_of(made["id"]).exists()


def test_resources_of_other_projects_are_not_found(api_client: Any, people: Any) -> None:
    made = created(api_client("ana"), name="data")
    chi = api_client("chi")
    for answer in (
        chi.get(f"{ROOT}/volumes/{made['id']}"),
        chi.delete(f"{ROOT}/volumes/{made['id']}"),
        chi.put(f"{ROOT}/volumes/{made['id']}", {"volume": {"name": "mine"}}),
        chi.post(f"{ROOT}/volumes/{made['id']}/action", {"os-extend": {"new_size": 5}}),
    ):
        assert answer.status_code == 404
        assert answer.json()["itemNotFound"]["code"] == 404
    assert chi.get(f"{ROOT}/volumes/detail").json() == {"volumes": []}
    assert chi.get(f"{ROOT}/volumes/detail?all_tenants=1").json() == {"volumes": []}
    assert chi.get(f"{ROOT}/{people.ana.project.id}/volumes").status_code == 400
    assert [row["id"] for row in api_client("admin").get(f"{ROOT}/volumes?all_tenants=1").json()["volumes"]] == [
        made["id"]
    ]
    assert api_client("rea").post(f"{ROOT}/volumes", {"volume": {"size": 1}}).status_code == 403
    assert Volume.objects.get().name == "data"


def test_lists_are_paged_sorted_and_filtered(api_client: Any) -> None:
    ana = api_client("ana")
    ids = [created(ana, name=name)["id"] for name in ("a", "b", "c")]
    first = ana.get(f"{ROOT}/volumes/detail?limit=2&sort=name:asc").json()
    assert [row["id"] for row in first["volumes"]] == ids[:2]
    following = first["volumes_links"][0]["href"].partition("testserver")[2]
    assert [row["id"] for row in ana.get(following).json()["volumes"]] == ids[2:]
    assert [row["id"] for row in ana.get(f"{ROOT}/volumes?name=b").json()["volumes"]] == [ids[1]]
    assert sorted(ana.get(f"{ROOT}/volumes?name=b").json()["volumes"][0]) == ["id", "links", "name"]
    assert ana.get(f"{ROOT}/volumes?sort=colour").status_code == 400
    assert ana.get(f"{ROOT}/volumes?status=in-use").json() == {"volumes": []}


def test_a_volume_grows_and_never_shrinks(api_client: Any) -> None:
    ana = api_client("ana")
    made = created(ana)
    path = f"{ROOT}/volumes/{made['id']}"
    assert ana.post(f"{path}/action", {"os-extend": {"new_size": 3}}).status_code == 202
    assert (shown(ana, made["id"])["size"], store.path_of(made["id"]).stat().st_size) == (3, 3 * GIB)
    refused = ana.post(f"{path}/action", {"os-extend": {"new_size": 2}})
    assert refused.status_code == 400
    assert "must be greater than current size" in refused.json()["badRequest"]["message"]
    assert shown(ana, made["id"])["size"] == 3


def test_description_and_metadata_change(api_client: Any) -> None:
    ana = api_client("ana")
    path = f"{ROOT}/volumes/{created(ana)['id']}"
    changed = ana.put(path, {"volume": {"name": "new", "description": "words"}}).json()["volume"]
    assert (changed["name"], changed["description"]) == ("new", "words")
    assert ana.post(f"{path}/metadata", {"metadata": {"a": "1"}}).json() == {"metadata": {"a": "1"}}
    assert ana.post(f"{path}/metadata", {"metadata": {"b": "2"}}).json() == {"metadata": {"a": "1", "b": "2"}}
    assert ana.put(f"{path}/metadata/b", {"meta": {"b": "3"}}).json() == {"meta": {"b": "3"}}
    assert ana.delete(f"{path}/metadata/a").status_code == 200
    assert ana.get(f"{path}/metadata").json() == {"metadata": {"b": "3"}}
    assert ana.delete(f"{path}/metadata/a").status_code == 404
    assert ana.post(f"{path}/action", {"os-set_bootable": {"bootable": "true"}}).status_code == 200
    assert ana.get(path).json()["volume"]["bootable"] == "true"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"size": 0}, "volume.size"),
        ({"size": None}, "size"),
        ({"size": "big"}, "volume.size"),
        ({"imageRef": "5f1c0a6e-0000-4000-8000-000000000001"}, "unable to access requested image"),
        ({"snapshot_id": "first"}, "volume.snapshot_id"),
        ({"consistencygroup_id": "5f1c0a6e-0000-4000-8000-000000000001"}, "volume.consistencygroup_id"),
        ({"multiattach": True}, "decided by the type"),
        ({"availability_zone": "mars"}, "mars"),
        ({"colour": "blue"}, "colour"),
        ({"metadata": {"a": 1}}, "metadata"),
    ],
)
def test_what_cannot_be_is_refused_by_name(values: dict[str, Any], words: str, api_client: Any) -> None:
    answer = api_client("ana").post(f"{ROOT}/volumes", {"volume": {"size": 1, **values}})
    assert answer.status_code == 400
    assert words in answer.json()["badRequest"]["message"]
    assert not Volume.objects.exists()


def test_limits_are_counted(api_client: Any, people: Any) -> None:
    ana, admin, project = api_client("ana"), api_client("admin"), people.ana.project.id
    path = f"{ROOT}/os-quota-sets/{project}"
    assert admin.put(path, {"quota_set": {"volumes": 1, "gigabytes": 5}}).status_code == 200
    assert ana.put(path, {"quota_set": {"volumes": 9}}).status_code == 403
    refused = ana.post(f"{ROOT}/volumes", {"volume": {"size": 6}})
    assert (refused.status_code, sorted(refused.json())) == (413, ["overLimit"])
    made = created(ana, size=2)
    assert ana.post(f"{ROOT}/volumes", {"volume": {"size": 1}}).status_code == 413
    assert ana.post(f"{ROOT}/volumes/{made['id']}/action", {"os-extend": {"new_size": 6}}).status_code == 413
    assert Volume.objects.get().size_gb == 2
    usage = ana.get(f"{path}?usage=True").json()["quota_set"]
    assert (usage["volumes"], usage["gigabytes"]["in_use"]) == ({"limit": 1, "in_use": 1, "reserved": 0}, 2)
    absolute = ana.get(f"{ROOT}/limits").json()["limits"]["absolute"]
    assert (absolute["maxTotalVolumes"], absolute["totalVolumesUsed"], absolute["totalGigabytesUsed"]) == (1, 1, 2)
    assert admin.put(path, {"quota_set": {"colour": 1}}).status_code == 400
    assert admin.delete(path).status_code == 200
    assert ana.get(path).json()["quota_set"]["volumes"] == 100


def test_a_volume_that_a_workflow_has_locked_is_unchanged(api_client: Any) -> None:
    ana = api_client("ana")
    made = created(ana)
    holder = "11111111-2222-4333-8444-555555555555"
    ResourceLock.objects.create(
        resource=f"volume:{made['id']}",
        holder_uuid=holder,
        holder_alias="cell1",
        holder_action="attach_volume",
        granted_at=database_now(),
    )
    path = f"{ROOT}/volumes/{made['id']}"
    for answer in (ana.delete(path), ana.post(f"{path}/action", {"os-extend": {"new_size": 5}})):
        assert answer.status_code == 409
        assert holder in answer.json()["conflictingRequest"]["message"]
    assert (shown(ana, made["id"])["status"], shown(ana, made["id"])["size"]) == ("available", 1)


def test_only_compute_detaches(api_client: Any) -> None:
    ana, admin, lent = api_client("ana"), api_client("admin"), str(uuid4())
    volume_id = created(ana)["id"]
    path = f"{ROOT}/volumes/{volume_id}/action"
    operations.reserve(NewAttachment(lent, volume_id, str(uuid4()), "/dev/vdb", "sim-1"))
    operations.complete(lent)
    assert ana.post(path, {"os-detach": {}}).status_code == 409
    assert ana.post(path, {"os-begin_detaching": None}).status_code == 409
    assert ana.post(path, {"os-terminate_connection": {"connector": {}}}).status_code == 409
    assert admin.post(path, {"os-force_detach": {"attachment_id": lent, "connector": None}}).status_code == 409
    assert ana.delete(f"{ROOT}/attachments/{lent}").status_code == 404  # no such route in that version
    assert ana.delete(f"{ROOT}/attachments/{lent}", headers=NEWEST).status_code == 409
    assert shown(ana, volume_id)["status"] == "in-use"
    operations.release(lent)
    assert ana.post(path, {"os-fly": {}}).status_code == 400
    assert ana.post(path, {"os-reset_status": {"status": "error"}}).status_code == 403
    assert admin.post(path, {"os-reset_status": {"status": "error"}}).status_code == 202
    assert Volume.objects.get().status == "error"


def test_discovery_needs_no_token_and_the_rest_does(api_client: Any, people: Any) -> None:
    anonymous = api_client(None)
    assert anonymous.get("/volume/").status_code == 300
    (version,) = anonymous.get("/volume/v3/").json()["versions"]
    assert (version["id"], version["status"], version["version"]) == ("v3.0", "CURRENT", "3.71")
    assert anonymous.get(f"{ROOT}/volumes").status_code == 401
    ana = api_client("ana")
    for path in ("types", "types/default", "snapshots", "snapshots/detail", "os-availability-zone", "extensions"):
        assert ana.get(f"{ROOT}/{people.ana.project.id}/{path}").status_code == 200
    assert ana.get(f"{ROOT}/fish").status_code == 404


@pytest.mark.parametrize("status", ["creating", "extending", "deleting"])
def test_interrupted_operations_are_finished(status: str, people: Any) -> None:
    volume = operations.insert(people.ana.context(), VolumeCreate(size_gb=1))
    Volume.objects.update(status=status)
    assert operations.settle_all() == 1
    assert operations.settle_all() == 0
    assert store.path_of(volume.uuid).exists() == (status != "deleting")
    assert list(Volume.objects.values_list("status", flat=True)) == ([] if status == "deleting" else ["available"])
