"""A compute agent in a process of its own, to be killed: commands come in by lines, answers go out by lines.

Guests are files in a folder; a spawn makes its file, says so, and stays in the middle while the file `hold` exists.
With the word `fake` the driver is the simulated hypervisor, with the faults in the file `faults.json`; the
consoles of its guests can be reached.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from compute_drivers.fake.driver import FakeDriver
from conductor.compute.agent import ComputeAgent
from conductor.compute.console_relay import RelayAddress
from conductor.compute.hosts import HostConfig
from conductor.core.compute_driver import ComputeDriver, GuestInfo, GuestSpec, NodeReport, Progress
from conductor.core.states import PowerState
from conductor.rpc.codec import encode
from tests.waiting import wait_until


class FileDriver(ComputeDriver):
    name = "files"

    @property
    def folder(self) -> Path:
        return Path(self.options["folder"])

    def report(self) -> NodeReport:
        return NodeReport(node=self.host, hypervisor_type="files", hypervisor_version=1, inventory={})

    def guests(self) -> list[GuestInfo]:
        return [GuestInfo(path.stem, PowerState.RUNNING) for path in self.folder.glob("*.guest")]

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        self._note(f"spawn {guest.instance_uuid}")
        (self.folder / f"{guest.instance_uuid}.guest").write_text(guest.name)
        wait_until("the file `hold` is gone", lambda: not (self.folder / "hold").exists(), seconds=3600.0)

    def destroy(self, instance_uuid: str) -> None:
        self._note(f"destroy {instance_uuid}")
        (self.folder / f"{instance_uuid}.guest").unlink(missing_ok=True)

    def _note(self, line: str) -> None:
        with (self.folder / "calls").open("a") as calls:
            calls.write(line + "\n")


def say(cell: str, message: Any) -> None:
    os.write(1, (json.dumps({"cell": cell, **encode(message)}) + "\n").encode())


def main(folder: Path, driver: str = "files") -> None:
    options = {
        "files": {"folder": str(folder)},
        "fake": {"state_file": str(folder / "guests.json"), "faults_file": str(folder / "faults.json")},
    }
    config = HostConfig(
        host="host-1",
        cell="cell1",
        driver=driver,
        journal_path=folder / "host-1.sqlite3",
        options=options[driver],
    )
    drivers: dict[str, type[ComputeDriver]] = {"files": FileDriver, "fake": FakeDriver}
    agent = ComputeAgent([config], drivers, lambda _: None, 0.1, send=say)  # type: ignore[arg-type, return-value]
    agent.relay_consoles(RelayAddress("127.0.0.1", 0, "127.0.0.1") if driver == "fake" else None)
    agent.start()
    for line in sys.stdin:
        agent.receive(json.loads(line))
    agent.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
