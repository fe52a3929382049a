"""Behaviour that clients of the volume API expect: pages, private types, and detaching unattached volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from conductor.core.states import LIVE_RUN_STATES
from conductor.journal.models import WorkflowRun
from conductor.workflows.engine import executor

ROOT = "/volume/v3"
NEWEST = {"OpenStack-API-Version": "volume 3.67"}


@pytest.fixture
def volume(api_client: Any, settings: Any, tmp_path: Path) -> str:
    """An available one of ana's."""
    settings.NOVELLA_DATA = tmp_path
    made = api_client("ana").post(f"{ROOT}/volumes", {"volume": {"size": 1}}).json()["volume"]
    for run in WorkflowRun.objects.filter(state__in=LIVE_RUN_STATES):
        executor.run("default", run.uuid)
    return str(made["id"])


def test_a_full_page_links_to_the_next_one_even_if_that_is_empty(volume: str, api_client: Any) -> None:
    ana = api_client("ana")
    page = ana.get(f"{ROOT}/volumes?limit=1").json()
    assert [row["id"] for row in page["volumes"]] == [volume]
    following = page["volumes_links"][0]["href"].partition("testserver")[2]
    assert ana.get(following).json() == {"volumes": []}
    assert "volumes_links" not in ana.get(f"{ROOT}/volumes?limit=2").json()


def test_detaching_a_volume_without_an_attachment_is_accepted(volume: str, api_client: Any) -> None:
    ana = api_client("ana")
    path = f"{ROOT}/volumes/{volume}"
    assert ana.post(f"{path}/action", {"os-detach": {}}).status_code == 202
    assert ana.get(path).json()["volume"]["status"] == "available"
    unknown = {"os-detach": {"attachment_id": "99999999-9999-4999-8999-999999999999"}}
    assert ana.post(f"{path}/action", unknown).status_code == 400


def test_a_post_to_a_detailed_list_creates_nothing(volume: str, api_client: Any) -> None:
    ana = api_client("ana")
    assert ana.post(f"{ROOT}/volumes/detail", {"volume": {"size": 1}}).status_code == 405
    assert len(ana.get(f"{ROOT}/volumes").json()["volumes"]) == 1


@pytest.mark.parametrize(
    ("who", "query", "wanted"),
    [
        ("admin", "", {"open"}),
        ("admin", "?is_public=False", {"hidden"}),
        ("admin", "?is_public=None", {"open", "hidden"}),
        ("ana", "?is_public=False", {"open"}),
    ],
)
def test_types_of_groups_are_listed_by_whether_they_are_public(
    who: str, query: str, wanted: set[str], api_client: Any
) -> None:
    admin = api_client("admin")
    for name, is_public in (("open", True), ("hidden", False)):
        body = {"group_type": {"name": name, "is_public": is_public}}
        assert admin.post(f"{ROOT}/group_types", body, headers=NEWEST).status_code == 202
    listed = api_client(who).get(f"{ROOT}/group_types{query}", headers=NEWEST).json()["group_types"]
    assert {row["name"] for row in listed if row["name"] in ("open", "hidden")} == wanted


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00%2B23:00", "yesterday"])
def test_an_invalid_date_is_named(moment: str, api_client: Any) -> None:
    answer = api_client("ana").get(f"{ROOT}/volumes?created_at=gt:{moment}", headers=NEWEST)
    assert answer.status_code == 400
    assert "created_at" in answer.json()["badRequest"]["message"]


def test_a_time_of_an_older_version_is_refused_not_ignored(api_client: Any) -> None:
    old = {"OpenStack-API-Version": "volume 3.59"}
    answer = api_client("ana").get(f"{ROOT}/volumes?created_at=gt:2026-01-31", headers=old)
    assert (answer.status_code, "3.60" in answer.content.decode()) == (400, True)


@pytest.mark.parametrize(
    ("metadata", "is_found"),
    [
        ("{'cpu': '4'}", True),
        ("{u'cpu': u'4'}", True),
        ('{"cpu": "4"}', True),
        ("{'note': \"it's mine\"}", True),
        ("{'note': 'it\\'s mine', 'cpu': '4'}", True),
        ("{'cpu': '5'}", False),
        ("{'cp': '4'}", False),
        ("{}", True),
    ],
)
def test_volumes_are_found_by_metadata_as_a_literal_of_python(
    metadata: str, is_found: bool, volume: str, api_client: Any
) -> None:
    ana = api_client("ana")
    given = {"metadata": {"cpu": "4", "note": "it's mine"}}
    assert ana.post(f"{ROOT}/volumes/{volume}/metadata", given).status_code == 200
    found = ana.get(f"{ROOT}/volumes?metadata={quote(metadata)}")
    assert [row["id"] for row in found.json()["volumes"]] == ([volume] if is_found else [])


NO_LITERALS = ("", "cpu", "{'cpu'}", "{'cpu': f()}", "[" * 2000, "{'a': " + "-" * 5000 + "1}", "\0")


@pytest.mark.parametrize("metadata", NO_LITERALS)
def test_metadata_that_are_no_literal_are_named(metadata: str, api_client: Any) -> None:
    answer = api_client("ana").get(f"{ROOT}/volumes?metadata={quote(metadata)}")
    assert (answer.status_code, "metadata" in answer.content.decode()) == (400, True)
