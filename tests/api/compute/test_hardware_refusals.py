"""Flavors and images with impossible hardware requests: 400 with the key, and nothing is written."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import Flavor
from conductor.image.models import Image
from tests.fixtures.compute_requests import SERVERS, body, written


@pytest.mark.parametrize(
    ("extra_specs", "properties", "key"),
    [
        ({"hw:numa_nodes": "7"}, {}, "hw:numa_nodes"),
        ({"hw:cpu_policy": "often"}, {}, "hw:cpu_policy"),
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}, "hw_cpu_policy"),
        ({"hw:cpu_max_sockets": "1"}, {"hw_cpu_max_sockets": "2"}, "hw_cpu_max_sockets"),
        ({"pci_passthrough:alias": "gpu:1"}, {}, "pci_passthrough:alias"),
    ],
)
def test_a_launch_is_refused(
    extra_specs: dict[str, str], properties: dict[str, str], key: str, kept: dict[str, str], api_client: Any
) -> None:
    Flavor.objects.filter(flavor_id="1").update(extra_specs=extra_specs)
    Image.objects.filter(uuid=kept["image"]).update(properties=properties)
    before = written()
    answer = api_client("ana", version="2.96").post(SERVERS, body(kept))
    assert answer.status_code == 400, answer.content
    assert answer.json()["badRequest"]["message"].startswith(key)
    assert written() == before
