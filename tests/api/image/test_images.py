"""The Image API, as clients use it: exact codes, bodies and what is left after a refusal."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from conductor.image.models import Image
from tests.api.image.calls import BASE, DATA, PATCH, RAW, create, on_disk, patch, upload


def test_discovery_needs_no_token(api_client: Any) -> None:
    for path, status in (("/image", 300), ("/image/", 300), ("/image/versions", 200)):
        answer = api_client(None).get(path)
        assert answer.status_code == status
        versions = answer.json()["versions"]
        assert versions[0] == {
            "id": "v2.17",
            "status": "CURRENT",
            "links": [{"rel": "self", "href": "http://testserver/image/v2/"}],
        }
        assert {version["status"] for version in versions[1:]} == {"SUPPORTED"}


def test_without_token_is_401(api_client: Any) -> None:
    answer = api_client(None).get(BASE)
    assert answer.status_code == 401
    assert answer.json()["code"] == 401


def test_create_answers_the_whole_image(api_client: Any, people: Any) -> None:
    answer = api_client("ana").post(
        BASE, {"name": "boots", **RAW, "min_ram": 96, "tags": ["b", "a"], "hw_architecture": "x86_64"}
    )
    assert answer.status_code == 201
    body = answer.json()
    assert answer["Location"] == f"http://testserver{BASE}/{body['id']}"
    assert answer["OpenStack-image-import-methods"] == "glance-direct"  # clients import only where they read this
    assert answer["OpenStack-image-store-ids"] == "files"
    created = body.pop("created_at")
    assert body.pop("updated_at") == created
    assert created.endswith("Z")
    path = f"/v2/images/{body['id']}"
    assert body == {
        "id": body["id"],
        "name": "boots",
        "status": "queued",
        "visibility": "shared",
        "owner": people.ana.project.id,
        "size": None,
        "virtual_size": None,
        "disk_format": "raw",
        "container_format": "bare",
        "min_disk": 0,
        "min_ram": 96,
        "checksum": None,
        "os_hash_algo": None,
        "os_hash_value": None,
        "os_hidden": False,
        "protected": False,
        "tags": ["a", "b"],
        "hw_architecture": "x86_64",
        "self": path,
        "file": f"{path}/file",
        "schema": "/v2/schemas/image",
    }


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"name": 7}, 400, "name"),
        ({"name": "x" * 256}, 400, "name"),
        ({"disk_format": "floppy"}, 400, "disk_format"),
        ({"min_ram": -1}, 400, "min_ram"),
        ({"min_disk": 2**31}, 400, "min_disk"),
        ({"visibility": "secret"}, 400, "visibility"),
        ({"protected": "yes"}, 400, "protected"),
        ({"tags": ["x" * 256]}, 400, "tags"),
        ({"id": "seven"}, 400, "id"),
        ({"color": 7}, 400, "color"),
        ({f"p{number}": "" for number in range(129)}, 400, "128 properties"),
        ({"status": "active"}, 403, "read-only"),
        ({"size": 5}, 403, "read-only"),
        ({"visibility": "public"}, 403, "public"),
        ({"owner": "f" * 32}, 403, "owner"),
        ([], 400, "object"),
        (b"", 400, "Body expected"),
    ],
)
def test_wrong_bodies_make_nothing(api_client: Any, body: Any, status: int, word: str) -> None:
    answer = api_client("ana").post(BASE, body)
    assert answer.status_code == status
    assert word in answer.json()["message"]
    assert Image.objects.count() == 0


def test_readers_only_read(api_client: Any) -> None:
    image_id = create(api_client("ana"))["id"]
    reader = api_client("rea")
    assert reader.get(f"{BASE}/{image_id}").status_code == 200
    assert reader.post(BASE, {"name": "x"}).status_code == 403
    assert reader.delete(f"{BASE}/{image_id}").status_code == 403
    assert upload(reader, image_id).status_code == 403
    assert Image.objects.get().status == "queued"
    assert on_disk() == set()


def test_an_id_is_taken_once(api_client: Any) -> None:
    wanted = str(uuid4())
    assert create(api_client("ana"), id=wanted)["id"] == wanted
    assert api_client("chi").post(BASE, {"id": wanted}).status_code == 409
    assert Image.objects.count() == 1


def test_upload_and_download(api_client: Any) -> None:
    ana = api_client("ana")
    image_id = create(ana)["id"]
    assert ana.get(f"{BASE}/{image_id}/file").status_code == 204
    answer = upload(ana, image_id)
    assert (answer.status_code, answer.content) == (204, b"")
    shown = ana.get(f"{BASE}/{image_id}").json()
    assert (shown["status"], shown["stores"]) == ("active", "files")
    assert shown["size"] == len(DATA)
    assert shown["checksum"] == hashlib.md5(DATA).hexdigest()
    assert (shown["os_hash_algo"], shown["os_hash_value"]) == ("sha512", hashlib.sha512(DATA).hexdigest())
    answer = ana.get(f"{BASE}/{image_id}/file")
    assert answer.status_code == 200
    assert b"".join(answer.streaming_content) == DATA
    assert answer["Content-MD5"] == shown["checksum"]
    assert answer["Content-Length"] == str(len(DATA))
    assert answer["Content-Type"] == "application/octet-stream"
    assert on_disk() == {image_id}


def test_data_are_uploaded_once(api_client: Any) -> None:
    ana = api_client("ana")
    image_id = create(ana)["id"]
    upload(ana, image_id)
    assert upload(ana, image_id, b"other").status_code == 409
    assert Image.objects.get().checksum == hashlib.md5(DATA).hexdigest()
    assert on_disk() == {image_id}


def test_upload_needs_formats_and_octets(api_client: Any) -> None:
    ana = api_client("ana")
    image_id = ana.post(BASE, {"name": "formless"}).json()["id"]
    assert upload(ana, image_id).status_code == 400
    assert ana.put(f"{BASE}/{image_id}/file", {"data": 1}).status_code == 415
    assert Image.objects.get().status == "queued"
    assert on_disk() == set()


def test_an_image_may_be_larger_than_the_memory_limit_of_bodies(api_client: Any) -> None:
    ana = api_client("ana")
    image_id = create(ana)["id"]
    data = bytes(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
    assert upload(ana, image_id, data).status_code == 204
    assert Image.objects.get().size == len(data)


def test_patch_changes_all_or_nothing(api_client: Any) -> None:
    ana = api_client("ana")
    image_id = create(ana, color="red")["id"]
    answer = patch(
        ana,
        image_id,
        {"op": "replace", "path": "/name", "value": "shoes"},
        {"op": "add", "path": "/a~1b", "value": "slash"},
        {"op": "replace", "path": "/color", "value": "blue"},
        {"op": "replace", "path": "/tags", "value": ["x"]},
    )
    assert answer.status_code == 200
    body = answer.json()
    assert (body["name"], body["a/b"], body["color"], body["tags"]) == ("shoes", "slash", "blue", ["x"])
    answer = patch(ana, image_id, {"op": "remove", "path": "/color"}, {"op": "replace", "path": "/size2", "value": "x"})
    assert answer.status_code == 409
    assert ana.get(f"{BASE}/{image_id}").json()["color"] == "blue"


@pytest.mark.parametrize(
    ("operation", "status"),
    [
        ({"op": "replace", "path": "/missing", "value": "x"}, 409),
        ({"op": "remove", "path": "/missing"}, 409),
        ({"op": "remove", "path": "/name"}, 403),
        ({"op": "replace", "path": "/status", "value": "active"}, 403),
        ({"op": "replace", "path": "/id", "value": "x"}, 403),
        ({"op": "replace", "path": "/visibility", "value": "public"}, 403),
        ({"op": "replace", "path": "/disk_format", "value": "qcow2"}, 403),
        ({"op": "add", "path": "/color", "value": 7}, 400),
        ({"op": "add", "path": "/color"}, 400),
        ({"op": "copy", "path": "/color", "value": "x"}, 400),
        ({"op": "add", "path": "color", "value": "x"}, 400),
        ({"op": "replace", "path": "/min_ram", "value": "96"}, 400),
    ],
)
def test_wrong_patches_change_nothing(api_client: Any, operation: Any, status: int) -> None:
    ana = api_client("ana")
    image_id = create(ana)["id"]
    upload(ana, image_id)
    before = ana.get(f"{BASE}/{image_id}").json()
    assert patch(ana, image_id, operation).status_code == status
    assert ana.get(f"{BASE}/{image_id}").json() == before


def test_patch_has_its_media_type(api_client: Any) -> None:
    ana = api_client("ana")
    image_id = create(ana)["id"]
    assert ana.patch(f"{BASE}/{image_id}", []).status_code == 415
    assert ana.patch(f"{BASE}/{image_id}", {}, headers=PATCH).status_code == 400


def test_delete(api_client: Any) -> None:
    ana = api_client("ana")
    image_id = create(ana, protected=True)["id"]
    upload(ana, image_id)
    assert ana.delete(f"{BASE}/{image_id}").status_code == 403
    assert on_disk() == {image_id}
    patch(ana, image_id, {"op": "replace", "path": "/protected", "value": False})
    answer = ana.delete(f"{BASE}/{image_id}")
    assert (answer.status_code, answer.content) == (204, b"")
    for path in (f"{BASE}/{image_id}", f"{BASE}/{image_id}/file"):
        assert ana.get(path).status_code == 404
    assert ana.delete(f"{BASE}/{image_id}").status_code == 404
    assert on_disk() == set()


def test_a_kernel_in_use_stays(api_client: Any) -> None:
    ana = api_client("ana")
    kernel = create(ana, disk_format="aki", container_format="aki")["id"]
    user = create(ana, kernel_id=kernel)["id"]
    assert ana.delete(f"{BASE}/{kernel}").status_code == 409
    assert ana.get(f"{BASE}/{kernel}").status_code == 200
    assert ana.delete(f"{BASE}/{user}").status_code == 204
    assert ana.delete(f"{BASE}/{kernel}").status_code == 204


@pytest.mark.parametrize("image_id", ["no-uuid", "00000000-0000-4000-8000-000000000000", "%00", "7"])
def test_unknown_images_are_404(api_client: Any, image_id: str) -> None:
    ana = api_client("ana")
    for answer in (
        ana.get(f"{BASE}/{image_id}"),
        ana.delete(f"{BASE}/{image_id}"),
        ana.get(f"{BASE}/{image_id}/file"),
        upload(ana, image_id),
        patch(ana, image_id),
        ana.get(f"{BASE}/{image_id}/members"),
    ):
        assert answer.status_code == 404
        assert answer["Content-Type"] == "application/json"


def test_tags(api_client: Any) -> None:
    ana = api_client("ana")
    image_id = create(ana)["id"]
    for _ in range(2):
        assert ana.put(f"{BASE}/{image_id}/tags/green").status_code == 204
    assert Image.objects.get().tags == ["green"]
    assert ana.delete(f"{BASE}/{image_id}/tags/green").status_code == 204
    assert ana.delete(f"{BASE}/{image_id}/tags/green").status_code == 404
    assert Image.objects.get().tags == []


def test_further_requests_of_clients(api_client: Any) -> None:
    ana = api_client("ana")
    image_id = create(ana)["id"]
    assert ana.get(f"{BASE}/{image_id}/tasks").json() == {"tasks": []}
    assert ana.get("/image/v2/info/import").json()["import-methods"]["value"] == ["glance-direct"]
    assert ana.get("/image/v2/schemas/image").json()["name"] == "image"
    assert ana.get("/image/v2/schemas/nothing").status_code == 404
    assert ana.get("/image/v2/nothing").status_code == 404
