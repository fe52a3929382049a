"""A guest on its way from one libvirt to another while it runs. It speaks with libvirt, as `connection` does."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import libvirt
import libvirt_qemu

from compute_drivers.libvirt import leaving_xml, steering
from compute_drivers.libvirt.guest import ALREADY_OFF, GONE, passing_over
from compute_drivers.libvirt.options import POST_COPY, LibvirtOptions
from compute_drivers.libvirt.user_network import WiresOf
from conductor.core.compute_driver import NetworkPort
from conductor.core.errors import DriverError

POLL_SECONDS = 0.2
# MiB a second.
NO_BOUND = 1 << 20
# Paused by nobody, but because it has not arrived yet, or has just left.
BETWEEN_REASONS = {
    *(libvirt.VIR_DOMAIN_PAUSED_MIGRATION, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP),
    *(libvirt.VIR_DOMAIN_PAUSED_POSTCOPY, libvirt.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED),
}
# libvirt's daemons talk with each other, so that the move goes on when the one who asked for it is gone.
ALWAYS = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PEER2PEER
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    # It would refuse volumes on storage that it does not know as shared; the destination has looked for them.
    | libvirt.VIR_MIGRATE_UNSAFE
)
BY_TRANSPORT = {"native": 0, "tls": libvirt.VIR_MIGRATE_TLS, "tunnelled": libvirt.VIR_MIGRATE_TUNNELLED}
READABLE = libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE
SAME_FIGURES = (
    *("memory_total", "memory_processed", "memory_remaining"),
    *("disk_total", "disk_processed", "disk_remaining"),
)
# Sentence, share, figures.
Tell = Callable[[str, float | None, Mapping[str, int]], None]


class Standing(enum.Enum):
    """Where a domain is in its move, as one libvirt sees it."""

    ABSENT = enum.auto()
    BETWEEN = enum.auto()
    HERE = enum.auto()


def standing(domain: Any) -> Standing:
    """What went, and what has not been started yet, is absent."""
    state = reason = libvirt.VIR_DOMAIN_NOSTATE
    is_kept = False
    with passing_over(GONE):
        state, reason = domain.state()
        is_kept = bool(domain.isPersistent())
    if state == libvirt.VIR_DOMAIN_PAUSED and reason in BETWEEN_REASONS:
        return Standing.BETWEEN
    if state == libvirt.VIR_DOMAIN_SHUTOFF and (reason == libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED or not is_kept):
        return Standing.ABSENT
    return Standing.ABSENT if state == libvirt.VIR_DOMAIN_NOSTATE else Standing.HERE


def is_at(uri: str, instance_uuid: str) -> bool:
    """Whether the guest has arrived at another libvirt. Raises libvirtError when that cannot be asked."""
    there = libvirt.open(uri)
    try:
        domain = None
        with passing_over(GONE):
            domain = there.lookupByUUIDString(instance_uuid)
        return domain is not None and standing(domain) is Standing.HERE
    finally:
        there.close()


def job_of(domain: Any) -> dict[str, Any]:
    """The move of this domain that is under way; nothing where there is none."""
    with passing_over(ALREADY_OFF):
        stats = dict(domain.jobStats())
        if stats.get("operation") == libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT:
            return stats
    return {}


@dataclass
class Journey:
    """What is wanted of a move that is under way: until the switch it can be aborted, or be told not to wait."""

    options: LibvirtOptions
    ports: Sequence[NetworkPort] = ()
    wires: WiresOf | None = None
    is_aborted: bool = False
    is_forced: bool = False
    is_post_copy: bool = False
    downtime_ms: int = 0
    _done: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.downtime_ms = self.options.migration_downtime_ms

    def go(self, domain: Any, uuid: str, target: Mapping[str, Any], own: Mapping[str, str], tell: Tell) -> None:
        """Returns when the guest has arrived. Raises libvirtError; what `tell` raises aborts the move first."""
        plan, failed = self._plan(domain, target, own), list[Exception]()
        if self.options.migration_throttles:
            steering.begin_anew(domain)

        def migrate() -> None:
            try:
                domain.migrateToURI3(target["uri"], plan.parameters, plan.flags)
            except Exception as error:
                failed.append(error)

        moving = threading.Thread(target=migrate, name=f"migration-{uuid[:8]}", daemon=True)
        moving.start()
        self._follow(domain, lambda: not moving.is_alive(), tell)
        if failed:
            raise failed[0]

    def join(self, domain: Any, tell: Tell) -> None:
        """Wait for the end of a move that an earlier process began, as that was steered."""
        self._done.add("downtime")
        self.is_post_copy = steering.is_post_copy(domain)
        with suppress(libvirt.libvirtError):
            self.downtime_ms = domain.migrateGetMaxDowntime()
        self._follow(domain, lambda: not job_of(domain), tell)

    def _follow(self, domain: Any, is_over: Callable[[], bool], tell: Tell) -> None:
        unwanted: BaseException | None = None
        while not is_over():
            job: dict[str, Any] = {}
            with suppress(libvirt.libvirtError):  # a daemon that went: the move says so itself
                job = job_of(domain)
            self._steer(domain, job)
            if job and not self.is_aborted:
                try:
                    tell(*self._told(job))
                except BaseException as error:
                    unwanted, self.is_aborted = error, True
            time.sleep(POLL_SECONDS)
        if unwanted is not None:
            raise unwanted

    def _steer(self, domain: Any, job: Mapping[str, Any]) -> None:
        """An order that comes too early is given again with the next look."""
        if not job:
            return
        if self.is_aborted:
            with passing_over(ALREADY_OFF):  # it is at its end, or past the switch
                domain.abortJob()
        elif self.is_forced and job.get("memory_total"):
            self._once("force", self._switch_now, domain)
        self._once("downtime", lambda guest: guest.migrateSetMaxDowntime(self.downtime_ms), domain)

    def _switch_now(self, domain: Any) -> None:
        domain.migrateSetMaxSpeed(NO_BOUND)
        if self.options.migration_force == POST_COPY:
            domain.migrateStartPostCopy()
            self.is_post_copy = True
        else:
            domain.suspend()  # it goes on when it is there, or when the move fails

    def _told(self, job: Mapping[str, Any]) -> tuple[str, float | None, dict[str, int]]:
        """A job as progress. QEMU begins with the disks; what a guest writes meanwhile is sent again, in passes."""
        figures = {name: int(job[name]) for name in SAME_FIGURES if name in job}
        total, remaining = int(job.get("data_total", 0)), int(job.get("data_remaining", 0))
        share = (total - remaining) / total if total else None
        if not figures.get("memory_total"):
            return "copying disks", share, figures
        figures |= _of_passes(job) | {
            "downtime_limit_ms": self.downtime_ms,
            "is_post_copy_forced": int(self.options.migration_force == POST_COPY),
            "is_post_copy": int(self.is_post_copy),
        }
        return _sentence(figures), share, figures

    def _once(self, name: str, order: Callable[[Any], object], domain: Any) -> None:
        if name not in self._done:
            with suppress(libvirt.libvirtError):
                order(domain)
                self._done.add(name)

    def _plan(self, domain: Any, target: Mapping[str, Any], own: Mapping[str, str]) -> _Plan:
        options = self.options
        now = domain.XMLDesc(READABLE)
        paths = {path: target["places"][name] for name, path in own.items() if name in target["places"]}
        slots = _slots(domain)
        cards = leaving_xml.Cards(slots, self.ports, self.wires)
        moved = leaving_xml.rewritten(now, paths, target["host"], cards)
        parameters: dict[str, Any] = {
            libvirt.VIR_MIGRATE_PARAM_DEST_XML: moved,
            libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: moved,
        }
        flags = ALWAYS | BY_TRANSPORT[options.migration_transport]
        disks = leaving_xml.disks_in(now, own["folder"]) if target.get("is_block_migration", True) else {}
        if disks and options.migration_transport == "tunnelled":
            raise DriverError("A tunnel takes no disks, and the guest has some that the hosts do not share.")
        if disks:
            is_on_image = target["is_on_image"] and leaving_xml.is_on_image(disks)
            flags |= libvirt.VIR_MIGRATE_NON_SHARED_INC if is_on_image else libvirt.VIR_MIGRATE_NON_SHARED_DISK
            parameters[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = sorted(disks)
        if options.migration_throttles:
            flags |= libvirt.VIR_MIGRATE_AUTO_CONVERGE
        if options.may_post_copy:
            flags |= libvirt.VIR_MIGRATE_POSTCOPY
        if options.migration_mib_per_second:
            parameters[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = options.migration_mib_per_second
        if options.migration_transport != "tunnelled":
            parameters |= _addresses(target, has_disks=bool(disks))
        return _Plan(flags, parameters)


@dataclass(frozen=True)
class _Plan:
    flags: int
    parameters: Mapping[str, Any]


def _addresses(target: Mapping[str, Any], *, has_disks: bool) -> dict[str, str]:
    """Where the destination takes memory and disks; libvirt chooses what is not said."""
    found = {libvirt.VIR_MIGRATE_PARAM_URI: target["memory_uri"]}
    if has_disks:
        found[libvirt.VIR_MIGRATE_PARAM_DISKS_URI] = target["disks_uri"]
    return {name: uri for name, uri in found.items() if uri}


def _sentence(figures: Mapping[str, int]) -> str:
    if figures["is_post_copy"]:
        return "the guest fetches its memory at the destination"
    words = f"copying memory, pass {figures['memory_pass']}"
    if figures.get("memory_dirty_rate"):
        words += f", the guest changes {figures['memory_dirty_rate'] >> 20} MiB each second"
    if figures["throttle_percent"]:
        words += f" with {figures['throttle_percent']} % of its processors taken away"
    return words


def _slots(domain: Any) -> dict[str, int]:
    """The cards that the guest has now, by QEMU's names, and where: some were plugged, others unplugged."""
    answer = libvirt_qemu.qemuMonitorCommand(domain, '{"execute": "query-pci"}', 0)
    return leaving_xml.cards(answer)


def _of_passes(job: Mapping[str, Any]) -> dict[str, int]:
    """How quickly the guest changes its memory is counted from the end of the first pass on: before, 0 is no answer."""
    figures = {
        "memory_pass": max(1, int(job.get("memory_iteration", 0))),
        "throttle_percent": int(job.get("auto_converge_throttle", 0)),
    }
    if figures["memory_pass"] > 1:
        figures["memory_dirty_rate"] = int(job.get("memory_dirty_rate", 0)) * int(job.get("memory_page_size", 4096))
    if "downtime" in job:
        figures["downtime_ms"] = int(job["downtime"])
    return figures
