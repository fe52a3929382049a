"""A hypervisor that is nothing but a dictionary."""

from __future__ import annotations

from conductor.core.compute_driver import ComputeDriver, GuestInfo, GuestSpec, Inventory, NodeReport, Progress
from conductor.core.states import PowerState

# The hypervisor, as it were: it goes on when a driver stops. Host → instance uuid → guest.
_MACHINES: dict[str, dict[str, GuestSpec]] = {}


class MemoryDriver(ComputeDriver):
    """Guests live in memory, outlive the driver and end with the process. Option `rack`: the rack's name."""

    name = "memory"
    is_simulated = True
    supports_console_log = True

    def start(self) -> None:
        self._guests = _MACHINES.setdefault(self.host, {})

    def report(self) -> NodeReport:
        return NodeReport(
            node=self.host,
            hypervisor_type="memory",
            hypervisor_version=1_000_000,
            inventory={"VCPU": Inventory(16), "MEMORY_MB": Inventory(32768), "DISK_GB": Inventory(500)},
            traits=frozenset({"COMPUTE_NODE"}),
            supported_instances=(("x86_64", "memory", "hvm"),),
            capabilities={"rack": self.options.get("rack", "none")},
        )

    def guests(self) -> list[GuestInfo]:
        return [GuestInfo(uuid, PowerState.RUNNING) for uuid in self._guests]

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        progress("remembering the guest", 0.5)
        self._guests[guest.instance_uuid] = guest

    def destroy(self, instance_uuid: str) -> None:
        self._guests.pop(instance_uuid, None)

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        guest = self._guests.get(instance_uuid)
        return f"{guest.hostname} login:\n".encode()[offset:] if guest else b""
