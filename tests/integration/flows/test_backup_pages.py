"""Backups on pages: full and incremental ones, progress, restoring, deleting; unmanaged files become volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from conductor.journal.models import WorkflowRun
from conductor.volume import store
from conductor.volume.models import Backup, Volume
from tests.integration.flows.moving import run_to_the_end
from tests.integration.flows.storing import StorageHosts
from tests.integration.page_clients import signed_in, text

DATA = b"what ana wrote" * 1000


@pytest.fixture
def hosts(hosts: Any, settings: Any, tmp_path: Path) -> StorageHosts:
    settings.NOVELLA_DATA = tmp_path  # where volumes are
    return StorageHosts()


@pytest.fixture
def ana(hosts: StorageHosts, people: Any) -> Client:
    return signed_in("ana")


def volume_of(client: Client, name: str = "data") -> Volume:
    answer = client.post("/volumes/do/create", {"name": name, "size": "1"})
    assert answer.status_code == 302, text(answer)
    row = Volume.objects.get(name=name)
    with store.path_of(row.uuid).open("r+b") as file:
        file.write(DATA)
    return row


def backup_of(client: Client, volume: Volume, **values: str) -> Any:
    return client.post("/backups/do/create", {"volume_id": str(volume.uuid), "kind": "full", **values})


def test_a_backup_is_made_watched_and_put_back(ana: Client, hosts: StorageHosts) -> None:
    volume = volume_of(ana)
    assert backup_of(ana, volume, name="monday")["Location"] == f"/backups/of/{Backup.objects.get().uuid}"
    first, run = Backup.objects.get(), WorkflowRun.objects.get(flow="backup_volume")
    for path in (f"/backups/of/{first.uuid}", f"/volumes/of/{volume.uuid}"):
        page = text(ana.get(path))
        assert 'aria-label="In progress"' in page, "the workflow at work, with its step"
        assert f'href="/workflows/{run.uuid}"' in page
    assert "backing up" in text(ana.get(f"/volumes/of/{volume.uuid}"))
    run_to_the_end(hosts)
    page = text(ana.get(f"/backups/of/{first.uuid}"))
    assert "In progress" not in page
    assert "available" in page
    assert f'href="/volumes/of/{volume.uuid}"' in page
    assert "monday" in text(ana.get(f"/volumes/of/{volume.uuid}"))
    assert (
        ana.post("/backups/do/restore", {"item": str(first.uuid), "volume_id": "", "name": "again"}).status_code == 302
    )
    assert "restoring" in text(ana.get("/backups"))
    run_to_the_end(hosts)
    made = Volume.objects.get(name="again")
    with store.path_of(made.uuid).open("rb") as file:
        assert file.read(len(DATA)) == DATA


def test_a_backup_with_dependent_backups_is_not_deleted(ana: Client, hosts: StorageHosts) -> None:
    volume = volume_of(ana)
    refused = backup_of(ana, volume, kind="incremental")
    assert refused.status_code == 400
    assert "make a full one first" in text(refused)
    assert not Backup.objects.exists()
    backup_of(ana, volume, name="whole")
    run_to_the_end(hosts)
    backup_of(ana, volume, name="more", kind="incremental")
    run_to_the_end(hosts)
    whole, more = Backup.objects.get(name="whole"), Backup.objects.get(name="more")
    assert more.parent == whole
    page = text(ana.get("/backups"))
    assert "incremental" in page
    assert "full" in page
    assert "Later backups depend on it. Delete them first." in text(ana.get(f"/backups/of/{whole.uuid}"))
    page = text(ana.post("/backups/do/delete", {"item": [str(whole.uuid), str(more.uuid)]}))
    assert "1 completed, 1 refused" in page
    assert ana.post("/backups/do/delete", {"item": str(whole.uuid)})["Location"] == "/backups"
    assert not Backup.objects.exists()


def test_a_backup_outlives_its_volume(ana: Client, hosts: StorageHosts) -> None:
    volume = volume_of(ana)
    backup_of(ana, volume, name="kept")
    run_to_the_end(hosts)
    assert ana.post("/volumes/do/delete", {"item": str(volume.uuid)}).status_code == 302
    page = text(ana.get("/backups"))
    assert "kept" in page
    assert f"/volumes/of/{volume.uuid}" not in page, "it leads nowhere any more"
    assert signed_in("chi").get(f"/backups/of/{Backup.objects.get().uuid}").status_code == 404


def test_operators_unmanage_a_volume_and_manage_it_again(ana: Client, hosts: StorageHosts) -> None:
    admin = signed_in("admin")
    volume = volume_of(admin)
    assert ana.post("/volumes/do/unmanage", {"item": str(volume.uuid), "reason": "r"}).status_code in (403, 404)
    assert Volume.objects.filter(pk=volume.pk).exists()
    gone = admin.post("/volumes/do/unmanage", {"item": str(volume.uuid), "reason": "moves elsewhere"})
    assert gone.status_code == 302, text(gone)
    assert not Volume.objects.exists()
    form = text(admin.get("/volumes/do/manage"))
    assert str(volume.uuid) in form
    assert ana.get("/volumes/do/manage").status_code == 403
    taken = admin.post("/volumes/do/manage", {"ref": f"volume-{volume.uuid}", "name": "back"})
    assert taken.status_code == 302, text(taken)
    with store.path_of(Volume.objects.get(name="back").uuid).open("rb") as file:
        assert file.read(len(DATA)) == DATA
