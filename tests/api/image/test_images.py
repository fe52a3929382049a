"""The Image API, as clients use it: exact codes, bodies and what is left after a refusal."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from conductor.image.models import Image

BASE = "/image/v2/images"
PATCH = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
OCTETS = {"Content-Type": "application/octet-stream"}
DATA = b"sectors" * 1000
RAW = {"disk_format": "raw", "container_format": "bare"}


def create(client: Any, **values: Any) -> dict[str, Any]:
    answer = client.post(BASE, {"name": "boots", **RAW, **values})
    assert answer.status_code == 201, answer.content
    body: dict[str, Any] = answer.json()
    return body


def upload(client: Any, image_id: str, data: bytes = DATA) -> Any:
    return client.put(f"{BASE}/{image_id}/file", data, headers=OCTETS)


def patch(client: Any, image_id: str, *operations: Any) -> Any:
    return client.patch(f"{BASE}/{image_id}", list(operations), headers=PATCH)


def names(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [image["name"] for image in answer.json()["images"]]


def on_disk() -> set[str]:
    directory = Path(settings.NOVELLA_DATA) / "images"
    return {path.name for path in directory.iterdir()} if directory.exists() else set()


@pytest.fixture(autouse=True)
def empty_store() -> None:
    for name in on_disk():
        (Path(settings.NOVELLA_DATA) / "images" / name).unlink()


def test_discovery_needs_no_token(api_client: Any) -> None:
    for path, status in (("/image", 300), ("/image/", 300), ("/image/versions", 200)):
        answer = api_client(None).get(path)
        assert answer.status_code == status
        versions = answer.json()["versions"]
        assert versions[0] == {
            "id": "v2.7",
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
    assert shown["status"] == "active"
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


def test_larger_than_memory_limit_is_no_limit(api_client: Any) -> None:
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


@pytest.mark.parametrize("image_id", ["no-uuid", str(uuid4()), "%00", "7"])
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


def test_projects_are_walls(api_client: Any) -> None:
    ana, bo, chi, admin = (api_client(name) for name in ("ana", "bo", "chi", "admin"))
    image_id = create(ana, name="secret", visibility="private")["id"]
    upload(ana, image_id)
    assert names(bo.get(BASE)) == ["secret"]
    assert names(admin.get(BASE)) == ["secret"]
    assert names(chi.get(BASE)) == []
    assert chi.get(f"{BASE}/{image_id}").status_code == 404
    assert chi.get(f"{BASE}/{image_id}/file").status_code == 404
    assert chi.delete(f"{BASE}/{image_id}").status_code == 404
    assert chi.get(f"{BASE}?marker={image_id}").status_code == 400
    assert Image.objects.get().status == "active"


def test_public_images_are_seen_but_not_changed(api_client: Any) -> None:
    image_id = create(api_client("admin"), visibility="public")["id"]
    chi = api_client("chi")
    assert names(chi.get(BASE)) == ["boots"]
    assert patch(chi, image_id, {"op": "replace", "path": "/name", "value": "mine"}).status_code == 403
    assert chi.delete(f"{BASE}/{image_id}").status_code == 403
    assert chi.put(f"{BASE}/{image_id}/tags/x").status_code == 403
    assert upload(chi, image_id).status_code == 403
    row = Image.objects.get()
    assert (row.name, row.tags, row.status) == ("boots", [], "queued")


def test_community_images_are_found_when_asked_for(api_client: Any) -> None:
    image_id = create(api_client("ana"), visibility="community")["id"]
    chi = api_client("chi")
    assert names(chi.get(BASE)) == []
    assert names(chi.get(f"{BASE}?visibility=community")) == ["boots"]
    assert chi.get(f"{BASE}/{image_id}").status_code == 200
    assert names(api_client("bo").get(BASE)) == ["boots"]


def test_shared_images_show_when_accepted(api_client: Any, people: Any) -> None:
    ana, chi = api_client("ana"), api_client("chi")
    image_id = create(ana)["id"]
    lab = people.chi.project.id
    members = f"{BASE}/{image_id}/members"
    assert chi.get(f"{BASE}/{image_id}").status_code == 404
    assert ana.post(members, {"member": lab}).status_code == 200
    assert ana.post(members, {"member": lab}).status_code == 409
    assert chi.get(f"{BASE}/{image_id}").status_code == 200
    assert names(chi.get(BASE)) == []
    assert names(chi.get(f"{BASE}?member_status=pending&visibility=shared")) == ["boots"]
    assert ana.put(f"{members}/{lab}", {"status": "accepted"}).status_code == 403
    answer = chi.put(f"{members}/{lab}", {"status": "accepted"})
    assert (answer.status_code, answer.json()["status"]) == (200, "accepted")
    assert names(chi.get(BASE)) == ["boots"]
    assert [member["member_id"] for member in ana.get(members).json()["members"]] == [lab]
    assert ana.delete(f"{members}/{lab}").status_code == 204
    assert chi.get(f"{BASE}/{image_id}").status_code == 404


def test_filters(api_client: Any) -> None:
    ana = api_client("ana")
    first = create(ana, name="one", tags=["a", "b"], image_type="snapshot")["id"]
    second = create(ana, name="two, three", tags=["a"], disk_format="qcow2", min_ram=5)["id"]
    hidden = create(ana, name="old", os_hidden=True)["id"]
    upload(ana, first)
    cases = {
        "": {"one", "two, three"},
        "name=one": {"one"},
        'name=in:one,"two, three"': {"one", "two, three"},
        "name=on": set(),
        f"id=in:{first},{second}": {"one", "two, three"},
        f"id={first}": {"one"},
        "id=no-uuid": set(),
        "status=active": {"one"},
        "status=in:active,queued": {"one", "two, three"},
        "disk_format=qcow2": {"two, three"},
        "tag=a": {"one", "two, three"},
        "tag=a&tag=b": {"one"},
        "os_hidden=True": {"old"},
        "image_type=snapshot": {"one"},
        "protected=True": set(),
        "size_min=1": {"one"},
        "visibility=private": set(),
        "visibility=shared": {"one", "two, three"},
        "deleted=False&is_public=None&changes-since=x": {"one", "two, three"},
    }
    for query, expected in cases.items():
        assert set(names(ana.get(f"{BASE}?{query}"))) == expected, query
    assert ana.get(f"{BASE}/{hidden}").status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        "limit=-1",
        "limit=x",
        "marker=no-uuid",
        f"marker={uuid4()}",
        "sort_key=secret",
        "sort=name:up",
        "sort=name&sort_key=name",
        "sort_key=name&sort_dir=asc&sort_dir=desc",
        "visibility=secret",
        "member_status=perhaps",
        "os_hidden=perhaps",
        "size_min=x",
        'name=in:"x',
    ],
)
def test_wrong_queries_are_400(api_client: Any, query: str) -> None:
    assert api_client("ana").get(f"{BASE}?{query}").status_code == 400


@pytest.mark.parametrize("sort", ["", "&sort=name:asc", "&sort=size:desc,name:asc", "&sort_key=size&sort_dir=asc"])
def test_a_walk_meets_every_image_once(api_client: Any, sort: str) -> None:
    ana = api_client("ana")
    for number in range(7):
        image_id = create(ana, name=f"n{number % 3}")["id"]
        if number % 2:
            upload(ana, image_id, b"x" * number)
    whole = [image["id"] for image in ana.get(f"{BASE}?limit=100{sort}").json()["images"]]
    assert len(set(whole)) == 7
    seen, path = [], f"/v2/images?limit=2&status=in:active,queued{sort}"
    while path:
        body = ana.get(f"/image{path}").json()
        assert body["first"].startswith("/v2/images?limit=2&status=")
        seen += [image["id"] for image in body["images"]]
        path = body.get("next", "")
        assert path == "" or path.startswith("/v2/images?")
    assert seen == whole


def test_a_walk_goes_on_when_its_marker_left_the_filter(api_client: Any) -> None:
    ana = api_client("ana")
    ids = [create(ana)["id"] for _ in range(3)]
    upload(ana, ids[2])
    body = ana.get(f"{BASE}?status=queued&marker={ids[2]}").json()
    assert [image["id"] for image in body["images"]] == [ids[1], ids[0]]


def test_lists_cost_the_same_for_many(api_client: Any, django_assert_max_num_queries: Any) -> None:
    ana = api_client("ana")
    for _ in range(12):
        create(ana)
    with django_assert_max_num_queries(4):
        assert len(names(ana.get(BASE))) == 12


def test_tags(api_client: Any) -> None:
    ana = api_client("ana")
    image_id = create(ana)["id"]
    for _ in range(2):
        assert ana.put(f"{BASE}/{image_id}/tags/green").status_code == 204
    assert Image.objects.get().tags == ["green"]
    assert ana.delete(f"{BASE}/{image_id}/tags/green").status_code == 204
    assert ana.delete(f"{BASE}/{image_id}/tags/green").status_code == 404
    assert Image.objects.get().tags == []


def test_what_clients_ask_beside(api_client: Any) -> None:
    ana = api_client("ana")
    image_id = create(ana)["id"]
    assert ana.get(f"{BASE}/{image_id}/tasks").json() == {"tasks": []}
    assert ana.get("/image/v2/info/import").json()["import-methods"]["value"] == []
    assert ana.get("/image/v2/schemas/image").json()["name"] == "image"
    assert ana.get("/image/v2/schemas/nothing").status_code == 404
    assert ana.get("/image/v2/nothing").status_code == 404
