"""Orders for a move that is under way, as libvirt and QEMU take them. It speaks with libvirt, as `migration` does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import libvirt
import libvirt_qemu

from compute_drivers.libvirt.guest import GONE, passing_over
from conductor.core.errors import DriverError
from conductor.core.live_steering import DOWNTIME, POST_COPY, THROTTLE

Job = Mapping[str, Any]
FETCHING = {libvirt.VIR_DOMAIN_PAUSED_POSTCOPY, libvirt.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED}
# What QEMU has by itself. libvirt puts the other parameters back after a move, and does not know these.
AT_FIRST = {"max-cpu-throttle": 99, "throttle-trigger-threshold": 50}


def is_post_copy(domain: Any) -> bool:
    """Whether the guest goes on at the destination already, and fetches the rest of its memory from here."""
    state = reason = libvirt.VIR_DOMAIN_NOSTATE
    with passing_over(GONE):
        state, reason = domain.state()
    return bool(state == libvirt.VIR_DOMAIN_PAUSED and reason in FETCHING)


def steer(domain: Any, job: Job, kind: str, amount: int) -> None:
    """Carry out an order of core.live_steering. Raises DriverError and libvirtError."""
    if not job:
        raise DriverError("No live migration of the guest is under way on this host.")
    if not is_post_copy(domain):
        _ORDERS[kind](domain, job, amount)
    elif kind != POST_COPY:
        raise DriverError("The guest has switched to post-copy: nothing of its move can be changed any more.")


def begin_anew(domain: Any) -> None:
    """Forget what was ordered of an earlier move that came to nothing."""
    with suppress(libvirt.libvirtError, DriverError):
        _set_parameters(domain, AT_FIRST)


def _let_it_stand_still(domain: Any, job: Job, amount: int) -> None:
    domain.migrateSetMaxDowntime(amount)


def _throttle(domain: Any, job: Job, amount: int) -> None:
    """QEMU looks at these at the end of each pass, and takes processors away where the guest has changed any memory.

    It begins with the first, adds the second, and stays below the third.
    """
    can = {one["capability"]: one["state"] for one in _ask(domain, "query-migrate-capabilities")}
    if not can.get("auto-converge"):
        raise DriverError("The move began without throttling, and QEMU takes it for no other.")
    names = ("cpu-throttle-initial", "cpu-throttle-increment", "max-cpu-throttle")
    _set_parameters(domain, {**dict.fromkeys(names, amount), "throttle-trigger-threshold": 1})


def _let_it_go_on_there(domain: Any, job: Job, amount: int) -> None:
    if not job.get("memory_total"):
        raise DriverError("The guest's disks are still being copied: post-copy is for when its memory moves.")
    domain.migrateStartPostCopy()


def _set_parameters(domain: Any, values: Mapping[str, int]) -> None:
    _ask(domain, "migrate-set-parameters", **values)


def _ask(domain: Any, command: str, **arguments: int) -> Any:
    words = {"execute": command, **({"arguments": arguments} if arguments else {})}
    answer = json.loads(libvirt_qemu.qemuMonitorCommand(domain, json.dumps(words), 0))
    if "error" in answer:
        raise DriverError(f"QEMU cannot throttle the guest: {answer['error'].get('desc', '')[:200]}")
    return answer["return"]


_ORDERS: Mapping[str, Callable[[Any, Job, int], None]] = {
    DOWNTIME: _let_it_stand_still,
    THROTTLE: _throttle,
    POST_COPY: _let_it_go_on_there,
}
