"""One live migration between two libvirt daemons: start, follow, steer, abort. It loads libvirt."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import libvirt
import libvirt_qemu

from compute_drivers.libvirt import migration_xml
from compute_drivers.libvirt.guest import ALREADY_OFF, GONE, ignoring
from compute_drivers.libvirt.options import FORCE_BY_POST_COPY, LibvirtOptions
from compute_drivers.libvirt.paths import Location
from compute_drivers.libvirt.qemu_network import BackendOf
from conductor.core.compute_driver import NetworkPort
from conductor.core.errors import DriverError
from conductor.core.live_steering import DOWNTIME, POST_COPY, THROTTLE
from conductor.core.messages import message

POLL_SECONDS = 0.2
UNLIMITED_MIB_PER_SECOND = 1 << 20
# Reasons for which a domain is paused before it has arrived, or just after it has left.
IN_MIGRATION_REASONS = {
    libvirt.VIR_DOMAIN_PAUSED_MIGRATION,
    libvirt.VIR_DOMAIN_PAUSED_STARTING_UP,
    libvirt.VIR_DOMAIN_PAUSED_POSTCOPY,
    libvirt.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED,
}
POST_COPY_REASONS = {libvirt.VIR_DOMAIN_PAUSED_POSTCOPY, libvirt.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED}
# Peer to peer: the daemons talk with each other, so a migration continues when the agent that started it is gone.
BASE_FLAGS = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PEER2PEER
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    # Without it libvirt refuses volumes on storage that it does not know as shared; the destination has checked them.
    | libvirt.VIR_MIGRATE_UNSAFE
)
TRANSPORT_FLAGS = {"native": 0, "tls": libvirt.VIR_MIGRATE_TLS, "tunnelled": libvirt.VIR_MIGRATE_TUNNELLED}
XML_FLAGS = libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE
# Statistics that are reported under libvirt's own names, in bytes.
REPORTED_STATS = (
    "memory_total",
    "memory_processed",
    "memory_remaining",
    "disk_total",
    "disk_processed",
    "disk_remaining",
)
# QEMU's defaults. libvirt restores the other parameters after a migration and does not know these.
THROTTLE_DEFAULTS = {"max-cpu-throttle": 99, "throttle-trigger-threshold": 50}
# Message, share, figures.
ReportProgress = Callable[[str, float | None, Mapping[str, int]], None]
JobStats = Mapping[str, Any]


def location_of(domain: Any) -> Location:
    """Return where the domain is; one that has left or was not started yet is ABSENT."""
    state = reason = libvirt.VIR_DOMAIN_NOSTATE
    is_persistent = False
    with ignoring(GONE):
        state, reason = domain.state()
        is_persistent = bool(domain.isPersistent())
    if state == libvirt.VIR_DOMAIN_PAUSED and reason in IN_MIGRATION_REASONS:
        return Location.BETWEEN
    if state == libvirt.VIR_DOMAIN_SHUTOFF and (reason == libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED or not is_persistent):
        return Location.ABSENT
    return Location.ABSENT if state == libvirt.VIR_DOMAIN_NOSTATE else Location.HERE


def is_at(uri: str, instance_uuid: str) -> bool:
    """Return whether the guest has arrived at the libvirt at `uri`. Raises libvirtError when it does not answer."""
    connection = libvirt.open(uri)
    try:
        domain = None
        with ignoring(GONE):
            domain = connection.lookupByUUIDString(instance_uuid)
        return domain is not None and location_of(domain) is Location.HERE
    finally:
        connection.close()


def is_post_copy(domain: Any) -> bool:
    """Return whether the guest runs at the destination already and fetches the rest of its memory from here."""
    state = reason = libvirt.VIR_DOMAIN_NOSTATE
    with ignoring(GONE):
        state, reason = domain.state()
    return bool(state == libvirt.VIR_DOMAIN_PAUSED and reason in POST_COPY_REASONS)


def job_stats(domain: Any) -> dict[str, Any]:
    """Return the statistics of the domain's outgoing migration; empty where there is none."""
    with ignoring(ALREADY_OFF):
        stats = dict(domain.jobStats())
        if stats.get("operation") == libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT:
            return stats
    return {}


