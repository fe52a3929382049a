"""A server with a real guest: actions use the API, questions its serial console."""

from __future__ import annotations

from typing import Any

from tests.acceptance.cloud import Cloud
from tests.acceptance.serial_line import SerialLine
from tests.waiting import wait_until

SERVERS = "/compute/v2.1/servers"
SECONDS = 240.0
UPTIME = "cut -d. -f1 /proc/uptime"
PAIR = ("live-a", "live-b")  # hosts that share disks


class Real:
    """One server of the cloud: actions use the API, questions its serial console on whatever host it is."""

    def __init__(self, cloud: Cloud, uuid: str) -> None:
        self.cloud, self.uuid = cloud, uuid

    @property
    def host(self) -> str:
        return str(self.cloud.server(self.uuid)["OS-EXT-SRV-ATTR:host"])

    @property
    def line(self) -> SerialLine:
        return SerialLine(self.cloud.data_dir / (self.host if self.host in PAIR else "libvirt"), self.uuid)

    def act(self, body: Any, status: str, *, user: str = "demo", version: str = "2.90") -> None:
        """Send an action, and return the server once it has the status and no task is running."""
        path = f"{SERVERS}/{self.uuid}/action"

        def ask() -> Any:
            """Send a request, repeated while the previous workflow still holds a lock."""
            answer = self.cloud.call("POST", path, body, user=user, version=version)
            return None if answer.status == 409 and b"is locked by workflow" in answer.raw else answer

        answer = wait_until("a lock", ask, SECONDS)
        assert answer.status in (200, 202, 204), answer.raw
        self.wait(status)

    def wait(self, status: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            server = self.cloud.server(self.uuid)
            assert server["status"] != "ERROR" or status == "ERROR", f"{server.get('fault')}\n{self.cloud.log_tail()}"
            is_there = server["status"] == status and server["OS-EXT-STS:task_state"] is None
            return server if is_there else None

        found: dict[str, Any] = wait_until(
            f"{self.uuid} {status}", look, SECONDS, pause=0.25, details=self.cloud.log_tail
        )
        return found

    def has_booted(self) -> bool:
        """Wait until its shell answers, and until it has been up for less than `SECONDS`."""
        return self.line.number(UPTIME) < SECONDS
