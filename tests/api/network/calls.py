"""Common calls of the tests of the Network API."""

from __future__ import annotations

from typing import Any

from conductor.db.transactions import write_tx
from conductor.network import ports

V2 = "/network/v2.0"


def make(client: Any, collection: str, **values: Any) -> dict[str, Any]:
    singular = collection.removesuffix("s").replace("-", "_")
    answer = client.post(f"{V2}/{collection}", {singular: values})
    assert answer.status_code == 201, answer.content
    body: dict[str, Any] = answer.json()[singular]
    return body


def make_network(client: Any, cidr: str = "10.0.0.0/24", **values: Any) -> tuple[str, str]:
    """Create a network and a subnet; return their ids."""
    network_id = make(client, "networks", name="inner", **values)["id"]
    return network_id, make(client, "subnets", network_id=network_id, cidr=cidr)["id"]


def ids(answer: Any, collection: str) -> set[str]:
    assert answer.status_code == 200, answer.content
    return {item["id"] for item in answer.json()[collection]}


def fault(answer: Any) -> tuple[int, str]:
    body = answer.json()["NeutronError"]
    assert set(body) == {"type", "message", "detail"}
    return answer.status_code, body["type"]


def plug(person: Any, network_id: str, instance_uuid: str, port_id: str = "") -> list[dict[str, Any]]:
    with write_tx():
        return ports.plug(
            instance_uuid=instance_uuid,
            project_id=person.project.id,
            networks=[{"network_id": network_id, "port_id": port_id, "fixed_ip": ""}],
            binding=ports.Binding("host-1", "compute:az-1"),
        )