@dataclass
class MigrationJob:
    """A migration that this process runs or follows. Until the switch it can be aborted, forced and steered."""

    options: LibvirtOptions
    ports: Sequence[NetworkPort] = ()
    backends: BackendOf | None = None
    is_aborted: bool = False
    is_forced: bool = False
    is_post_copy: bool = False
    downtime_ms: int = 0
    _done: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.downtime_ms = self.options.migration_downtime_ms

    def run(
        self, domain: Any, uuid: str, target: Mapping[str, Any], own: Mapping[str, str], report: ReportProgress
    ) -> None:
        """Send the guest; returns when it has arrived. `own` is the source's path table.

        Raises libvirtError, and what `report` raises after aborting the migration.
        """
        request, failures = self._request(domain, target, own), list[Exception]()
        if self.options.migration_throttles:
            _reset_throttle(domain)

        def migrate() -> None:
            try:
                domain.migrateToURI3(target["uri"], request.parameters, request.flags)
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=migrate, name=f"migration-{uuid[:8]}", daemon=True)
        thread.start()
        self._follow(domain, lambda: not thread.is_alive(), report)
        if failures:
            raise failures[0]

    def join(self, domain: Any, report: ReportProgress) -> None:
        """Wait for the end of a migration that an earlier process started, with the settings that it has."""
        self._done.add("downtime")
        self.is_post_copy = is_post_copy(domain)
        with suppress(libvirt.libvirtError):
            self.downtime_ms = domain.migrateGetMaxDowntime()
        self._follow(domain, lambda: not job_stats(domain), report)

    def _follow(self, domain: Any, is_over: Callable[[], bool], report: ReportProgress) -> None:
        failure: BaseException | None = None
        while not is_over():
            stats: dict[str, Any] = {}
            with suppress(libvirt.libvirtError):  # a daemon that is gone: the migration itself reports that
                stats = job_stats(domain)
            self._apply_requests(domain, stats)
            if stats and not self.is_aborted:
                try:
                    report(*self._progress(stats))
                except BaseException as error:
                    failure, self.is_aborted = error, True
            time.sleep(POLL_SECONDS)
        if failure is not None:
            raise failure

    def _apply_requests(self, domain: Any, stats: JobStats) -> None:
        """Abort, force or set the downtime; what libvirt refuses as too early is repeated at the next poll."""
        if not stats:
            return
        if self.is_aborted:
            with ignoring(ALREADY_OFF):  # it is at its end, or past the switch
                domain.abortJob()
        elif self.is_forced and stats.get("memory_total"):
            self._once("force", self._switch_now, domain)
        self._once("downtime", lambda guest: guest.migrateSetMaxDowntime(self.downtime_ms), domain)

    def _switch_now(self, domain: Any) -> None:
        domain.migrateSetMaxSpeed(UNLIMITED_MIB_PER_SECOND)
        if self.options.migration_force == FORCE_BY_POST_COPY:
            domain.migrateStartPostCopy()
            self.is_post_copy = True
        else:
            domain.suspend()  # it continues at the destination, or here when the migration fails

    def _progress(self, stats: JobStats) -> tuple[str, float | None, dict[str, int]]:
        """Return message, share and figures. QEMU starts with the disks; memory that changes is sent again."""
        figures = {name: int(stats[name]) for name in REPORTED_STATS if name in stats}
        total, remaining = int(stats.get("data_total", 0)), int(stats.get("data_remaining", 0))
        share = (total - remaining) / total if total else None
        if not figures.get("memory_total"):
            return "copying disks", share, figures
        figures |= _pass_figures(stats) | {
            "downtime_limit_ms": self.downtime_ms,
            "is_post_copy_forced": int(self.options.migration_force == FORCE_BY_POST_COPY),
            "is_post_copy": int(self.is_post_copy),
        }
        return _progress_message(figures), share, figures

    def _once(self, name: str, request: Callable[[Any], object], domain: Any) -> None:
        if name not in self._done:
            with suppress(libvirt.libvirtError):
                request(domain)
                self._done.add(name)

    def _request(self, domain: Any, target: Mapping[str, Any], own: Mapping[str, str]) -> _MigrationRequest:
        options = self.options
        now = domain.XMLDesc(XML_FLAGS)
        paths = {path: target["places"][name] for name, path in own.items() if name in target["places"]}
        nics = migration_xml.Nics(_nic_slots(domain), self.ports, self.backends)
        moved = migration_xml.rewrite(now, paths, target["host"], nics)
        parameters: dict[str, Any] = {
            libvirt.VIR_MIGRATE_PARAM_DEST_XML: moved,
            libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: moved,
        }
        flags = BASE_FLAGS | TRANSPORT_FLAGS[options.migration_transport]
        disks = migration_xml.own_disks(now, own["folder"]) if target.get("is_block_migration", True) else {}
        if disks and options.migration_transport == "tunnelled":
            raise DriverError("A tunnel takes no disks, and the guest has some that the hosts do not share.")
        if disks:
            is_on_image = target["is_on_image"] and migration_xml.is_on_image(disks)
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
        return _MigrationRequest(flags, parameters)


