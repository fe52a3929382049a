"""Invalid bodies: 400 with the field's name, and nothing is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.api_db.models import BuildRequest, InstanceMapping, Quota, RequestSpecRecord
from conductor.journal.models import Event, ResourceLock, WorkflowRun
from tests.fixtures.compute_requests import SERVERS, body, written

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": ...}, "'name' is a required property"),
    ({"name": ""}, "server.name"),
    ({"name": " web"}, "server.name"),
    ({"name": "w" * 256}, "server.name"),
    ({"name": 7}, "server.name"),
    ({"name": "web\n"}, "server.name"),
    ({"flavorRef": ...}, "'flavorRef' is a required property"),
    ({"flavorRef": "9"}, "Flavor 9 could not be found"),
    ({"flavorRef": {}}, "server.flavorRef"),
    ({"imageRef": "nope"}, "server.imageRef"),
    ({"imageRef": ""}, "Name an image to boot from, or a volume"),
    ({"imageRef": ...}, "Name an image to boot from, or a volume"),
    ({"networks": ...}, "'networks' is a required property"),
    ({"networks": "all"}, "server.networks"),
    ({"networks": [{}]}, "server.networks[0]"),
    ({"networks": [{"uuid": "nope"}]}, "server.networks"),
    ({"networks": [{"uuid": "11111111-1111-1111-1111-111111111111"}]}, "11111111-1111-1111-1111-111111111111"),
    ({"networks": [{"port": "11111111-1111-1111-1111-111111111111", "fixed_ip": "10.0.0.1"}]}, "cannot be used with"),
    ({"networks": [{"uuid": "11111111-1111-1111-1111-111111111111", "tag": "a/b"}]}, "tag"),
    ({"metadata": {"a": 1}}, "server.metadata.a"),
    ({"metadata": {"a" * 256: "b"}}, "was unexpected"),
    ({"metadata": []}, "server.metadata"),
    ({"min_count": 0}, "server.min_count"),
    ({"min_count": "x"}, "server.min_count"),
    ({"min_count": 3, "max_count": 2}, "min_count must be <= max_count"),
    ({"user_data": "not base64!"}, "server.user_data"),
    ({"user_data": "A" * 65540}, "server.user_data"),
    ({"key_name": "lost"}, "Invalid key_name provided"),
    ({"availability_zone": "mars"}, "availability zone is not available"),
    ({"config_drive": "perhaps"}, "server.config_drive"),
    ({"accessIPv4": "300.1.1.1"}, "server.accessIPv4"),
    ({"tags": ["a/b"]}, "server.tags"),
    ({"tags": [str(number) for number in range(51)]}, "server.tags"),
    ({"description": "d" * 256}, "server.description"),
    ({"hostname": "-x-"}, "server.hostname"),
    ({"personality": []}, "'personality' was unexpected"),
    ({"trusted_image_certificates": ["a"]}, "No host verifies signatures of images"),
    ({"trusted_image_certificates": []}, "server.trusted_image_certificates"),
    ({"trusted_image_certificates": ["a", "a"]}, "server.trusted_image_certificates"),
    ({"trusted_image_certificates": [str(number) for number in range(51)]}, "server.trusted_image_certificates"),
    ({"trusted_image_certificates": [""]}, "server.trusted_image_certificates"),
    ({"security_groups": [{"name": "strangers"}]}, "strangers"),
    ({"security_groups": [{"id": "a"}]}, "'id' was unexpected"),
    ({"block_device_mapping": [{"volume_id": "a"}]}, "failed to get volume a"),
    (
        {
            "block_device_mapping_v2": [
                {"boot_index": 0, "source_type": "blank", "destination_type": "volume", "volume_size": "x"}
            ]
        },
        "volume_size",
    ),
    ({"block_device_mapping_v2": [{"boot_index": 1, "source_type": "image"}]}, "Missing device UUID"),
    ({"shoe_size": 43}, "'shoe_size' was unexpected"),
    ({"OS-DCF:diskConfig": "SOMETIMES"}, "diskConfig"),
]


@pytest.mark.parametrize(("values", "words"), REFUSED)
def test_invalid_launches_are_refused(
    values: dict[str, Any], words: str, kept: dict[str, str], api_client: Any
) -> None:
    before = written()
    answer = api_client("ana", version="2.96").post(SERVERS, body(kept, **values))
    assert answer.status_code == 400, answer.content
    assert words in answer.json()["badRequest"]["message"]
    assert written() == before


EARLY: list[tuple[str, dict[str, Any]]] = [
    ("2.18", {"description": "d"}),
    ("2.36", {"networks": "auto"}),
    ("2.51", {"tags": ["a"]}),
    ("2.62", {"trusted_image_certificates": ["a"]}),
    ("2.73", {"host": "sim-1-01"}),
    ("2.89", {"hostname": "web"}),
    ("2.93", {"hostname": "web.example"}),
]


@pytest.mark.parametrize(("version", "values"), EARLY)
def test_fields_of_later_versions_are_refused_in_earlier_ones(
    version: str, values: dict[str, Any], kept: dict[str, str], api_client: Any
) -> None:
    before = written()
    given = {"networks": [{"uuid": kept["network"]}]} | values
    answer = api_client("admin", version=version).post(SERVERS, body(kept, **given))
    assert answer.status_code == 400, answer.content
    assert next(iter(values)) in answer.json()["badRequest"]["message"]
    assert written() == before


def test_a_secret_is_never_echoed(kept: dict[str, str], api_client: Any) -> None:
    answer = api_client("ana", version="2.96").post(SERVERS, body(kept, adminPass="s3cret-" * 50))
    assert answer.status_code == 400
    assert "s3cret" not in answer.content.decode()


def test_hosts_are_for_administrators(kept: dict[str, str], api_client: Any) -> None:
    before = written()
    for values in (
        {"host": "sim-1-01"},
        {"hypervisor_hostname": "sim-1-01.example"},
        {"availability_zone": "az-1:sim-1-01"},
        {"availability_zone": "az-1:sim-1-01:sim-1-01.example"},
        {"availability_zone": "az-1::sim-1-01.example"},
    ):
        answer = api_client("ana", version="2.96").post(SERVERS, body(kept, **values))
        assert answer.status_code == 403, answer.content
        assert written() == before
        assert api_client("admin", version="2.96").post(SERVERS, body(kept, **values)).status_code == 202
        (spec,) = RequestSpecRecord.objects.values_list("spec", flat=True)
        zone = values.get("availability_zone")  # the scheduler checks hosts that are named elsewhere
        _, host, node = [*zone.split(":"), ""][:3] if zone else ("", "", "")
        assert (spec["force_hosts"], spec["force_nodes"]) == ([host] if host else [], [node] if node else [])
        assert spec["requested_host"] == ("" if zone else "sim-1-01")
        for model in (BuildRequest, InstanceMapping, RequestSpecRecord, ResourceLock, WorkflowRun, Event):
            model.objects.using("default").exclude(
                **({"cell__isnull": False} if model is InstanceMapping else {})
            ).delete()
        before = written()
    for values in (
        {"hypervisor_hostname": "moon"},
        {"availability_zone": "az-1:moon"},
        {"availability_zone": "az-1::moon"},
        {"availability_zone": "az-1:sim-1-01:moon"},
        {"availability_zone": "az-2:sim-2-01:sim-1-01.example"},
        {"availability_zone": "az-1::sim-1-01.example", "host": "sim-1-01"},
    ):
        answer = api_client("admin", version="2.96").post(SERVERS, body(kept, **values))
        assert answer.status_code == 400, answer.content
        assert written() == before


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
MEMBERS = (
    *("name", "imageRef", "flavorRef", "networks", "metadata", "min_count", "max_count", "user_data", "key_name"),
    *(
        "availability_zone",
        "config_drive",
        "tags",
        "security_groups",
        "block_device_mapping_v2",
        "hostname",
        "adminPass",
    ),
    *("accessIPv4", "description", "return_reservation_id", "host", "hypervisor_hostname", "OS-DCF:diskConfig"),
)


@settings(max_examples=70, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(member=st.sampled_from(MEMBERS), value=json_values, hints=json_values)
def test_any_body_gets_an_answer_other_than_500(
    member: str, value: Any, hints: Any, kept: dict[str, str], api_client: Any
) -> None:
    client = api_client("ana", version="2.96")
    for resource in ("instances", "cores", "ram"):
        Quota.objects.get_or_create(
            project_id=kept["project"],
            resource=resource,
            defaults={"limit": 200 if resource == "instances" else 99_000},
        )
    sent = body(kept, **{member: value})
    before = written()
    answer = client.post(SERVERS, sent)
    assert answer.status_code in (202, 400, 403), answer.content
    if answer.status_code != 202:
        assert written() == before
    assert client.post(SERVERS, body(kept) | {"os:scheduler_hints": hints}).status_code in (202, 400, 403)
