"""The connection with libvirt. Import it when one is wanted, not before."""

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

from compute_drivers.libvirt.guest import ALREADY_OFF, GONE, Guest, passing_over
from compute_drivers.libvirt.migration import Standing, is_at, standing
from compute_drivers.libvirt.steering import is_post_copy
from conductor.core.compute_driver import GuestInfo
from conductor.core.errors import DriverError, GuestMissing
from conductor.core.states import PowerState

log = logging.getLogger(__name__)

EVERYTHING = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
)
LONGEST_CAUSE = 300
# Where things lie on a host is the operator's to know; the name of the file is enough for others.
FOLDERS = re.compile(r"(?:/[^\s/'\":,]+)+/(?=[^\s/])")

_event_loop_gate = threading.Lock()
_has_event_loop = False


class Connection:
    """An open hypervisor, which any thread may use. Guests of another `host` of ours are none of ours."""

    def __init__(self, uri: str, host: str) -> None:
        self._uri = uri
        self._host = host
        self._changed: Callable[[], None] | None = None
        self._listener: int | None = None
        self._gate = threading.Lock()
        self._handle: Any = None

    def open(self) -> None:
        """Connect, or connect again after the hypervisor went away. Raises DriverError."""
        _run_event_loop()
        self._open()

    def close(self) -> None:
        """Let go; guests run on."""
        with self._gate:
            handle, self._handle = self._handle, None
            listener, self._listener = self._listener, None
        if handle is not None:
            with translated("be closed"):
                if listener is not None:  # it would keep the connection open
                    handle.domainEventDeregisterAny(listener)
                handle.close()

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed`, from a thread of libvirt's, whenever a guest starts, ends or stands still."""
        handle = self._open()
        with self._gate, translated("tell of its guests"):
            self._changed = changed
            self._listen(handle)

    def _listen(self, handle: Any) -> None:
        changed = self._changed
        if changed is not None:
            kind = libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE
            self._listener = handle.domainEventRegisterAny(None, kind, lambda *_: changed(), None)

    def version(self) -> int:
        """QEMU's: major * 1,000,000 + minor * 1,000 + release."""
        with translated("say its version"):
            return int(self._open().getVersion())

    def guests(self) -> list[GuestInfo]:
        """Our guests, running or not."""
        with translated("list the guests"):
            domains = self._open().listAllDomains(0)
            return [
                GuestInfo(domain.UUIDString(), Guest(domain).power_state())
                for domain in domains
                if self._is_ours(domain)
            ]

    def is_running(self, instance_uuid: str) -> bool:
        """Whether it is there and runs. Raises DriverError when the uuid is a domain of somebody else's."""
        with translated("look for the guest"):
            domain = self._find(instance_uuid)
            return domain is not None and Guest(domain).power_state() is PowerState.RUNNING

    def has(self, instance_uuid: str) -> bool:
        """Whether it is there, on or off."""
        with translated("look for the guest"):
            return self._find(instance_uuid) is not None

    @contextmanager
    def guest(self, instance_uuid: str, doing: str) -> Iterator[Guest]:
        """The guest, for `doing` something with it: a few words for the error. Raises GuestMissing."""
        with translated(doing):
            domain = self._find(instance_uuid)
            if domain is None:
                raise GuestMissing()
            yield Guest(domain)

    @contextmanager
    def domain(self, instance_uuid: str, doing: str) -> Iterator[Any]:
        """As `guest`, but libvirt's own handle, for `migration`."""
        with translated(doing):
            domain = self._find(instance_uuid)
            if domain is None:
                raise GuestMissing()
            yield domain

    def is_here(self, instance_uuid: str) -> bool:
        """Whether it is there and is not coming or going."""
        return self._standing(instance_uuid) is Standing.HERE

    def is_between(self, instance_uuid: str) -> bool:
        """Whether it stands still because it has not arrived here yet, or has just left."""
        return self._standing(instance_uuid) is Standing.BETWEEN

    def is_post_copy(self, instance_uuid: str) -> bool:
        """Whether it has switched to another host, and fetches the rest of its memory from here."""
        with translated("look for the guest"):
            domain = self._find(instance_uuid)
            return domain is not None and is_post_copy(domain)

    @staticmethod
    def is_at(uri: str, instance_uuid: str) -> bool:
        """Whether the guest has arrived at another hypervisor. Raises DriverError when that one cannot be asked."""
        with translated("ask the other host for the guest"):
            return is_at(uri, instance_uuid)

    def _standing(self, instance_uuid: str) -> Standing:
        with translated("look for the guest"):
            domain = self._find(instance_uuid)
            return Standing.ABSENT if domain is None else standing(domain)

    def define(self, domain_xml: str) -> None:
        """Say anew what a guest is; it counts from its next start on."""
        with translated("define the guest"):
            self._define(domain_xml)

    def start(self, domain_xml: str) -> None:
        """Define a domain and start it; one that does not start is forgotten again."""
        with translated("start the guest"):
            domain = self._define(domain_xml)
            try:
                domain.create()
            except BaseException:
                _forget(domain)
                raise

    def remove(self, instance_uuid: str) -> None:
        """End and forget a guest; one that is gone is as good."""
        with translated("end the guest"):
            domain = self._find(instance_uuid)
            if domain is None:
                return
            with passing_over(ALREADY_OFF):
                domain.destroy()
            _forget(domain)

    def _open(self) -> Any:
        with self._gate:
            if self._handle is None or not self._handle.isAlive():
                with translated("be opened"):
                    self._handle = libvirt.open(self._uri)
                    self._listen(self._handle)
            return self._handle

    def _define(self, domain_xml: str) -> Any:
        """Raises DriverError rather than say anew what a guest of another host is."""
        uuid = ElementTree.fromstring(domain_xml).findtext("uuid", "")
        domain = self._look_up(uuid)
        if domain is not None and not self._is_ours(domain):
            raise DriverError("Another host of this hypervisor has the guest.")
        return self._open().defineXML(domain_xml)

    def _find(self, instance_uuid: str) -> Any:
        """The domain; None when there is none, or when it is another host's of ours."""
        domain = self._look_up(instance_uuid)
        if domain is not None and not Guest(domain).mark():
            if self._look_up(instance_uuid) is None:
                return None  # it went while it was looked at
            raise DriverError("A guest of somebody else has this instance's uuid.")
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
        """By the mark in its description; one that names no host is of an earlier release."""
        mark = Guest(domain).mark()
        return bool(mark) and mark.get("host", self._host) == self._host


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """libvirt's errors as DriverError: the cause in one line for the user, all of it in the log."""
    try:
        yield
    except libvirt.libvirtError as error:
        text = str(error).strip()
        log.warning("libvirt failed: doing=%s code=%s: %s", doing, error.get_error_code(), text)
        cause = FOLDERS.sub("", (text.splitlines() or ["no reason given"])[0])
        raise DriverError(f"The hypervisor could not {doing}: {cause[:LONGEST_CAUSE]}") from error


def _forget(domain: Any) -> None:
    with passing_over(GONE):
        domain.undefineFlags(EVERYTHING)


def _run_event_loop() -> None:
    """One loop serves every connection of the process; libvirt wants it before the first is opened."""
    global _has_event_loop
    with _event_loop_gate:
        if _has_event_loop:
            return
        libvirt.registerErrorHandler(lambda *_: None, None)  # it would print what we raise
        libvirt.virEventRegisterDefaultImpl()
        threading.Thread(target=_turn_forever, name="libvirt-events", daemon=True).start()
        _has_event_loop = True


def _turn_forever() -> None:
    while True:
        try:
            libvirt.virEventRunDefaultImpl()
        except libvirt.libvirtError as error:
            log.error("libvirt event loop: %s", error)
            time.sleep(1.0)
