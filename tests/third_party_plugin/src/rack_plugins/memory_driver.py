"""A hypervisor whose guests are entries of a dictionary."""

from __future__ import annotations

from conductor.core.compute_driver import ComputeDriver, GuestInfo, GuestSpec, Inventory, NodeReport, Progress
from conductor.core.errors import GuestMissing
from conductor.core.states import PowerState

# The simulated hypervisor, which outlives a driver. Host → instance uuid → guest and its power state.
_MACHINES: dict[str, dict[str, tuple[GuestSpec, PowerState]]] = {}


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
            inventory={
                "VCPU": Inventory(16),
                "MEMORY_MB": Inventory(32768),
                "DISK_GB": Inventory(500),
            },
            traits=frozenset({"COMPUTE_NODE"}),
            supported_instances=(("x86_64", "memory", "hvm"),),
            capabilities={"rack": self.options.get("rack", "none")},
        )

    def guests(self) -> list[GuestInfo]:
        return [GuestInfo(uuid, state) for uuid, (_, state) in self._guests.items()]

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        progress("remembering the guest", 0.5)
        self._guests[guest.instance_uuid] = (guest, PowerState.RUNNING)

    def destroy(self, instance_uuid: str) -> None:
        self._guests.pop(instance_uuid, None)

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        guest, _ = self._guests.get(instance_uuid, (None, None))
        return f"{guest.hostname} login:\n".encode()[offset:] if guest else b""

    def power_on(self, guest: GuestSpec) -> None:
        self._put(guest.instance_uuid, PowerState.RUNNING)

    def power_off(self, instance_uuid: str, timeout_seconds: float) -> None:
        self._put(instance_uuid, PowerState.SHUTDOWN)

    def reboot(self, guest: GuestSpec, *, is_hard: bool, timeout_seconds: float) -> None:
        self._put(guest.instance_uuid, PowerState.RUNNING)

    def _put(self, instance_uuid: str, state: PowerState) -> None:
        if instance_uuid not in self._guests:
            raise GuestMissing()
        self._guests[instance_uuid] = (self._guests[instance_uuid][0], state)
