"""Visibility of images, and filters, order and pages of their lists."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from conductor.image.models import Image
from tests.api.image.calls import BASE, create, names, patch, upload


def test_resources_of_other_projects_are_not_found(api_client: Any) -> None:
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


def test_community_images_are_found_when_requested(api_client: Any) -> None:
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
        "my_property=x": set(),
        "min_ram=5": {"two, three"},
        "min_disk=0&min_ram=0": {"one"},
        "os_hash_algo=sha512": {"one"},
        "os_hash_algo=md5": set(),
        "protected=True": set(),
        "size_min=1": {"one"},
        "visibility=private": set(),
        "visibility=shared": {"one", "two, three"},
        "deleted=False&is_public=None&changes-since=x": {"one", "two, three"},
    }
    for query, expected in cases.items():
        assert set(names(ana.get(f"{BASE}?{query}"))) == expected, query
    assert ana.get(f"{BASE}/{hidden}").status_code == 200


def test_images_are_found_by_their_times_as_they_are_shown(api_client: Any) -> None:
    ana = api_client("ana")
    create(ana, name="one")
    Image.objects.filter(name="one").update(
        created_at=datetime(2026, 1, 31, 12, 0, 0, 500000, UTC), updated_at=datetime(2026, 2, 28, 12, 0, 0, 1, UTC)
    )
    cases = {
        "created_at=lt:2001-01-01T00:00:00Z": [],
        "updated_at=gte:2099-01-01T00:00:00Z": [],
        "created_at=gt:2026-01-31T12:00:00Z": [],
        "created_at=gte:2026-01-31T12:00:00Z": ["one"],
        "created_at=eq:2026-01-31T12:00:00Z": ["one"],
        "created_at=2026-01-31T12:00:00Z": ["one"],
        "created_at=neq:2026-01-31T12:00:00Z": [],
        "created_at=neq:2026-01-31T12:00:01Z": ["one"],
        "created_at=lte:2026-01-31T13:00:00%2B01:00": ["one"],
        "created_at=lt:2026-01-31T12:00:00Z": [],
        "created_at=gt:2026-01-31&created_at=lt:2026-02-01": ["one"],
        "created_at=gt:2026-01-31&updated_at=lt:2026-02-01": [],
        "created_at=lte:9999-12-31T23:59:59.999999": ["one"],
    }
    for query, expected in cases.items():
        assert names(ana.get(f"{BASE}?{query}")) == expected, query


@pytest.mark.parametrize(
    "query",
    [
        "created_at=lt:yesterday",
        "updated_at=",
        "created_at=between:2026-01-31",
        "limit=-1",
        "limit=x",
        "marker=no-uuid",
        "marker=00000000-0000-4000-8000-000000000000",
        "sort_key=secret",
        "sort=name:up",
        "sort=name&sort_key=name",
        "sort_key=name&sort_dir=asc&sort_dir=desc",
        "visibility=secret",
        "member_status=perhaps",
        "os_hidden=perhaps",
        "size_min=x",
        "min_ram=x",
        'name=in:"x',
    ],
)
def test_wrong_queries_are_400(api_client: Any, query: str) -> None:
    assert api_client("ana").get(f"{BASE}?{query}").status_code == 400


@pytest.mark.parametrize("sort", ["", "&sort=name:asc", "&sort=size:desc,name:asc", "&sort_key=size&sort_dir=asc"])
def test_paging_returns_every_image_once(api_client: Any, sort: str) -> None:
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


def test_paging_continues_after_a_marker_that_does_not_match_the_filter(api_client: Any) -> None:
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
