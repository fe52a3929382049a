"""The service version: one integer that rises with every change of the messages between processes."""

from __future__ import annotations

from collections.abc import Mapping

SERVICE_VERSION_HISTORY = (
    "spawn_instance, destroy_instance; step_answered, step_progressed, host_reported, console_written: all 1.0",
    "a command for each verb of drivers, all 1.0; spawn_instance 1.1 (is_running); step_progressed 1.1 (figures)",
    "host_reported 1.1 (NUMA cells and PCI devices)",
    "consoles_offered 1.0",
    "swap_volume 1.0",
    "a guest's hardware (cells, pins, devices), in all commands that describe one: spawn_instance 1.2, others 1.1",
    "take_over_instance, hand_back_instance 1.0 (disks that hosts share)",
    "a port's network: spawn_instance 1.3, take_over_instance, attach_interface 1.1, others 1.2",
    "host_reported 1.2 (with the driver's report)",
    "a port's further addresses: spawn_instance 1.4, take_over_instance, attach_interface 1.2, others 1.3",
    "guests_counted 1.0",
    "steer_live_migration 1.0",
    "consoles_written 1.0 (of many guests at once)",
    "files, shared volumes: spawn_instance 1.5, take_over_instance 1.3, attach_volume, swap_volume 1.1, others 1.4",
    "keys_announced, refusals_counted 1.0 (signed envelopes)",
    "host_reported 1.3 (disks that it keeps for going back)",
    "select_destinations, destinations_selected, scheduler_reported 1.0 (schedulers that are called)",
    "check_build 1.0",
)

SERVICE_VERSION = len(SERVICE_VERSION_HISTORY)

_FIRST = ("spawn_instance", "destroy_instance", "step_answered", "step_progressed", "host_reported", "console_written")
_VERBS = (
    "rebuild_instance", "power_on", "power_off", "reboot_instance", "pause_instance", "unpause_instance",
    "suspend_instance", "resume_instance", "rescue_instance", "unrescue_instance", "set_admin_password",
    "trigger_crash_dump", "snapshot_instance", "attach_volume", "detach_volume", "attach_interface", "detach_interface",
    "migrate_out", "migrate_in", "confirm_migration", "revert_migration", "prepare_live_migration", "live_migrate",
    "finish_live_migration", "cancel_live_migration", "abort_live_migration", "force_live_migration",
)  # fmt: skip

DESCRIBING = (
    "rebuild_instance", "power_on", "reboot_instance", "resume_instance", "rescue_instance", "unrescue_instance",
    "migrate_out", "migrate_in", "revert_migration", "prepare_live_migration", "live_migrate", "finish_live_migration",
)  # fmt: skip

# Changes of each service version: messages that are new, or have a new version. Lines are only added.
BROUGHT: tuple[Mapping[str, str], ...] = (
    dict.fromkeys(_FIRST, "1.0"),
    {**dict.fromkeys(_VERBS, "1.0"), "spawn_instance": "1.1", "step_progressed": "1.1"},
    {"host_reported": "1.1"},
    {"consoles_offered": "1.0"},
    {"swap_volume": "1.0"},
    {**dict.fromkeys(DESCRIBING, "1.1"), "spawn_instance": "1.2"},
    {"take_over_instance": "1.0", "hand_back_instance": "1.0"},
    {
        **dict.fromkeys(DESCRIBING, "1.2"),
        "spawn_instance": "1.3",
        "take_over_instance": "1.1",
        "attach_interface": "1.1",
    },
    {"host_reported": "1.2"},
    {
        **dict.fromkeys(DESCRIBING, "1.3"),
        "spawn_instance": "1.4",
        "take_over_instance": "1.2",
        "attach_interface": "1.2",
    },
    {"guests_counted": "1.0"},
    {"steer_live_migration": "1.0"},
    {"consoles_written": "1.0"},
    {**dict.fromkeys(DESCRIBING, "1.4"), "spawn_instance": "1.5", "take_over_instance": "1.3"}
    | dict.fromkeys(("attach_volume", "swap_volume"), "1.1"),
    {"keys_announced": "1.0", "refusals_counted": "1.0"},
    {"host_reported": "1.3"},
    dict.fromkeys(("select_destinations", "destinations_selected", "scheduler_reported"), "1.0"),
    {"check_build": "1.0"},
)


def known_to(service_version: int) -> dict[str, str]:
    """Return the messages that a process of that service version understands, with the newest version of each."""
    return {name: version for brought in BROUGHT[:service_version] for name, version in brought.items()}