@dataclass(frozen=True)
class _MigrationRequest:
    flags: int
    parameters: Mapping[str, Any]


def _addresses(target: Mapping[str, Any], *, has_disks: bool) -> dict[str, str]:
    """Return where the destination receives memory and disks; libvirt chooses what is empty."""
    uris = {libvirt.VIR_MIGRATE_PARAM_URI: target["memory_uri"]}
    if has_disks:
        uris[libvirt.VIR_MIGRATE_PARAM_DISKS_URI] = target["disks_uri"]
    return {name: uri for name, uri in uris.items() if uri}


def _progress_message(figures: Mapping[str, int]) -> str:
    if figures["is_post_copy"]:
        return "the guest fetches its memory at the destination"
    words = f"copying memory, pass {figures['memory_pass']}"
    if figures.get("memory_dirty_rate"):
        words += f", the guest changes {figures['memory_dirty_rate'] >> 20} MiB each second"
    if figures["throttle_percent"]:
        words += f" with {figures['throttle_percent']} % of its processors taken away"
    return words


def _nic_slots(domain: Any) -> dict[str, int]:
    """Return the PCI slots of the guest's present network cards, by QEMU's names."""
    return migration_xml.nic_slots(libvirt_qemu.qemuMonitorCommand(domain, '{"execute": "query-pci"}', 0))


def _pass_figures(stats: JobStats) -> dict[str, int]:
    """Return the figures of the present pass. The dirty rate is known from the end of the first pass on."""
    figures = {
        "memory_pass": max(1, int(stats.get("memory_iteration", 0))),
        "throttle_percent": int(stats.get("auto_converge_throttle", 0)),
    }
    if figures["memory_pass"] > 1:
        page_bytes = int(stats.get("memory_page_size", 4096))
        figures["memory_dirty_rate"] = int(stats.get("memory_dirty_rate", 0)) * page_bytes
    if "downtime" in stats:
        figures["downtime_ms"] = int(stats["downtime"])
    return figures


# -- steering: changes to a running migration (conductor.core.live_steering)


def steer(domain: Any, stats: JobStats, kind: str, amount: int) -> None:
    """Change a running migration. Raises DriverError and libvirtError."""
    if not stats:
        raise DriverError(message("migration.none_on_host"))
    if not is_post_copy(domain):
        _STEERINGS[kind](domain, stats, amount)
    elif kind != POST_COPY:
        raise DriverError(message("migration.no_change"))


def _reset_throttle(domain: Any) -> None:
    """Restore QEMU's defaults after an earlier migration that was throttled and failed."""
    with suppress(libvirt.libvirtError, DriverError):
        _set_parameters(domain, THROTTLE_DEFAULTS)


def _set_downtime(domain: Any, stats: JobStats, milliseconds: int) -> None:
    domain.migrateSetMaxDowntime(milliseconds)


def _throttle(domain: Any, stats: JobStats, percent: int) -> None:
    """Take `percent` of the guest's processors away.

    QEMU reads the parameters at the end of each pass. It starts at the initial value, adds the increment, and stays
    below the maximum.
    """
    capabilities = {one["capability"]: one["state"] for one in _ask(domain, "query-migrate-capabilities")}
    if not capabilities.get("auto-converge"):
        raise DriverError(message("migration.no_throttling"))
    names = ("cpu-throttle-initial", "cpu-throttle-increment", "max-cpu-throttle")
    _set_parameters(domain, {**dict.fromkeys(names, percent), "throttle-trigger-threshold": 1})


def _start_post_copy(domain: Any, stats: JobStats, amount: int) -> None:
    if not stats.get("memory_total"):
        raise DriverError(message("migration.copies_disks"))
    domain.migrateStartPostCopy()


def _set_parameters(domain: Any, values: Mapping[str, int]) -> None:
    _ask(domain, "migrate-set-parameters", **values)


def _ask(domain: Any, command: str, **arguments: int) -> Any:
    request = {"execute": command, **({"arguments": arguments} if arguments else {})}
    answer = json.loads(libvirt_qemu.qemuMonitorCommand(domain, json.dumps(request), 0))
    if "error" in answer:
        raise DriverError(f"QEMU cannot throttle the guest: {answer['error'].get('desc', '')[:200]}")
    return answer["return"]


_STEERINGS: Mapping[str, Callable[[Any, JobStats, int], None]] = {
    DOWNTIME: _set_downtime,
    THROTTLE: _throttle,
    POST_COPY: _start_post_copy,
}
