"""Staged, imported and deactivated images, parts of their data, the older patches, and catalogs of properties."""

from __future__ import annotations

from hashlib import sha512
from typing import Any

import pytest
from django.utils import timezone

from conductor.image.models import Definition, Image, ImageTask, Namespace
from conductor.image.tasks import KEPT
from tests.api.image.calls import BASE, DATA, OCTETS, create, patch, upload

OLD_PATCH = {"Content-Type": "application/openstack-images-v2.0-json-patch"}
DIRECT = {"method": {"name": "glance-direct"}}
SPACES = "/image/v2/metadefs/namespaces"


def stage(client: Any, image_id: str) -> Any:
    return client.put(f"{BASE}/{image_id}/stage", DATA, headers=OCTETS)


def body_of(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)


def test_staged_data_become_the_images_by_an_import(api_client: Any) -> None:
    ana = api_client("ana")
    image_id = create(ana)["id"]
    path = f"{BASE}/{image_id}"
    assert ana.post(f"{path}/import", DIRECT).status_code == 409
    assert stage(ana, image_id).status_code == 204
    assert ana.get(path).json()["status"] == "uploading"
    assert ana.get(f"{path}/file").status_code == 204  # not the image's yet
    assert stage(ana, image_id).status_code == 409
    assert upload(ana, image_id).status_code == 409
    assert ana.post(f"{path}/import", {"method": {"name": "web-download"}}).status_code == 400
    assert ana.get(path).json()["status"] == "uploading"
    accepted = ana.post(f"{path}/import", DIRECT)
    assert accepted.status_code == 202
    shown = ana.get(path).json()
    assert (shown["status"], shown["size"]) == ("active", len(DATA))
    assert shown["os_hash_value"] == sha512(DATA).hexdigest()
    assert body_of(ana.get(f"{path}/file")) == DATA
    assert ana.post(f"{path}/import", DIRECT).status_code == 409
    (task,) = ana.get(f"{path}/tasks").json()["tasks"]
    assert (task["status"], task["request_id"]) == ("success", accepted.headers["x-openstack-request-id"])
    assert task["input"] == {"image_id": image_id, "import_req": DIRECT}
    admin = api_client("admin")
    assert patch(admin, image_id, {"op": "replace", "path": "/visibility", "value": "public"}).status_code == 200
    # the caller sees the image, but not its tasks
    assert api_client("chi").get(f"{path}/tasks").json() == {"tasks": []}
    assert admin.get("/image/v2/tasks?limit=1").json()["tasks"][0]["id"] == task["id"]
    assert admin.get(f"/image/v2/tasks/{task['id']}").json() == task
    assert admin.get("/image/v2/tasks?marker=none").status_code == 404
    ImageTask.objects.update(created_at=timezone.now() - KEPT)
    assert ana.get(f"{path}/tasks").json() == {"tasks": []}


def test_a_deactivated_image_is_read_by_administrators_alone(api_client: Any) -> None:
    ana = api_client("ana")
    path = f"{BASE}/{create(ana)['id']}"
    assert ana.post(f"{path}/actions/deactivate").status_code == 403  # it has no data
    upload(ana, path.rpartition("/")[2])
    assert api_client("rea").post(f"{path}/actions/deactivate").status_code == 403
    assert ana.post(f"{path}/actions/deactivate").status_code == 204
    assert ana.get(path).json()["status"] == "deactivated"
    assert ana.get(f"{path}/file").status_code == 403
    assert body_of(api_client("admin").get(f"{path}/file")) == DATA
    assert ana.post(f"{path}/actions/reactivate").status_code == 204
    assert body_of(ana.get(f"{path}/file")) == DATA


