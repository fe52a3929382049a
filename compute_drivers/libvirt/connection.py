"""The connection to libvirt. It loads libvirt, so only a driver that starts imports it."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import libvirt

from compute_drivers.libvirt.guest import ALREADY_OFF, GONE, LibvirtGuest, ignoring
from compute_drivers.libvirt.migration_job import is_at, is_post_copy, location_of
from compute_drivers.libvirt.paths import Location
from conductor.core.compute_driver import GuestInfo
from conductor.core.errors import DriverError, GuestMissing
from conductor.core.states import PowerState

log = logging.getLogger(__name__)

UNDEFINE_FLAGS = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
)
MAX_CAUSE_LENGTH = 300
# Folders are removed from error messages: paths of the host are not for users.
FOLDERS = re.compile(r"(?:/[^\s/'\":,]+)+/(?=[^\s/])")

ANOTHER_HOSTS = "Another host of this hypervisor has the guest."

_event_loop_lock = threading.Lock()
_has_event_loop = False


class Connection:
    """An open hypervisor, safe to use from any thread. It sees the guests of one `host` only."""

    def __init__(self, uri: str, host: str) -> None:
        self._uri = uri
        self._host = host
        self._changed: Callable[[], None] | None = None
        self._listener: int | None = None
        self._lock = threading.Lock()
        self._handle: Any = None

    def open(self) -> None:
        """Connect. Later calls reconnect by themselves after the hypervisor went away. Raises DriverError."""
        _run_event_loop()
        self._open()

    def close(self) -> None:
        """Disconnect; guests keep running."""
        with self._lock:
            handle, self._handle = self._handle, None
            listener, self._listener = self._listener, None
        if handle is not None:
            with translated("be closed"):
                if listener is not None:  # it would keep the connection open
                    handle.domainEventDeregisterAny(listener)
                handle.close()

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` from one of libvirt's threads whenever a guest starts, ends or is paused."""
        handle = self._open()
        with self._lock, translated("list its guests"):
            self._changed = changed
            self._listen(handle)

    def _listen(self, handle: Any) -> None:
        changed = self._changed
        if changed is not None:
            kind = libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE
            self._listener = handle.domainEventRegisterAny(None, kind, lambda *_: changed(), None)

    def version(self) -> int:
        """Return QEMU's version as major * 1,000,000 + minor * 1,000 + release."""
        with translated("say its version"):
            return int(self._open().getVersion())

    def guests(self) -> list[GuestInfo]:
        """Return the guests of this host, running or not."""
        with translated("list the guests"):
            domains = self._open().listAllDomains(0)
            return [
                GuestInfo(domain.UUIDString(), LibvirtGuest(domain).power_state())
                for domain in domains
                if self._is_ours(domain)
            ]

    def is_running(self, instance_uuid: str) -> bool:
        """Return whether the guest is here and runs. Raises DriverError for a domain that is not ours."""
        with translated("look for the guest"):
            domain = self._find(instance_uuid)
            return domain is not None and LibvirtGuest(domain).power_state() is PowerState.RUNNING

    def require_unused(self, instance_uuid: str) -> None:
        """Raise DriverError where the hypervisor has a guest of this uuid that is not this host's."""
        with translated("look for the guest"):
            if self._find(instance_uuid) is None and self._look_up(instance_uuid) is not None:
                raise DriverError(ANOTHER_HOSTS)

    def has(self, instance_uuid: str) -> bool:
        """Return whether the guest is here, on or off."""
        with translated("look for the guest"):
            return self._find(instance_uuid) is not None

    @contextmanager
    def guest(self, instance_uuid: str, action: str) -> Iterator[LibvirtGuest]:
        """Yield the guest; `action` completes "The hypervisor could not …" in errors. Raises GuestMissing."""
        with translated(action):
            domain = self._find(instance_uuid)
            if domain is None:
                raise GuestMissing()
            yield LibvirtGuest(domain)

    @contextmanager
    def domain(self, instance_uuid: str, action: str) -> Iterator[Any]:
        """Yield libvirt's own handle of a guest, for `migration_job`."""
        with translated(action):
            domain = self._find(instance_uuid)
            if domain is None:
                raise GuestMissing()
            yield domain

    def location(self, instance_uuid: str) -> Location:
        """Return where the guest is in its migration, at one moment: two looks may see it on both sides of a switch."""
        with translated("look for the guest"):
            domain = self._find(instance_uuid)
            return Location.ABSENT if domain is None else location_of(domain)

    def is_post_copy(self, instance_uuid: str) -> bool:
        """Return whether the guest has switched to another host and fetches the rest of its memory from here."""
        with translated("look for the guest"):
            domain = self._find(instance_uuid)
            return domain is not None and is_post_copy(domain)

    @staticmethod
    def is_at(uri: str, instance_uuid: str) -> bool:
        """Return whether the guest has arrived at another hypervisor. Raises DriverError when that does not answer."""
        with translated("ask the other host for the guest"):
            return is_at(uri, instance_uuid)

    def define(self, domain_xml: str) -> None:
        """Redefine a guest; the definition applies from its next start on."""
        with translated("define the guest"):
            self._define(domain_xml)

    def start(self, domain_xml: str) -> None:
        """Define a domain and start it; one that does not start is undefined again."""
        with translated("start the guest"):
            domain = self._define(domain_xml)
            try:
                domain.create()
            except BaseException:
                _undefine(domain)
                raise

    def remove(self, instance_uuid: str) -> None:
        """End and undefine a guest; nothing where it is gone."""
        with translated("end the guest"):
            domain = self._find(instance_uuid)
            if domain is None:
                return
            with ignoring(ALREADY_OFF):
                domain.destroy()
            _undefine(domain)

    def _open(self) -> Any:
        with self._lock:
            if self._handle is None or not self._handle.isAlive():
                with translated("be opened"):
                    self._handle = libvirt.open(self._uri)
                    self._listen(self._handle)
            return self._handle

    def _define(self, domain_xml: str) -> Any:
        """Define a domain. Raises DriverError where the uuid belongs to a guest of another host."""
        uuid = ElementTree.fromstring(domain_xml).findtext("uuid", "")
        domain = self._look_up(uuid)
        if domain is not None and not self._is_ours(domain):
            raise DriverError(ANOTHER_HOSTS)
        return self._open().defineXML(domain_xml)

    def _find(self, instance_uuid: str) -> Any:
        """Return the domain; None where there is none, or where it belongs to another host.

        Raises DriverError for a domain that this driver did not create.
        """
        domain = self._look_up(instance_uuid)
        if domain is not None and not LibvirtGuest(domain).metadata():
            if self._look_up(instance_uuid) is None:
                return None  # removed meanwhile
            raise DriverError("An unmanaged guest has this instance's uuid.")
        return domain if domain is not None and self._is_ours(domain) else None

    def _look_up(self, instance_uuid: str) -> Any:
        handle = self._open()
        try:
            return handle.lookupByUUIDString(instance_uuid)
        except libvirt.libvirtError as error:
            if error.get_error_code() not in GONE:
                raise
            return None

    def _is_ours(self, domain: Any) -> bool:
        """Return whether the domain's metadata names this host, or no host as in an earlier release."""
        metadata = LibvirtGuest(domain).metadata()
        return bool(metadata) and metadata.get("host", self._host) == self._host


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Raise libvirt's errors as DriverError with the cause in one line; the whole text goes to the log."""
    try:
        yield
    except libvirt.libvirtError as error:
        text = str(error).strip()
        log.warning("libvirt failed: action=%s code=%s: %s", action, error.get_error_code(), text)
        cause = FOLDERS.sub("", (text.splitlines() or ["no reason given"])[0])
        raise DriverError(f"The hypervisor could not {action}: {cause[:MAX_CAUSE_LENGTH]}") from error


def _undefine(domain: Any) -> None:
    with ignoring(GONE):
        domain.undefineFlags(UNDEFINE_FLAGS)


def _run_event_loop() -> None:
    """Start libvirt's event loop, one for the process; libvirt needs it before the first connection is opened."""
    global _has_event_loop
    with _event_loop_lock:
        if _has_event_loop:
            return
        libvirt.registerErrorHandler(lambda *_: None, None)  # it would print errors to standard error
        libvirt.virEventRegisterDefaultImpl()
        threading.Thread(target=_run_forever, name="libvirt-events", daemon=True).start()
        _has_event_loop = True


def _run_forever() -> None:
    while True:
        try:
            libvirt.virEventRunDefaultImpl()
        except libvirt.libvirtError as error:
            log.error("libvirt event loop: %s", error)
            time.sleep(1.0)
