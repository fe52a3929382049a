"""Backups of volumes as clients make, restore, carry and delete them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conductor.volume import backup_store, operations, store
from conductor.volume.models import Backup, Volume, VolumeMessage
from conductor.volume.operations import NewAttachment
from tests.fixtures.volume_requests import NEWEST, ROOT, VOLUME, act, at, made, settled, volume

BACKUPS = f"{ROOT}/backups"
FIRST, SECOND = b"first" * 1000, b"second" * 1000
FAR = 9 * backup_store.BLOCK  # in another block


@pytest.fixture(autouse=True)
def storage(settings: Any, tmp_path: Path) -> None:
    settings.NOVELLA_DATA = tmp_path


@pytest.fixture
def ana(api_client: Any) -> Any:
    return api_client("ana")


@pytest.fixture
def source(ana: Any) -> str:
    uuid = volume(ana, name="data", metadata={"a": "b"})
    write(uuid, 0, FIRST)
    write(uuid, FAR, FIRST)
    return uuid


def write(uuid: str, offset: int, data: bytes) -> None:
    with store.path_of(uuid).open("r+b") as file:
        file.seek(offset)
        file.write(data)


def read(uuid: str, offset: int, size: int = len(FIRST)) -> bytes:
    with store.path_of(uuid).open("rb") as file:
        file.seek(offset)
        return file.read(size)


def backed_up(client: Any, uuid: str, **values: Any) -> str:
    backup = made(client, "backups", "backup", {"volume_id": uuid, **values})
    settled()
    return str(backup["id"])


def shown(client: Any, uuid: str, version: str = "3.67") -> Any:
    return client.get(f"{BACKUPS}/{uuid}", headers=at(version)).json()["backup"]


def test_a_backup_outlives_its_volume_and_is_made_a_volume_of(ana: Any, source: str) -> None:
    requested = {"volume_id": source, "name": "nightly", "description": "d", "container": "c", "metadata": {"k": "v"}}
    row = made(ana, "backups", "backup", requested)
    assert set(row) == {"id", "name", "links"}
    assert shown(ana, row["id"])["status"] == "creating"
    assert ana.get(f"{VOLUME}/{source}").json()["volume"]["status"] == "backing-up"
    assert ana.delete(f"{VOLUME}/{source}").status_code == 409  # the workflow has it
    settled()
    found = shown(ana, row["id"])
    fields = {name: found[name] for name in ("status", "size", "object_count", "volume_id", "container", "metadata")}
    assert fields == {
        "status": "available",
        "size": 1,
        "object_count": 2,
        "volume_id": source,
        "container": "c",
        "metadata": {"k": "v"},
    }
    assert (found["is_incremental"], found["has_dependent_backups"], found["snapshot_id"]) == (False, False, None)
    assert ana.delete(f"{VOLUME}/{source}").status_code == 202
    begun = ana.post(f"{BACKUPS}/{row['id']}/restore", {"restore": {}}, headers=NEWEST)
    assert begun.status_code == 202
    restored = begun.json()["restore"]
    assert (restored["backup_id"], restored["volume_name"]) == (row["id"], f"restore_backup_{row['id']}")
    assert shown(ana, row["id"])["status"] == "restoring"
    settled()
    copy = ana.get(f"{VOLUME}/{restored['volume_id']}").json()["volume"]
    assert (copy["status"], copy["size"], copy["metadata"]) == ("available", 1, {"a": "b"})
    assert read(copy["id"], 0) == read(copy["id"], FAR) == FIRST
    assert store.path_of(copy["id"]).stat().st_size == store.GIB
    third = made(ana, "volumes", "volume", {"backup_id": row["id"], "size": 2})["id"]
    settled()
    assert Volume.objects.get(uuid=third).status == "available"
    assert read(third, FAR) == FIRST
    assert ana.delete(f"{BACKUPS}/{row['id']}").status_code == 202
    assert ana.get(f"{BACKUPS}/{row['id']}").status_code == 404
    assert not backup_store.folder_of(row["id"]).exists()


def test_an_incremental_backup_holds_what_changed_and_needs_its_parent(ana: Any, source: str) -> None:
    refused = ana.post(BACKUPS, {"backup": {"volume_id": source, "incremental": True}})
    assert refused.status_code == 400
    assert "No backups available" in refused.json()["badRequest"]["message"]
    assert not Backup.objects.exists()
    full = backed_up(ana, source)
    write(source, 0, SECOND)
    changed = backed_up(ana, source, incremental=True)
    assert (shown(ana, changed)["object_count"], shown(ana, changed)["is_incremental"]) == (1, True)
    assert shown(ana, full)["has_dependent_backups"] is True
    assert ana.delete(f"{BACKUPS}/{full}").status_code == 400
    assert ana.post(f"{BACKUPS}/{changed}/restore", {"restore": {"volume_id": source}}).status_code == 202
    settled()
    assert (read(source, 0, len(SECOND)), read(source, FAR)) == (SECOND, FIRST)
    ana.post(f"{BACKUPS}/{full}/restore", {"restore": {"volume_id": source}})
    settled()
    assert read(source, 0) == FIRST  # as it was then
    for uuid in (changed, full):
        assert ana.delete(f"{BACKUPS}/{uuid}").status_code == 202
    assert not Backup.objects.exists()


def test_a_damaged_backup_is_not_restored_and_the_old_data_stay(ana: Any, source: str) -> None:
    uuid = backed_up(ana, source)
    with (backup_store.folder_of(uuid) / backup_store.DATA).open("r+b") as file:
        file.write(b"rot")
    write(source, 0, SECOND)
    ana.post(f"{BACKUPS}/{uuid}/restore", {"restore": {"volume_id": source}})
    settled()
    assert Volume.objects.get(uuid=source).status == "error_restoring"
    assert read(source, 0, len(SECOND)) == SECOND
    assert shown(ana, uuid)["status"] == "available"
    assert "damaged" in VolumeMessage.objects.get().text


def test_a_backup_of_a_snapshot_and_of_a_volume_in_use(ana: Any, source: str, people: Any) -> None:
    point = made(ana, "snapshots", "snapshot", {"volume_id": source})["id"]
    settled()
    write(source, 0, SECOND)
    uuid = backed_up(ana, source, snapshot_id=point)
    assert shown(ana, uuid)["snapshot_id"] == point
    made_of = made(ana, "volumes", "volume", {"backup_id": uuid})["id"]
    settled()
    assert read(made_of, 0) == FIRST
    lending = NewAttachment(str(uuid4()), source, str(uuid4()), "/dev/vdb")
    operations.reserve(lending)
    operations.complete(lending.attachment_uuid)
    refused = ana.post(BACKUPS, {"backup": {"volume_id": source}})
    assert refused.status_code == 400
    assert "force" in refused.json()["badRequest"]["message"]
    backed_up(ana, source, force=True)
    assert Volume.objects.get(uuid=source).status == "in-use"


def test_projects_see_their_own_and_quotas_count(ana: Any, source: str, api_client: Any, people: Any) -> None:
    uuid = backed_up(ana, source, name="mine")
    chi, admin = api_client("chi"), api_client("admin")
    path = f"{BACKUPS}/{uuid}"
    requested: dict[str, Any] = {"restore": {}}
    assert [chi.get(path).status_code, chi.delete(path).status_code] == [404, 404]
    assert chi.post(f"{path}/restore", requested).status_code == 404
    assert chi.post(BACKUPS, {"backup": {"volume_id": source}}).status_code == 404
    assert chi.get(f"{BACKUPS}/detail").json() == {"backups": []}
    listed = admin.get(f"{BACKUPS}/detail?all_tenants=1", headers=NEWEST).json()["backups"]
    assert [row["os-backup-project-attr:project_id"] for row in listed] == [people.ana.project.id]
    assert "os-backup-project-attr:project_id" not in shown(ana, uuid)
    assert ana.get(f"{BACKUPS}?name=other").json() == {"backups": []}
    assert ana.get(f"{BACKUPS}?volume_id={source}&with_count=1", headers=NEWEST).json()["count"] == 1
    limits = ana.get(f"{ROOT}/limits").json()["limits"]["absolute"]
    assert (limits["totalBackupsUsed"], limits["totalBackupGigabytesUsed"]) == (1, 1)
    quotas = f"{ROOT}/os-quota-sets/{people.ana.project.id}"
    admin.put(quotas, {"quota_set": {"backups": 1}})
    refused = ana.post(BACKUPS, {"backup": {"volume_id": source}})
    assert refused.status_code == 413
    assert (Backup.objects.count(), Volume.objects.get(uuid=source).status) == (1, "available")


def test_a_record_is_carried_and_its_data_go_with_the_last_one(ana: Any, source: str, api_client: Any) -> None:
    uuid, admin = backed_up(ana, source, name="mine"), api_client("admin")
    assert ana.get(f"{BACKUPS}/{uuid}/export_record").status_code == 403
    record = admin.get(f"{BACKUPS}/{uuid}/export_record").json()["backup-record"]
    there = admin.post(f"{BACKUPS}/import_record", {"backup-record": record})
    assert there.status_code == 400
    fields, other = json.loads(base64.b64decode(record["backup_url"])), str(uuid4())
    carried = {**record, "backup_url": text_of({**fields, "id": other})}
    answer = admin.post(f"{BACKUPS}/import_record", {"backup-record": carried})
    assert (answer.status_code, answer.json()["backup"]["id"]) == (201, other)
    ana.delete(f"{BACKUPS}/{uuid}")
    assert backup_store.is_whole(uuid)
    restored = admin.post(f"{BACKUPS}/{other}/restore", {"restore": {}}).json()["restore"]["volume_id"]
    settled()
    assert read(restored, FAR) == FIRST
    admin.delete(f"{BACKUPS}/{other}")
    assert not backup_store.folder_of(uuid).exists()


def text_of(fields: Any) -> str:
    return base64.b64encode(json.dumps(fields).encode()).decode()


UNKNOWN_UUID = "5f1c0a6e-0000-4000-8000-000000000001"
WRONG: tuple[tuple[str, Any], ...] = (
    ("id", "../../etc"),
    ("data_id", "../../etc"),
    ("data_id", UNKNOWN_UUID),
    ("parent_id", UNKNOWN_UUID),
    ("size", -1),
    ("size", "1"),
    ("object_count", None),
    ("metadata", []),
    ("name", 7),
    ("data_timestamp", "once"),
    ("data_timestamp", "0001-01-01T00:00:00+23:00"),
)


def test_a_wrong_record_is_refused_by_name(ana: Any, source: str, api_client: Any) -> None:
    uuid, admin = backed_up(ana, source), api_client("admin")
    record = admin.get(f"{BACKUPS}/{uuid}/export_record").json()["backup-record"]
    fields = {**json.loads(base64.b64decode(record["backup_url"])), "id": str(uuid4())}
    requested = [{**record, "backup_url": text_of({**fields, name: value})} for name, value in WRONG]
    requested += [{**record, "backup_url": "no record"}, {**record, "backup_service": "another"}]
    words = [*(name for name, _ in WRONG), "an export gave", "backup service"]
    for body, word in zip(requested, words, strict=True):
        answer = admin.post(f"{BACKUPS}/import_record", {"backup-record": body})
        assert answer.status_code == 400
        assert word in answer.json()["badRequest"]["message"].lower()
    assert Backup.objects.count() == 1


def test_what_cannot_be_is_refused_by_name(ana: Any, source: str) -> None:
    there = {"volume_id": source}
    for values, word in (
        ({}, "volume_id"),
        ({"volume_id": "data"}, "volume_id"),
        ({**there, "colour": "blue"}, "colour"),
        ({**there, "incremental": "maybe"}, "incremental"),
        ({**there, "availability_zone": "mars"}, "mars"),
        ({**there, "name": "x" * 256}, "name"),
    ):
        answer = ana.post(BACKUPS, {"backup": values}, headers=NEWEST)
        assert answer.status_code == 400
        assert word in answer.json()["badRequest"]["message"]
    assert not Backup.objects.exists()


def test_operators_say_what_a_stuck_backup_is(ana: Any, source: str, api_client: Any) -> None:
    uuid, admin = backed_up(ana, source), api_client("admin")
    path = f"{BACKUPS}/{uuid}"
    assert act(ana, path, "os-reset_status", {"status": "error"}) == 403
    assert act(admin, path, "os-reset_status", {"status": "lost"}) == 400
    assert act(admin, path, "os-reset_status", {"status": "error"}) == 202
    assert ana.post(f"{path}/restore", {"restore": {}}).status_code == 400
    assert act(admin, path, "os-reset_status", {"status": "available"}) == 202
    assert ana.put(path, {"backup": {"name": "new"}}, headers=at("3.9")).json()["backup"]["name"] == "new"
    assert ana.put(path, {"backup": {"name": "new"}}, headers=at("3.8")).status_code == 404
    assert ana.put(path, {"backup": {}}, headers=NEWEST).status_code == 400
    assert act(admin, path, "os-force_delete", {}) == 202
    assert not Backup.objects.exists()