@pytest.mark.parametrize(
    ("wanted", "status", "part"),
    [
        ("bytes=0-9", 206, DATA[:10]),
        ("bytes=10-", 206, DATA[10:]),
        ("bytes=-5", 206, DATA[-5:]),
        ("bytes=5-99999999", 206, DATA[5:]),
        (f"bytes={len(DATA)}-", 416, None),
        ("bytes=9-3", 416, None),
        ("lines=1-2", 416, None),
    ],
)
def test_parts_of_the_data(wanted: str, status: int, part: bytes | None, api_client: Any) -> None:
    ana = api_client("ana")
    image_id = create(ana)["id"]
    upload(ana, image_id)
    answer = ana.get(f"{BASE}/{image_id}/file", headers={"Range": wanted})
    assert answer.status_code == status
    if part is None:
        assert answer["Content-Range"] == f"bytes */{len(DATA)}"
        return
    assert body_of(answer) == part
    assert answer["Content-Length"] == str(len(part))
    assert "Content-MD5" not in answer  # that is of the whole


def test_the_older_patches_and_reserved_names(api_client: Any) -> None:
    ana = api_client("ana")
    path = f"{BASE}/{create(ana)['id']}"
    changed = ana.patch(
        path, [{"replace": "/name", "value": "new"}, {"add": "/colour", "value": "blue"}], headers=OLD_PATCH
    )
    assert (changed.status_code, changed.json()["name"], changed.json()["colour"]) == (200, "new", "blue")
    for wrong, status in (
        ([{"value": "x"}], 400),
        ([{"add": "/a", "remove": "/b"}], 400),
        ([{"add": "/os_glance_x", "value": "y"}], 403),
        ([{"replace": "/missing", "value": "y"}], 409),
    ):
        assert ana.patch(path, wrong, headers=OLD_PATCH).status_code == status
    assert ana.post(BASE, {"name": "x", "os_glance_foo": "bar"}).status_code == 403
    assert Image.objects.count() == 1
    assert ana.get(path).json()["name"] == "new"


def test_catalogs_of_properties(api_client: Any) -> None:
    ana, admin = api_client("ana"), api_client("admin")
    wanted = {
        "namespace": "OS::Shop",
        "visibility": "public",
        "protected": True,
        "resource_type_associations": [{"name": "OS::Glance::Image"}],
        "properties": {"colour": {"title": "Colour", "type": "string", "enum": ["red", "blue"]}},
    }
    assert ana.post(SPACES, wanted).status_code == 403
    assert admin.post(SPACES, wanted).status_code == 201
    assert admin.post(SPACES, wanted).status_code == 409
    assert [row["namespace"] for row in ana.get(SPACES).json()["namespaces"]] == ["OS::Shop"]
    path = f"{SPACES}/OS::Shop"
    assert ana.get(path).json()["properties"]["colour"]["enum"] == ["red", "blue"]
    assert admin.post(f"{path}/objects", {"name": "box", "colour": 1}).status_code == 400
    assert admin.post(f"{path}/objects", {"name": "box"}).status_code == 201
    assert admin.post(f"{path}/objects", {"name": "box"}).status_code == 409
    assert admin.put(f"{path}/objects/box", {"name": "crate"}).json()["name"] == "crate"
    assert ana.get(f"{path}/objects/box").status_code == 404
    assert admin.post(f"{path}/tags", {"tags": [{"name": "a"}, {"name": "b"}]}).status_code == 201
    assert admin.post(f"{path}/tags/c").status_code == 201
    assert [tag["name"] for tag in ana.get(f"{path}/tags").json()["tags"]] == ["a", "b", "c"]
    assert admin.delete(path).status_code == 403
    assert admin.delete(f"{path}/tags/a").status_code == 403
    free = {"namespace": "OS::Shop", "visibility": "private", "protected": False}
    assert admin.put(path, free).json()["visibility"] == "private"
    assert ana.get(path).status_code == 404
    assert admin.delete(f"{path}/tags").status_code == 204
    assert admin.delete(path).status_code == 204
    assert not Namespace.objects.exists()
    assert not Definition.objects.exists()


@pytest.mark.parametrize("name", ["namespace", "objects", "property", "tags", "resource_types"])
def test_schemas_of_catalogs(name: str, api_client: Any) -> None:
    shown = api_client("ana").get(f"/image/v2/schemas/metadefs/{name}").json()
    assert shown["name"].rstrip("s").startswith(name.rstrip("s")[:8])
    assert shown["properties"]
