"""The agent inside of a guest, by its channel: a program of the guest's that may be there, or not, or not answer."""

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

# How long it may take to answer.
SECONDS = 10
# The same where somebody waits who only wants to look.
SECONDS_OF_A_LOOK = 2
MOST_ADDRESSES = 64
# In the description of a guest whose image says os_require_quiesce.
REQUIRED = "required"
NO_CHANNEL = libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED
NO_AGENT = {
    *(NO_CHANNEL, libvirt.VIR_ERR_AGENT_UNRESPONSIVE),
    *(libvirt.VIR_ERR_AGENT_UNSYNCED, libvirt.VIR_ERR_CONFIG_UNSUPPORTED),
}
NOBODY = "No agent answers inside of the guest: its image needs hw_qemu_guest_agent=yes and the agent's program."


def set_password(domain: Any, user: str, password: str) -> None:
    """Raises DriverError where no agent answers, libvirtError for what it refuses."""
    try:
        domain.agentSetResponseTimeout(SECONDS, 0)
        domain.setUserPassword(user, password, 0)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in NO_AGENT:
            raise
        raise DriverError(NOBODY) from error


def addresses(domain: Any) -> dict[str, list[str]]:
    """What the guest's cards have by its own word, by MAC; nothing where no agent answers. No link-local ones."""
    try:
        domain.agentSetResponseTimeout(SECONDS_OF_A_LOOK, 0)
        told = domain.interfaceAddresses(libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT, 0)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in NO_AGENT:
            log.info("a guest does not tell its addresses: %s: %s", domain.name(), error)
        return {}
    cards = ((str(card.get("hwaddr", "")).lower(), card.get("addrs") or ()) for card in told.values())
    found = {mac: list(islice(_real(one["addr"] for one in has), MOST_ADDRESSES)) for mac, has in cards}
    return {mac: has for mac, has in found.items() if mac and has}


def _real(told: Iterable[str]) -> Iterator[str]:
    """A guest may say anything."""
    for text in told:
        with suppress(ValueError):
            address = ip_address(text)
            if not (address.is_loopback or address.is_link_local):
                yield str(address)


def require(domain: Any) -> None:
    """Before much is done: raises DriverError when the guest could not be made to stand still."""
    try:
        libvirt_qemu.qemuAgentCommand(domain, '{"execute": "guest-ping"}', SECONDS, 0)
    except libvirt.libvirtError as error:
        raise _must_be_still() from error


@contextmanager
def standing_still(domain: Any, *, must_be: bool) -> Iterator[None]:
    """What the guest has written is on its disks, and it writes no more until this ends.

    One without an agent goes on as it is. Raises DriverError when that is not good enough.
    """
    try:
        domain.agentSetResponseTimeout(SECONDS, 0)
        domain.fsFreeze(None, 0)
    except libvirt.libvirtError as error:
        go_on(domain)  # it may have come half the way
        if must_be:
            raise _must_be_still() from error
        if error.get_error_code() != NO_CHANNEL:
            log.info("a guest does not stand still for its snapshot: %s: %s", domain.name(), error)
        yield
        return
    try:
        yield
    finally:
        go_on(domain)


def go_on(domain: Any) -> None:
    """The guest writes again; one that did not stand still, or has no agent, is as good."""
    try:
        domain.fsThaw(None, 0)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in NO_AGENT:
            log.warning("the file systems of a guest could not be thawed: %s: %s", domain.name(), error)


def _must_be_still() -> DriverError:
    return DriverError(
        f"The guest's image asks that nothing is written during a snapshot (os_require_quiesce). {NOBODY}"
    )
