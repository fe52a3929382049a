"""Messages to a conductor: from the compute agents of its cell, and from schedulers."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from conductor.rpc.codec import message


@message("step_answered", version="1.0")
class StepAnswered:
    """The result of one command. `error` is {"class", "message", "is_reschedulable"} unless it succeeded."""

    step_key: str
    run_uuid: str
    fencing_token: int
    host: str
    ok: bool
    result: dict[str, Any]
    error: dict[str, Any] | None = None


@message("step_progressed", version="1.1")
class StepProgressed:
    """Progress of a long command. The sender limits how often it is sent. `share` is between 0 and 1 where it is known.

    `figures` are amounts by name, such as {"memory_remaining": bytes}.
    """

    step_key: str
    run_uuid: str
    fencing_token: int
    host: str
    message: str
    share: float | None = None
    figures: dict[str, int] = field(default_factory=dict)


@message("host_reported", version="1.3")
class HostReported:
    """A report of a living agent. `report` is core.NodeReport as JSON. `guests` has power states by instance uuid.

    1.1: the report has the host's NUMA cells and PCI devices. 1.2: `driver_statistics` are the driver's calls, errors
    and own lines since the report before. 1.3: `kept` are the uuids of instances whose disks the host keeps for a
    revert.

    `report_number` rises with each report of one agent. An outdated report is ignored.
    """

    host: str
    cell: str
    driver: str
    is_simulated: bool
    service_version: int
    report_number: int
    availability_zone: str
    report: dict[str, Any]
    guests: dict[str, int]
    driver_statistics: dict[str, Any] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)


@message("console_written", version="1.0")
class ConsoleWritten:
    """New text on a guest's serial console, from byte `offset` on. Current agents send `ConsolesWritten`."""

    host: str
    instance_uuid: str
    offset: int
    text: str


@message("consoles_written", version="1.0")
class ConsolesWritten:
    """New text on the serial consoles of a host's guests: {"instance_uuid", "offset", "text"} for each, as above."""

    host: str
    pieces: list[dict[str, Any]]


@message("consoles_offered", version="1.0")
class ConsolesOffered:
    """Address of a host's console relay: `fingerprint` is its certificate's, `key` a secret."""

    host: str
    address: str
    tcp_port: int
    fingerprint: str
    key: str


@message("guests_counted", version="1.0")
class GuestsCounted:
    """Usage of each running guest of a host: figures by instance uuid, in the order of core.guest_usage.NAMES.

    `counted_at` is in seconds since 1970, by the host's clock. A lost message does no harm: the next comes in minutes.
    """

    host: str
    counted_at: float
    guests: dict[str, list[float | None]]


@message("refusals_counted", version="1.0")
class RefusalsCounted:
    """Commands that the host refused: {"sender", "kind", "cause", "times"} for each, with the values that they
    claimed.
    """

    host: str
    refusals: list[dict[str, Any]]


@message("destinations_selected", version="1.0")
class DestinationsSelected:
    """Replies of a scheduler to calls of one journal. Each has the run_uuid, step_key and fencing_token of its call.

    The `error` of a reply is {"class", "message"}. A reply without one refers to the stored decision.
    """

    scheduler: str
    replies: list[dict[str, Any]]


@message("scheduler_reported", version="1.0")
class SchedulerReported:
    """A report of a living scheduler. `figures` are fields of cells.schedulers.Scheduler: its process, queue and
    speed.
    """

    scheduler: str
    service_version: int
    figures: dict[str, Any]
