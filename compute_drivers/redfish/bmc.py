"""One machine, as its management controller shows it: what it is, its power, its media, its drives.

Importing this needs sushy, so only a host that has started does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import sushy

from compute_drivers.redfish import figures
from compute_drivers.redfish.complaints import asked
from compute_drivers.redfish.figures import Figures
from compute_drivers.redfish.machines import Machine
from compute_drivers.redfish.options import RedfishOptions
from conductor.core.errors import DriverError

CONNECT_SECONDS = 10.0
POLL_SECONDS = 1.0
DISCS = {sushy.VIRTUAL_MEDIA_CD, sushy.VIRTUAL_MEDIA_DVD}
STICKS = {sushy.VIRTUAL_MEDIA_USBSTICK}
TRIES = 1  # who gave a command tries again by rule


class Bmc:
    """Each method is one or a few requests, and returns once the machine is as it was told to be.

    Raises DriverError with the first cause of what went wrong.
    """

    def __init__(self, machine: Machine, options: RedfishOptions) -> None:
        self.machine = machine
        self._options = options
        self._gate = threading.Lock()
        self._connector: Any = None
        self._root: Any = None

    # -- what it is

    def figures(self) -> Figures:
        with asked(self.machine.name, "what it is made of"):
            return figures.of(self._service(), self._system(), self.machine)

    def is_on(self) -> bool:
        """A machine in between is on: it is not to be touched."""
        with asked(self.machine.name, "its power"):
            return self._is_on(self._system())

    def can_clean(self) -> bool:
        """Whether each of its drives can be told to erase itself."""
        with asked(self.machine.name, "its drives"):
            targets = figures.erasers(self._system())
        return bool(targets) and None not in targets

    # -- power

    def power_on(self) -> None:
        with asked(self.machine.name, "to start"):
            system = self._system()
            if not self._is_on(system):
                _reset(system, sushy.ResetType.ON, sushy.ResetType.FORCE_ON)
                self._wait(lambda: self._is_on(system, anew=True), self._options.power_seconds, "did not start")

    def power_off(self, timeout_seconds: float) -> None:
        """First asked, where there is time and its controller can ask; then ended."""
        with asked(self.machine.name, "to end"):
            system = self._system()
            if not self._is_on(system):
                return
            asking = sushy.ResetType.GRACEFUL_SHUTDOWN
            if timeout_seconds > 0 and asking in system.get_allowed_reset_system_values():
                _reset(system, asking)
                if _becomes(lambda: not self._is_on(system, anew=True), timeout_seconds):
                    return
            _reset(system, sushy.ResetType.FORCE_OFF)
            seconds = self._options.power_seconds
            self._wait(lambda: not self._is_on(system, anew=True), seconds, "does not go off")

    def interrupt(self) -> None:
        """The interrupt on which systems dump their memory."""
        with asked(self.machine.name, "to dump its memory"):
            _reset(self._system(), sushy.ResetType.NMI)

    # -- media

    def insert(self, image_url: str, config_url: str) -> None:
        """The boot image, and the disc that tells the guest who it is where there is one. All other media go."""
        name = self.machine.name
        with asked(name, "to insert media"):
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
        with asked(self.machine.name, "to eject media"):
            media = self._media()
            self._eject([_devices(media)[0]] if only_disc else media)

    def boot_from_disc(self, *, always: bool) -> None:
        enabled = sushy.BootSourceOverrideEnabled.CONTINUOUS if always else sushy.BootSourceOverrideEnabled.ONCE
        with asked(self.machine.name, "to boot from a disc"):
            self._system().set_system_boot_options(target=sushy.BootSource.CD, enabled=enabled)

    def boot_as_set_up(self) -> None:
        """Forget what was said about booting."""
        with asked(self.machine.name, "to boot as it is set up"):
            system = self._system()
            allowed = system.get_allowed_system_boot_source_values()
            target = sushy.BootSource.NONE if sushy.BootSource.NONE in allowed else sushy.BootSource.HDD
            system.set_system_boot_options(target=target, enabled=sushy.BootSourceOverrideEnabled.DISABLED)

    def erase(self) -> None:
        """Every drive erases itself, one after the other; what cannot be erased is told before anything is."""
        name = self.machine.name
        with asked(name, "to erase its drives"):
            system = self._system()
            targets = figures.erasers(system)
            if not targets or None in targets:
                raise DriverError(f"Machine {name} has drives that cannot erase themselves.")
            for target in targets:
                self._connector.post(target, data={}, blocking=True, timeout=self._options.erase_seconds)

    # -- between the lines

    def _service(self) -> Any:
        with self._gate:
            if self._root is None:
                self._root = self._connected()
            return self._root

    def _connected(self) -> Any:
        machine, seconds = self.machine, self._options.request_seconds
        logging.getLogger("sushy").setLevel(logging.CRITICAL)  # it writes down where media of guests are
        self._connector = sushy.connector.Connector(
            machine.bmc,
            verify=str(machine.ca_file) if machine.ca_file else machine.verify,
            server_side_retries=TRIES,
            server_side_retries_delay=POLL_SECONDS,
            default_request_timeout=seconds,
            connect_timeout=min(seconds, CONNECT_SECONDS),
        )
        auth = sushy.auth.SessionOrBasicAuth(username=machine.username, password=machine.password())
        return sushy.Sushy(machine.bmc, auth=auth, connector=self._connector)

    def _system(self) -> Any:
        """As it is now."""
        try:
            return self._service().get_system(self.machine.system or None)
        except sushy.exceptions.AccessError:
            self.forget()  # the password may be another one by the next time
            raise

    def forget(self) -> None:
        with self._gate:
            self._root = None

    def _media(self) -> list[Any]:
        """Newer controllers have them at the machine, older ones at themselves."""
        system = self._system()
        try:
            return list(system.virtual_media.get_members())
        except sushy.exceptions.MissingAttributeError:
            return [device for manager in system.managers for device in manager.virtual_media.get_members()]

    def _eject(self, devices: Iterable[Any]) -> None:
        for device in devices:
            if device is not None and device.inserted:
                device.eject_media()
                self._wait_for_medium(device, False, "did not let go of its media")  # the library hides refusals

    def _wait_for_medium(self, device: Any, is_there: bool, complaint: str) -> None:
        def is_so() -> bool:
            device.refresh(force=True)
            return bool(device.inserted) is is_there

        self._wait(is_so, self._options.request_seconds, complaint)

    def _is_on(self, system: Any, *, anew: bool = False) -> bool:
        if anew:
            system.refresh(force=True)
        if system.power_state is None:
            raise DriverError(f"The controller of machine {self.machine.name} does not tell whether it is on.")
        return bool(system.power_state != sushy.PowerState.OFF)

    def _wait(self, is_so: Callable[[], bool], seconds: float, complaint: str) -> None:
        if not _becomes(is_so, seconds):
            raise DriverError(f"Machine {self.machine.name} {complaint} within {seconds:g} seconds.")


def _reset(system: Any, *kinds: sushy.ResetType) -> None:
    """By the first of `kinds` that its controller has."""
    allowed = system.get_allowed_reset_system_values()
    system.reset_system(next((kind for kind in kinds if kind in allowed), kinds[0]))


def _devices(media: Iterable[Any]) -> tuple[Any, Any]:
    """The one to boot from, and the one for the config drive; None for what there is not."""
    disc = next((device for device in media if DISCS & set(device.media_types or ())), None)
    rest = [device for device in media if device is not disc]
    fitting = [one for kinds in (STICKS, DISCS) for one in rest if kinds & set(one.media_types or ())]
    return disc, fitting[0] if fitting else None


def _becomes(is_so: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
