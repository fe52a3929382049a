"""QEMU guest agent: a program inside the guest that may be missing or not answer. It loads libvirt."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from itertools import islice
from typing import Any

import libvirt
import libvirt_qemu

from conductor.core.errors import DriverError

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10
# Timeout for reads during a request whose caller waits.
READ_TIMEOUT_SECONDS = 2
MAX_ADDRESSES = 64
# Value in the domain's metadata for an image with os_require_quiesce.
REQUIRED = "required"
NO_CHANNEL = libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED
NO_AGENT = {
    NO_CHANNEL,
    libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
    libvirt.VIR_ERR_AGENT_UNSYNCED,
    libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
}
NO_ANSWER = "No agent answers inside of the guest: its image needs hw_qemu_guest_agent=yes and the agent's program."


def set_password(domain: Any, user: str, password: str) -> None:
    """Set a user's password. Raises DriverError where no agent answers, libvirtError for what it refuses."""
    try:
        domain.agentSetResponseTimeout(TIMEOUT_SECONDS, 0)
        domain.setUserPassword(user, password, 0)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in NO_AGENT:
            raise
        raise DriverError(NO_ANSWER) from error


def addresses(domain: Any) -> dict[str, list[str]]:
    """Return the addresses of the guest's cards by MAC, without link-local ones; empty where no agent answers."""
    try:
        domain.agentSetResponseTimeout(READ_TIMEOUT_SECONDS, 0)
        interfaces = domain.interfaceAddresses(libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT, 0)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in NO_AGENT:
            log.info("guest addresses could not be read: %s: %s", domain.name(), error)
        return {}
    cards = ((str(card.get("hwaddr", "")).lower(), card.get("addrs") or ()) for card in interfaces.values())
    found = {mac: list(islice(_usable(one["addr"] for one in listed), MAX_ADDRESSES)) for mac, listed in cards}
    return {mac: listed for mac, listed in found.items() if mac and listed}


def _usable(texts: Iterable[str]) -> Iterator[str]:
    """Yield valid addresses; a guest may report anything."""
    for text in texts:
        with suppress(ValueError):
            address = ip_address(text)
            if not (address.is_loopback or address.is_link_local):
                yield str(address)


def require(domain: Any) -> None:
    """Raises DriverError when the agent does not answer, before a snapshot that needs it begins."""
    try:
        libvirt_qemu.qemuAgentCommand(domain, '{"execute": "guest-ping"}', TIMEOUT_SECONDS, 0)
    except libvirt.libvirtError as error:
        raise _quiesce_failed() from error


@contextmanager
def frozen_file_systems(domain: Any, *, is_required: bool) -> Iterator[None]:
    """Flush and freeze the guest's file systems inside the block.

    Where no agent answers nothing is frozen. Raises DriverError when freezing is required and fails.
    """
    try:
        domain.agentSetResponseTimeout(TIMEOUT_SECONDS, 0)
        domain.fsFreeze(None, 0)
    except libvirt.libvirtError as error:
        thaw(domain)  # some file systems may be frozen
        if is_required:
            raise _quiesce_failed() from error
        if error.get_error_code() != NO_CHANNEL:
            log.info("file systems of a guest were not frozen for its snapshot: %s: %s", domain.name(), error)
        yield
        return
    try:
        yield
    finally:
        thaw(domain)


def thaw(domain: Any) -> None:
    """Thaw the guest's file systems; nothing where none are frozen or no agent answers."""
    try:
        domain.fsThaw(None, 0)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in NO_AGENT:
            log.warning("the file systems of a guest could not be thawed: %s: %s", domain.name(), error)


def _quiesce_failed() -> DriverError:
    return DriverError(
        f"The guest's image asks that nothing is written during a snapshot (os_require_quiesce). {NO_ANSWER}"
    )
