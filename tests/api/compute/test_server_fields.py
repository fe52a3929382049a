"""Which members a server has, for each version and asker: nothing is missing, and nothing is there too early."""

from __future__ import annotations

from typing import Any

import pytest

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
EVERYBODY = {
    "2.9": {"locked"},
    "2.19": {"description"},
    "2.26": {"tags"},
    "2.63": {"trusted_image_certificates"},
    "2.71": {"server_groups"},
    "2.73": {"locked_reason"},
    "2.90": {"OS-EXT-SRV-ATTR:hostname"},
    "2.96": {"pinned_availability_zone"},
}
NOT_IN_LISTS = {"server_groups"}
ONLY_IN_FULL = {
    *("key_name", "config_drive", "security_groups", "OS-EXT-AZ:availability_zone", "OS-EXT-STS:task_state"),
    *("OS-EXT-STS:vm_state", "OS-EXT-STS:power_state", "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at"),
    *("os-extended-volumes:volumes_attached",),
}
VERSIONS = sorted(
    {"2.1", "2.2", "2.46", "2.47", "2.74", "2.75", *OPERATORS, *EVERYBODY}, key=lambda text: int(text.split(".")[1])
)


def reached(version: str, table: dict[str, set[str]]) -> set[str]:
    minor = int(version.split(".")[1])
    return {name for since, names in table.items() if int(since.split(".")[1]) <= minor for name in names}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("who", ["ana", "admin"])
def test_members_of_a_server(who: str, version: str, kept: dict[str, str], api_client: Any) -> None:
    client = api_client(who, version=version)
    wanted = ALWAYS | reached(version, EVERYBODY) | (reached(version, OPERATORS) if who == "admin" else set())
    server = client.get(f"/compute/v2.1/servers/{kept['web']}").json()["server"]
    assert set(server) == wanted
    everywhere = "&all_tenants=1" if who == "admin" else ""
    (listed,) = client.get(f"/compute/v2.1/servers/detail?name=^web${everywhere}").json()["servers"]
    assert set(listed) == wanted - NOT_IN_LISTS
    assert {name: server[name] for name in listed} == listed


@pytest.mark.parametrize("version", ["2.1", "2.74", "2.75", "2.96"])
def test_members_of_a_changed_server(version: str, kept: dict[str, str], api_client: Any) -> None:
    client = api_client("admin", version=version)
    answer = client.put(f"/compute/v2.1/servers/{kept['web']}", {"server": {"name": "web"}}).json()["server"]
    whole = client.get(f"/compute/v2.1/servers/{kept['web']}").json()["server"]
    is_whole = version in ("2.75", "2.96")
    assert set(answer) == (set(whole) if is_whole else set(whole) - ONLY_IN_FULL - reached(version, OPERATORS))
    assert {name: whole[name] for name in answer if name != "updated"} == {
        name: value for name, value in answer.items() if name != "updated"
    }


def test_the_flavor_changes_its_form_with_2_47(kept: dict[str, str], api_client: Any) -> None:
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


def test_hosts_are_told_apart_without_being_told(kept: dict[str, str], api_client: Any) -> None:
    web = api_client("ana").get(f"/compute/v2.1/servers/{kept['web']}").json()["server"]
    assert len(web["hostId"]) == 56
    assert "sim-1-01" not in str(web)
    broken = api_client("ana").get(f"/compute/v2.1/servers/{kept['broken']}").json()["server"]
    assert broken["hostId"] == ""
    assert "progress" not in broken
    seen = api_client("admin", version="2.16").get(f"/compute/v2.1/servers/{kept['web']}").json()["server"]
    assert (seen["OS-EXT-SRV-ATTR:host"], seen["host_status"], seen["hostId"]) == ("sim-1-01", "UP", web["hostId"])
