"""Calls of Terraform's provider for each of its resources, and the fields that it reads: create, read, update, delete.

The provider parses every field as a type: a missing field plans a change for ever, and one of another type is an error.
The status codes are those that its library accepts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conductor.network import seed
from tests.api.rights.scene import settled
from tests.api.runner import Scenario, load, run
from tests.compute_rows import make_cloud, make_host, make_instance

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB5i6Sd4yHAbcfhVJnYFx+0C0jqwWqQmjwg0vSyVpdNP ana@laptop"


@pytest.mark.parametrize("scenario", load(Path(__file__).parent), ids=str)
def test_a_resource_is_created_read_updated_and_deleted(
    scenario: Scenario, people: Any, api_client: Any, settings: Any, tmp_path: Path
) -> None:
    settings.NOVELLA_DATA = tmp_path
    settings.NOVELLA_IMAGE_DIR = tmp_path / "images"
    names = {"v2": "/network/v2.0", "v3": "/volume/v3", "id3": "/identity/v3", "nova": "/compute/v2.1", "key": KEY}
    if scenario.file == "network":
        seed.seed(people.admin.project.id)
    if scenario.file == "compute":
        cloud = make_cloud(people)
        make_host("cell1", "sim-1-01")
        web = make_instance(people.ana.context(), "cell1", "web", host="sim-1-01")
        names |= {"image": str(cloud.image.uuid), "network": str(cloud.network.uuid), "web": str(web.uuid)}
    run(scenario, people, api_client, names, between=settled if scenario.file == "volume" else None)
