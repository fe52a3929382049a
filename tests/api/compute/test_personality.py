"""Injected files of a launch or a rebuild: accepted ones, quota refusals, and that no answer shows them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from conductor.api_db.models import BuildRequest, Quota
from conductor.cell_db.models import ComputeNode, Instance
from conductor.core.compute_driver import CAPABILITIES
from conductor.db.transactions import database_time
from conductor.journal import sealing
from conductor.journal.models import WorkflowRun
from tests.compute_rows import Cloud, make_instance

ROOT = "/compute/v2.1/servers"
MOST_BYTES, LONGEST_PATH = 10_240, 255
SECRET = base64.b64encode(b"a secret of the guest").decode()


def file(contents: str | bytes = SECRET, path: str = "/etc/motd") -> dict[str, str]:
    return {"path": path, "contents": contents if isinstance(contents, str) else base64.b64encode(contents).decode()}


def launch(client: Any, cloud: Cloud, files: list[dict[str, str]]) -> Any:
    image = str(cloud.image.uuid)
    server = {"name": "web", "flavorRef": "1", "imageRef": image, "networks": "auto", "personality": files}
    return client.post(ROOT, {"server": server})


@pytest.fixture
def web(cloud: Cloud) -> str:
    """ana's server, on a host that can do everything."""
    ComputeNode.objects.using("cell1").update(report={"capabilities": {"actions": sorted(CAPABILITIES)}})
    where = {"host": "sim-1-01", "node": "sim-1-01", "launched_at": database_time()}
    return str(make_instance(cloud.people.ana.context(), "cell1", "web", **where).uuid)


def test_five_files_of_the_largest_size_are_taken(cloud: Cloud, api_client: Any) -> None:
    files = [file(b"x" * MOST_BYTES, f"/{number}".ljust(LONGEST_PATH, "x")) for number in range(5)]
    answer = launch(api_client("ana", version="2.56"), cloud, files)
    assert answer.status_code == 202
    assert BuildRequest.objects.get().instance["injected_files"] == files
    shown = api_client("ana", version="2.56").get(f"{ROOT}/{answer.json()['server']['id']}")
    assert files[0]["path"] not in shown.content.decode()


REFUSED = [
    (403, "Personality file limit exceeded", [file() for _ in range(6)]),
    (403, "Personality file path exceeds maximum 255", [file(path="/" + "x" * LONGEST_PATH)]),
    (403, "Personality file content exceeds maximum 10240", [file(b"x" * (MOST_BYTES + 1))]),
    (400, "personality[1].contents. It must be encoded in base64", [file(), file("no base64!")]),
    (400, "'contents' is a required property", [{"path": "/etc/motd"}]),
    (400, "'path' is a required property", [{"contents": SECRET}]),
    (400, "personality[0].path", [file(path="/etc/\x1bmotd")]),
    (400, "'mode' was unexpected", [file() | {"mode": "0600"}]),
]


@pytest.mark.parametrize(("status", "words", "files"), REFUSED)
def test_excess_is_refused_at_launch_and_at_rebuild(
    status: int, words: str, files: list[dict[str, str]], cloud: Cloud, web: str, api_client: Any
) -> None:
    client = api_client("ana", version="2.56")
    body = {"rebuild": {"imageRef": str(cloud.image.uuid), "personality": files}}
    for answer in (launch(client, cloud, files), client.post(f"{ROOT}/{web}/action", body)):
        assert answer.status_code == status
        assert words in answer.content.decode()
        assert SECRET not in answer.content.decode()
    assert not BuildRequest.objects.exists()
    assert not WorkflowRun.objects.using("cell1").exists()
    assert Instance.objects.using("cell1").get().task_state is None


def test_the_quota_of_the_project_counts(cloud: Cloud, api_client: Any) -> None:
    project_id = cloud.people.ana.context().project_id
    Quota.objects.create(project_id=project_id, resource="injected_files", limit=0)
    assert launch(api_client("ana", version="2.56"), cloud, [file()]).status_code == 403
    Quota.objects.filter(project_id=project_id).update(limit=-1)
    assert launch(api_client("ana", version="2.56"), cloud, [file()] * 9).status_code == 202


def test_there_are_none_from_the_version_that_dropped_them(cloud: Cloud, api_client: Any) -> None:
    server = {"name": "web", "flavorRef": "1", "imageRef": str(cloud.image.uuid), "networks": "auto"}
    answer = api_client("ana", version="2.57").post(ROOT, {"server": server | {"personality": [file()]}})
    assert (answer.status_code, BuildRequest.objects.exists()) == (400, False)


def test_a_rebuild_keeps_them_with_its_secrets(cloud: Cloud, web: str, api_client: Any) -> None:
    client = api_client("ana", version="2.56")
    body = {"rebuild": {"imageRef": str(cloud.image.uuid), "personality": [file()]}}
    answer = client.post(f"{ROOT}/{web}/action", body)
    assert answer.status_code == 202
    run = WorkflowRun.objects.using("cell1").get()
    assert sealing.unseal(run.secrets)["injected_files"] == [file()]
    assert SECRET not in str(run.inputs) + str(run.secrets)
    reported = client.get(f"/api/workflows/{run.uuid}").content.decode()
    assert SECRET not in answer.content.decode() + reported
