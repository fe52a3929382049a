"""Every answer of every version has exactly the members in the table of fields, and the page lists these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from conductor.api_db.models import Aggregate
from conductor.cell_db.models import Instance, Migration
from conductor.db.transactions import database_now
from conductor.services.volumes import volumes
from conductor.services.volumes.volumes import VolumeCreate
from portal.api.compute import fields
from portal.api.compute.fields import ANSWERS
from portal.api.compute.microversions import VERSIONS
from portal.api.microversions import Microversion
from tests.api_client import ApiClient
from tests.architecture.tree import read
from tests.people import People

ROOT = "/compute/v2.1"
ALL = [Microversion(2, minor) for minor in range(VERSIONS.minimum.minor, VERSIONS.maximum.minor + 1)]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB5i6Sd4yHAbcfhVJnYFx+0C0jqwWqQmjwg0vSyVpdNP ana@laptop"
# Answer → where it is read, and the way to the thing in the body
READ: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "server": ("servers/{web}", lambda body: body["server"]),
    "server_in_list": ("servers/detail?name=^web$", lambda body: body["servers"][0]),
    "flavor": ("flavors/1", lambda body: body["flavor"]),
    "flavor_in_list": ("flavors", lambda body: body["flavors"][0]),
    "keypair": ("os-keypairs/laptop", lambda body: body["keypair"]),
    "keypair_in_list": ("os-keypairs", lambda body: body["keypairs"][0]["keypair"]),
    "server_group": ("os-server-groups", lambda body: body["server_groups"][0]),
    "hypervisor": ("os-hypervisors/detail", lambda body: body["hypervisors"][0]),
    "service": ("os-services", lambda body: body["services"][0]),
    "aggregate": ("os-aggregates", lambda body: body["aggregates"][0]),
    "migration": ("os-migrations", lambda body: body["migrations"][0]),
    "attachment": ("servers/{web}/os-volume_attachments", lambda body: body["volumeAttachments"][0]),
    "action": ("servers/{web}/os-instance-actions/{request}", lambda body: body["instanceAction"]),
    "action_in_list": ("servers/{web}/os-instance-actions", lambda body: body["instanceActions"][0]),
    "quota_set": ("os-quota-sets/{project}", lambda body: body["quota_set"]),
    "quota_class_set": ("os-quota-class-sets/default", lambda body: body["quota_class_set"]),
    "limits": ("limits", lambda body: body["limits"]["absolute"]),
}
SHOWN_DIFFERENTLY = ("server", "server_in_list", "action")  # by whether an administrator asks


@pytest.fixture
def scene(kept: dict[str, str], people: People, settings: Any, tmp_path: Path) -> dict[str, str]:
    """One resource of each kind; admin's beside ana's where only the caller's own are shown."""
    settings.NOVELLA_DATA = tmp_path
    for person in (people.ana, people.admin):
        client = ApiClient(person.token())
        client.post(f"{ROOT}/os-keypairs", {"keypair": {"name": "laptop", "public_key": KEY}})
        client.post(f"{ROOT}/os-server-groups", {"server_group": {"name": "apart", "policies": ["affinity"]}})
    ana = ApiClient(people.ana.token())
    volume = volumes.create(people.ana.context(), VolumeCreate(size_gb=1, name="data"))
    Instance.objects.using("cell1").filter(uuid=kept["web"]).update(launched_at=database_now())
    attached = ana.post(
        f"{ROOT}/servers/{kept['web']}/os-volume_attachments", {"volumeAttachment": {"volumeId": str(volume.uuid)}}
    )
    assert attached.status_code == 200, attached.content
    now = database_now()
    Aggregate.objects.create(name="fast", created_at=now)
    ends = {"source_host": "sim-1-01", "destination_host": "sim-1-02", "created_at": now, "updated_at": now}
    Migration.objects.using("cell1").create(
        instance_uuid=kept["web"],
        migration_type="migration",
        status="finished",
        project_id=people.ana.project.id,
        user_id=people.ana.user.id,
        **ends,
    )
    return {**kept, "request": attached.headers["x-openstack-request-id"]}


def test_every_answer_has_the_members_of_its_version(scene: dict[str, str], people: People) -> None:
    wrong = []
    callers = {name: (ApiClient(people[name].token()), name == "admin") for name in ("ana", "admin")}
    for version in ALL:
        for name, (path, pick) in READ.items():
            for who, (client, is_admin) in callers.items():
                if not is_admin and name not in SHOWN_DIFFERENTLY:
                    continue
                everywhere = "&all_tenants=1" if is_admin and name == "server_in_list" else ""
                client.version = str(version)
                answer = client.get(f"{ROOT}/{path.format_map(scene)}{everywhere}")
                assert answer.status_code == 200, (name, version, who, answer.content)
                found, wanted = set(pick(answer.json())), ANSWERS[name].names(version, is_admin=is_admin)
                if found != wanted:
                    wrong.append(f"{name} at {version} for {who}: lacks {wanted - found}, has also {found - wanted}")
    assert wrong == [], f"{len(wrong)} wrong:\n" + "\n".join(wrong[:40])


def test_every_answer_of_the_table_is_read() -> None:
    assert READ.keys() == ANSWERS.keys()


def test_the_page_is_what_the_table_says() -> None:
    assert read(fields.PAGE) == fields.page(), "Run: make reference"
