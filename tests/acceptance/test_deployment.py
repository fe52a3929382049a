"""Separate processes, a real broker, a real database: builds and deletes through both webs, also while things die."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.acceptance.deployment import Deployment
from tests.acceptance.nursery import Nursery
from tests.waiting import wait_until

SERVERS = 20
SECONDS = 300.0


def launch_all(cloud: Deployment, prefix: str) -> list[str]:
    """Launch servers through both web processes in turn, four requests at a time; return their uuids."""

    def launch(number: int) -> str:
        answer = cloud.api(number % 2).launch(f"{prefix}-{number}", flavor="tiny")
        assert answer.status == 202, answer.raw
        return str(answer.json["server"]["id"])

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(launch, range(SERVERS)))


def wait_until_active(cloud: Deployment, uuids: Sequence[str]) -> None:
    def are_active() -> bool:
        seen = {server["id"]: server["status"] for server in cloud.api(0).servers()}
        broken = [uuid for uuid in uuids if seen.get(uuid) == "ERROR"]
        assert not broken, [cloud.api(0).server(uuid).get("fault") for uuid in broken]
        return all(seen.get(uuid) == "ACTIVE" for uuid in uuids)

    wait_until("all active", are_active, SECONDS, details=cloud.log_tail)
    assert cloud.guests() == sorted(uuids)
    hosts = {cloud.api(1).server(uuid)["OS-EXT-SRV-ATTR:host"] for uuid in uuids}
    assert hosts == {"h1", "h2", "h3", "h4", "h5", "h6"}


def delete_all(cloud: Deployment, uuids: Sequence[str]) -> None:
    for number, uuid in enumerate(uuids):
        assert cloud.api(number % 2).call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204


def wait_until_clean(cloud: Deployment) -> None:
    wait_until("all gone", lambda: not cloud.api(1).servers(), SECONDS, details=cloud.log_tail)
    cloud.wait_until_clean()


@pytest.mark.timeout(900)  # RabbitMQ starts three times here, ten processes start twice: minutes on a busy machine
@pytest.mark.parametrize("broker", ["rabbitmq", "redis"])
def test_twenty_servers_are_built_while_conductors_and_the_broker_are_killed(
    broker: str, tmp_path: Path, nursery: Nursery
) -> None:
    with Deployment(tmp_path, broker=broker, nursery=nursery) as cloud:
        uuids = launch_all(cloud, "calm")
        wait_until_active(cloud, uuids)
        delete_all(cloud, uuids)
        wait_until_clean(cloud)

        uuids = launch_all(cloud, "storm")
        cloud.broker.kill()
        for role in ("api", "cell1", "cell2"):
            assert cloud.kill(role, 0) == -9
        cloud.broker.restart()
        wait_until_active(cloud, uuids)
        delete_all(cloud, uuids[:10])
        cloud.broker.kill()
        delete_all(cloud, uuids[10:])  # what is answered needs no broker
        cloud.broker.restart()
        wait_until_clean(cloud)
        assert cloud.dead() == ["api-1", "cell1-1", "cell2-1"]
