"""Members of a server, for each version and caller: none is missing, and none is there too early."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.cell_db.models import Instance

ALWAYS = {
    *("id", "name", "status", "tenant_id", "user_id", "metadata", "hostId", "image", "flavor", "created", "updated"),
    *("addresses", "accessIPv4", "accessIPv6", "links", "OS-DCF:diskConfig", "progress", "key_name", "config_drive"),
    *("security_groups", "OS-EXT-AZ:availability_zone", "OS-EXT-STS:task_state", "OS-EXT-STS:vm_state"),
    *("OS-EXT-STS:power_state", "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at"),
    "os-extended-volumes:volumes_attached",
}
OPERATORS = {
    "2.1": {
        "OS-EXT-SRV-ATTR:host",
        "OS-EXT-SRV-ATTR:instance_name",
        "OS-EXT-SRV-ATTR:hypervisor_hostname",
    },
    "2.3": {
        f"OS-EXT-SRV-ATTR:{name}"
        for name in (
            "hostname",
            "kernel_id",
            "ramdisk_id",
            "launch_index",
            "reservation_id",
            "root_device_name",
            "user_data",
        )
    },
    "2.16": {"host_status"},
}
ALL_USERS = {
    "2.9": {"locked"},
    "2.19": {"description"},
    "2.26": {"tags"},
    "2.63": {"trusted_image_certificates"},
    "2.71": {"server_groups"},
    "2.73": {"locked_reason"},
    "2.90": {"OS-EXT-SRV-ATTR:hostname"},
    "2.96": {"pinned_availability_zone"},
    "2.100": {"scheduler_hints"},
}
NOT_IN_LISTS = {"server_groups"}
ONLY_IN_FULL = {
    *("key_name", "config_drive", "security_groups", "OS-EXT-AZ:availability_zone", "OS-EXT-STS:task_state"),
    *("OS-EXT-STS:vm_state", "OS-EXT-STS:power_state", "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at"),
    *("os-extended-volumes:volumes_attached",),
}
VERSIONS = sorted(
    {"2.1", "2.2", "2.46", "2.47", "2.74", "2.75", *OPERATORS, *ALL_USERS}, key=lambda text: int(text.split(".")[1])
)


def reached(version: str, table: dict[str, set[str]]) -> set[str]:
    minor = int(version.split(".")[1])
    return {name for since, names in table.items() if int(since.split(".")[1]) <= minor for name in names}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("who", ["ana", "admin"])
def test_members_of_a_server(who: str, version: str, kept: dict[str, str], api_client: Any) -> None:
    client = api_client(who, version=version)
    wanted = ALWAYS | reached(version, ALL_USERS) | (reached(version, OPERATORS) if who == "admin" else set())
    server = client.get(f"/compute/v2.1/servers/{kept['web']}").json()["server"]
    assert set(server) == wanted
    everywhere = "&all_tenants=1" if who == "admin" else ""
    (listed,) = client.get(f"/compute/v2.1/servers/detail?name=^web${everywhere}").json()["servers"]
    assert set(listed) == wanted - NOT_IN_LISTS
    assert {name: server[name] for name in listed} == listed


@pytest.mark.parametrize("version", ["2.1", "2.74", "2.75", "2.96", "2.104"])
def test_members_of_a_changed_server(version: str, kept: dict[str, str], api_client: Any) -> None:
    client = api_client("admin", version=version)
    answer = client.put(f"/compute/v2.1/servers/{kept['web']}", {"server": {"name": "web"}}).json()["server"]
    whole = client.get(f"/compute/v2.1/servers/{kept['web']}").json()["server"]
    is_whole = version in ("2.75", "2.96", "2.104")
    assert set(answer) == (set(whole) if is_whole else set(whole) - ONLY_IN_FULL - reached(version, OPERATORS))
    left_out = {"updated"} if is_whole else {"updated", "addresses"}  # older answers have shorter addresses
    assert {name: whole[name] for name in answer.keys() - left_out} == {
        name: value for name, value in answer.items() if name not in left_out
    }


def test_the_flavor_is_embedded_from_2_47_on(kept: dict[str, str], api_client: Any) -> None:
    path = f"/compute/v2.1/servers/{kept['web']}"
    before = api_client("ana", version="2.46").get(path).json()["server"]["flavor"]
    assert before == {"id": "1", "links": [{"rel": "bookmark", "href": "http://testserver/compute/flavors/1"}]}
    after = api_client("ana", version="2.47").get(path).json()["server"]["flavor"]
    assert after == {
        "original_name": "tiny",
        "vcpus": 1,
        "ram": 128,
        "disk": 1,
        "ephemeral": 0,
        "swap": 0,
        "extra_specs": {},
    }


def test_hosts_are_distinguished_without_configuration(kept: dict[str, str], api_client: Any) -> None:
    web = api_client("ana").get(f"/compute/v2.1/servers/{kept['web']}").json()["server"]
    assert len(web["hostId"]) == 56
    assert "sim-1-01" not in str(web)
    broken = api_client("ana").get(f"/compute/v2.1/servers/{kept['broken']}").json()["server"]
    assert broken["hostId"] == ""
    assert "progress" not in broken
    seen = api_client("admin", version="2.16").get(f"/compute/v2.1/servers/{kept['web']}").json()["server"]
    assert (seen["OS-EXT-SRV-ATTR:host"], seen["host_status"], seen["hostId"]) == ("sim-1-01", "UP", web["hostId"])


def test_images_show_their_properties_from_2_98(kept: dict[str, str], api_client: Any) -> None:
    row = Instance.objects.using("cell1").get(uuid=kept["web"])
    row.image["properties"] = {"hw_disk_bus": "scsi"}
    row.save(update_fields=["image"])
    path = f"/compute/v2.1/servers/{kept['web']}"
    assert set(api_client("ana", version="2.97").get(path).json()["server"]["image"]) == {"id", "links"}
    image = api_client("ana", version="2.98").get(path).json()["server"]["image"]
    assert image["properties"] == {"hw_disk_bus": "scsi"}


def test_a_hint_with_one_value_is_shown_as_a_string(kept: dict[str, str], api_client: Any) -> None:
    hints = {"same_host": [kept["broken"]], "different_host": [kept["broken"], kept["web"]]}
    Instance.objects.using("cell1").filter(uuid=kept["web"]).update(scheduler_hints=hints)
    server = api_client("ana", version="2.100").get(f"/compute/v2.1/servers/{kept['web']}").json()["server"]
    assert server["scheduler_hints"] == {**hints, "same_host": kept["broken"]}


def test_a_server_is_bound_to_its_zone_or_to_none(kept: dict[str, str], api_client: Any) -> None:
    Instance.objects.using("cell1").filter(uuid=kept["web"]).update(availability_zone="az-1")
    path = f"/compute/v2.1/servers/{kept['web']}"
    client = api_client("ana", version="2.104")

    def pin(zone: str | None) -> Any:
        return client.put(path, {"server": {"pinned_availability_zone": zone}})

    assert pin("az-1").json()["server"]["pinned_availability_zone"] == "az-1"
    refused = pin("az-2")
    assert refused.status_code == 400
    assert "az-1" in refused.json()["badRequest"]["message"]
    assert client.get(path).json()["server"]["pinned_availability_zone"] == "az-1"
    assert pin(None).json()["server"]["pinned_availability_zone"] is None
    old = api_client("ana", version="2.103").put(path, {"server": {"pinned_availability_zone": None}})
    assert old.status_code == 400


def test_ipv6_addresses_are_shown_in_canonical_form(kept: dict[str, str], api_client: Any) -> None:
    client = api_client("ana", version="2.75")
    body = {"server": {"accessIPv6": "0000:0000:0000:0000:0000:babe:220.12.22.2"}}
    changed = client.put(f"/compute/v2.1/servers/{kept['web']}", body).json()["server"]
    assert changed["accessIPv6"] == "::babe:dc0c:1602"
