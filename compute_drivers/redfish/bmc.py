"""Controls one machine through its management controller: hardware, power, virtual media, drives. It loads sushy."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import sushy

from compute_drivers.redfish.errors import bmc_errors
from compute_drivers.redfish.hardware import MachineHardware, erase_targets, read_hardware
from compute_drivers.redfish.machines import Machine
from compute_drivers.redfish.options import RedfishOptions
from conductor.core.errors import DriverError

CONNECT_SECONDS = 10.0
POLL_SECONDS = 1.0
DISC_TYPES = {sushy.VIRTUAL_MEDIA_CD, sushy.VIRTUAL_MEDIA_DVD}
STICK_TYPES = {sushy.VIRTUAL_MEDIA_USBSTICK}
MAX_ATTEMPTS = 1  # the conductor repeats failed commands


class Bmc:
    """The controller of one machine.

    Each method makes one or a few requests and returns once the machine is in the requested state. Each raises
    DriverError with the first cause of a failure.
    """

    def __init__(self, machine: Machine, options: RedfishOptions) -> None:
        self.machine = machine
        self._options = options
        self._lock = threading.Lock()
        self._connector: Any = None
        self._root: Any = None

    # -- hardware

    def hardware(self) -> MachineHardware:
        with bmc_errors(self.machine.name, "what it is made of"):
            return read_hardware(self._system(), self.machine)

    def is_on(self) -> bool:
        """Return whether the machine is on; one that is starting or shutting down counts as on."""
        with bmc_errors(self.machine.name, "its power"):
            return self._is_on(self._system())

    def can_clean(self) -> bool:
        """Return whether each drive of the machine can erase itself."""
        with bmc_errors(self.machine.name, "its drives"):
            targets = erase_targets(self._system())
        return bool(targets) and None not in targets

    # -- power

    def power_on(self) -> None:
        with bmc_errors(self.machine.name, "to start"):
            system = self._system()
            if not self._is_on(system):
                _reset(system, sushy.ResetType.ON, sushy.ResetType.FORCE_ON)
                self._wait(lambda: self._is_on(system, refresh=True), self._options.power_seconds, "did not start")

    def power_off(self, timeout_seconds: float) -> None:
        """Shut down gracefully where time and controller allow it, and force off otherwise."""
        with bmc_errors(self.machine.name, "to end"):
            system = self._system()
            if not self._is_on(system):
                return
            graceful = sushy.ResetType.GRACEFUL_SHUTDOWN
            if timeout_seconds > 0 and graceful in system.get_allowed_reset_system_values():
                _reset(system, graceful)
                if _becomes(lambda: not self._is_on(system, refresh=True), timeout_seconds):
                    return
            _reset(system, sushy.ResetType.FORCE_OFF)
            seconds = self._options.power_seconds
            self._wait(lambda: not self._is_on(system, refresh=True), seconds, "does not go off")

    def interrupt(self) -> None:
        """Send the non-maskable interrupt, on which operating systems dump their memory."""
        with bmc_errors(self.machine.name, "to dump its memory"):
            _reset(self._system(), sushy.ResetType.NMI)

    # -- media

    def insert(self, image_url: str, config_url: str) -> None:
        """Insert the boot image, and the config drive where `config_url` is given; eject all other media."""
        name = self.machine.name
        with bmc_errors(name, "to insert media"):
            media = self._media()
            disc, other = _devices(media)
            if disc is None:
                raise DriverError(f"The controller of machine {name} has no virtual disc to boot from.")
            if config_url and other is None:
                raise DriverError(
                    f"The controller of machine {name} has one virtual medium and none for the config drive; "
                    f"the option config_drive = false leaves it out."
                )
            self._eject(media)
            for device, url in ((disc, image_url), (other, config_url)):
                if url:
                    device.insert_media(url)
                    self._wait_for_medium(device, True, "shows no media")

    def eject(self, *, only_disc: bool = False) -> None:
        with bmc_errors(self.machine.name, "to eject media"):
            media = self._media()
            self._eject([_devices(media)[0]] if only_disc else media)

    def boot_from_disc(self, *, always: bool) -> None:
        enabled = sushy.BootSourceOverrideEnabled.CONTINUOUS if always else sushy.BootSourceOverrideEnabled.ONCE
        with bmc_errors(self.machine.name, "to boot from a disc"):
            self._system().set_system_boot_options(target=sushy.BootSource.CD, enabled=enabled)

    def boot_as_set_up(self) -> None:
        """Remove the boot override."""
        with bmc_errors(self.machine.name, "to boot as it is set up"):
            system = self._system()
            allowed = system.get_allowed_system_boot_source_values()
            target = sushy.BootSource.NONE if sushy.BootSource.NONE in allowed else sushy.BootSource.HDD
            system.set_system_boot_options(target=target, enabled=sushy.BootSourceOverrideEnabled.DISABLED)

    def erase(self) -> None:
        """Erase all drives, one after the other; raises before the first when one of them cannot."""
        name = self.machine.name
        with bmc_errors(name, "to erase its drives"):
            system = self._system()
            targets = erase_targets(system)
            if not targets or None in targets:
                raise DriverError(f"Machine {name} has drives that cannot erase themselves.")
            for target in targets:
                self._connector.post(target, data={}, blocking=True, timeout=self._options.erase_seconds)

    # -- connection

    def _service(self) -> Any:
        with self._lock:
            if self._root is None:
                self._root = self._connected()
            return self._root

    def _connected(self) -> Any:
        machine, seconds = self.machine, self._options.request_seconds
        logging.getLogger("sushy").setLevel(logging.CRITICAL)  # it logs URLs of guests' media
        self._connector = sushy.connector.Connector(
            machine.bmc,
            verify=str(machine.ca_file) if machine.ca_file else machine.verify,
            server_side_retries=MAX_ATTEMPTS,
            server_side_retries_delay=POLL_SECONDS,
            default_request_timeout=seconds,
            connect_timeout=min(seconds, CONNECT_SECONDS),
        )
        auth = sushy.auth.SessionOrBasicAuth(username=machine.username, password=machine.password())
        return sushy.Sushy(machine.bmc, auth=auth, connector=self._connector)

    def _system(self) -> Any:
        """Return the machine's present resource."""
        try:
            return self._service().get_system(self.machine.system or None)
        except sushy.exceptions.AccessError:
            self.forget()  # read the password again at the next request
            raise

    def forget(self) -> None:
        """Drop the session; the next request connects again."""
        with self._lock:
            self._root = None

    def _media(self) -> list[Any]:
        """Return the virtual media. Newer controllers list them at the machine, older ones at the manager."""
        system = self._system()
        try:
            return list(system.virtual_media.get_members())
        except sushy.exceptions.MissingAttributeError:
            return [device for manager in system.managers for device in manager.virtual_media.get_members()]

    def _eject(self, devices: Iterable[Any]) -> None:
        for device in devices:
            if device is not None and device.inserted:
                device.eject_media()
                self._wait_for_medium(device, False, "did not let go of its media")  # sushy hides refusals

    def _wait_for_medium(self, device: Any, is_there: bool, failure: str) -> None:
        def is_so() -> bool:
            device.refresh(force=True)
            return bool(device.inserted) is is_there

        self._wait(is_so, self._options.request_seconds, failure)

    def _is_on(self, system: Any, *, refresh: bool = False) -> bool:
        if refresh:
            system.refresh(force=True)
        if system.power_state is None:
            raise DriverError(f"The controller of machine {self.machine.name} does not report whether it is on.")
        return bool(system.power_state != sushy.PowerState.OFF)

    def _wait(self, is_so: Callable[[], bool], seconds: float, failure: str) -> None:
        if not _becomes(is_so, seconds):
            raise DriverError(f"Machine {self.machine.name} {failure} within {seconds:g} seconds.")


def _reset(system: Any, *kinds: sushy.ResetType) -> None:
    """Reset by the first of `kinds` that the controller supports."""
    allowed = system.get_allowed_reset_system_values()
    system.reset_system(next((kind for kind in kinds if kind in allowed), kinds[0]))


def _devices(media: Iterable[Any]) -> tuple[Any, Any]:
    """Return the device to boot from and the one for the config drive; None for a missing one."""
    disc = next((device for device in media if DISC_TYPES & set(device.media_types or ())), None)
    rest = [device for device in media if device is not disc]
    fitting = [one for kinds in (STICK_TYPES, DISC_TYPES) for one in rest if kinds & set(one.media_types or ())]
    return disc, fitting[0] if fitting else None


def _becomes(is_so: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
