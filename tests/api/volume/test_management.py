"""Files of the storage that become volumes and snapshots, and volumes that become files again."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conductor.volume import operations, store, unmanaged_files
from conductor.volume.models import Snapshot, Volume
from tests.fixtures.volume_requests import NEWEST, ROOT, VOLUME, act, at, made, settled, volume

HOST = "novella@files#files"
MANAGE = f"{ROOT}/os-volume-manage"
DATA = b"what was there before"


@pytest.fixture(autouse=True)
def storage(settings: Any, tmp_path: Path) -> None:
    settings.NOVELLA_DATA = tmp_path


@pytest.fixture
def admin(api_client: Any) -> Any:
    return api_client("admin")


def put_file(name: str, folder: str = "volumes", data: bytes = DATA) -> Path:
    path = store.path_of(name).parent.parent / folder / f"{name}.raw"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def beginning(uuid: str) -> bytes:
    with store.path_of(uuid).open("rb") as file:
        return file.read(len(DATA))


def manage(client: Any, file: str, path: str = MANAGE, **values: Any) -> Any:
    requested = {"host": HOST, "ref": {"source-name": file}, **values}
    return client.post(path, {"volume": requested}, headers=at("3.8"))


def listed(client: Any, noun: str, version: str = "3.8", query: str = "") -> Any:
    answer = client.get(f"{ROOT}/{noun}/detail?host={HOST.replace('#', '%23')}{query}", headers=at(version))
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_a_file_becomes_a_volume_and_a_file_again(admin: Any) -> None:
    file = put_file("brought")
    (found,) = listed(admin, "manageable_volumes")["manageable-volumes"]
    assert found == {
        "reference": {"source-name": "brought"},
        "size": 1,
        "safe_to_manage": True,
        "reason_not_safe": None,
        "cinder_id": None,
        "extra_info": None,
    }
    answer = manage(admin, "brought", name="mine", bootable=True, metadata={"a": "b"})
    assert answer.status_code == 202, answer.content
    made_of = answer.json()["volume"]["id"]
    shown = admin.get(f"{VOLUME}/{made_of}").json()["volume"]
    assert (shown["status"], shown["size"], shown["bootable"]) == ("available", 1, "true")
    assert not file.exists()
    assert beginning(made_of) == DATA
    assert store.path_of(made_of).stat().st_size == store.GIB
    (owned,) = listed(admin, "os-volume-manage", "3.0")["manageable-volumes"]
    assert (owned["safe_to_manage"], owned["cinder_id"]) == (False, made_of)
    assert manage(admin, made_of).status_code == 409
    assert act(admin, f"{VOLUME}/{made_of}", "os-unmanage", {}) == 202
    assert admin.get(f"{VOLUME}/{made_of}").status_code == 404
    again = manage(admin, f"volume-{made_of}", f"{ROOT}/manageable_volumes")
    assert again.status_code == 202
    assert beginning(again.json()["volume"]["id"]) == DATA


def test_a_snapshot_is_unmanaged_and_managed_again(admin: Any) -> None:
    source = volume(admin)
    uuid = made(admin, "snapshots", "snapshot", {"volume_id": source})["id"]
    settled()
    (file,) = listed(admin, "manageable_snapshots")["manageable-snapshots"]
    assert (file["cinder_id"], file["source_reference"]) == (uuid, {"source-name": source})
    assert act(admin, f"{VOLUME}/{source}", "os-unmanage", {}) == 400
    assert act(admin, f"{ROOT}/snapshots/{uuid}", "os-unmanage", {}) == 202
    assert not Snapshot.objects.exists()
    requested = {
        "volume_id": source,
        "ref": {"source-name": f"_snapshot-{uuid}"},
        "name": "back",
        "metadata": {"a": "b"},
    }
    answer = admin.post(f"{ROOT}/os-snapshot-manage", {"snapshot": requested})
    assert answer.status_code == 202, answer.content
    row = Snapshot.objects.get()
    assert (str(row.uuid), row.status, row.name) == (answer.json()["snapshot"]["id"], "available", "back")
    assert store.snapshot_path_of(row.uuid).exists()
    put_file("large", "snapshots")
    with store.snapshot_path_of("large").open("r+b") as larger:
        larger.truncate(2 * store.GIB)
    requested["ref"] = {"source-name": "large"}
    assert admin.post(f"{ROOT}/os-snapshot-manage", {"snapshot": requested}).status_code == 400
    assert Snapshot.objects.count() == 1


def test_files_that_cannot_be_managed_are_unchanged(admin: Any, api_client: Any, people: Any) -> None:
    file = put_file("brought")
    for values, status in (
        ({"host": "elsewhere@files"}, 400),
        ({"host": None}, 400),
        ({"ref": {"source-id": "brought"}}, 400),
        ({"ref": {"source-name": "../volumes/brought"}}, 400),
        ({"ref": {"source-name": 7}}, 400),
        ({"ref": {"source-name": "lost"}}, 404),
        ({"volume_type": "fast"}, 404),
        ({"availability_zone": "mars"}, 400),
        ({"colour": "blue"}, 400),
    ):
        answer = manage(admin, "brought", **values)
        assert answer.status_code == status, (values, answer.content)
    admin.put(f"{ROOT}/os-quota-sets/{people.admin.project.id}", {"quota_set": {"gigabytes": 0}})
    assert manage(admin, "brought").status_code == 413
    assert manage(api_client("ana"), "brought").status_code == 403
    assert file.read_bytes() == DATA
    assert not Volume.objects.exists()
    assert admin.get(MANAGE).status_code == 400
    for noun in ("manageable_volumes", "manageable_snapshots"):
        assert admin.get(f"{ROOT}/{noun}?host={HOST}", headers=at("3.7")).status_code == 404
        assert admin.post(f"{ROOT}/{noun}", {}, headers=at("3.7")).status_code == 404


def test_a_file_keeps_its_name_when_managing_it_fails(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put_file("brought")

    def fails(*args: Any) -> bool:
        raise OSError("no")

    with monkeypatch.context() as broken:
        broken.setattr("conductor.services.volumes.management.operations.turn", fails)
        assert manage(admin, "brought").status_code == 500
    assert (file.stat().st_size, Volume.objects.count()) == (store.GIB, 0)
    assert manage(admin, "brought").status_code == 202


def test_an_interrupted_unmanage_is_finished(admin: Any) -> None:
    uuid = volume(admin)
    Volume.objects.update(status="unmanaging")
    unmanaged_files.let_go(unmanaged_files.VOLUME, Volume.objects.get().uuid)  # and there it died
    assert operations.settle_all() == 1
    assert not Volume.objects.exists()
    assert [one.name for one in unmanaged_files.found(unmanaged_files.VOLUME)] == [f"volume-{uuid}"]


def test_files_are_paged_and_sorted(admin: Any) -> None:
    for name in ("a", "b", "c"):
        put_file(name)
    first = listed(admin, "manageable_volumes", query="&limit=2&sort=reference:desc")
    assert [one["reference"]["source-name"] for one in first["manageable-volumes"]] == ["c", "b"]
    (link,) = first["manageable-volumes_links"]
    rest = admin.get(link["href"].partition("testserver")[2], headers=NEWEST).json()
    assert [one["reference"]["source-name"] for one in rest["manageable-volumes"]] == ["a"]
    unknown = admin.get(f"{MANAGE}?host=novella@files&marker={uuid4()}")
    assert unknown.status_code == 400
