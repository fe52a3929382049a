"""A plugin of each kind that runs in a worker, each with an option that selects its failure.

Loaded by name in tests.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conductor.core.extensions import (
    Additions,
    FlowEvent,
    FlowObserver,
    ImageConverter,
    LaunchForm,
    PageSubject,
    Panel,
    PanelData,
    Prefilter,
    QuotaSource,
)
from conductor.core.notification_sink import Notification, NotificationSink, Send, SinkFailed
from conductor.core.placement.query import Bounds
from conductor.core.request_spec import RequestSpec
from conductor.hookspecs import hookimpl

SECONDS, FAR_SECONDS = 0.5, 60.0  # for a call that hangs on purpose, and for all others
SECRET = "seven-ducks-swim"


class Odd(PanelData):
    """An answer of a class that only the plugin has."""


def _loops() -> None:
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            continue


def _raises() -> None:
    raise ValueError(f"cannot reach https://:{SECRET}@example.test/")


def _leaves() -> None:
    raise SystemExit(3)


# Two of these never let another thread of their process run, and two end it.
WAYS: Mapping[str, Callable[[], Any]] = {
    "": lambda: None,
    "sleeps": lambda: time.sleep(3600),
    "loops": _loops,
    "matches": lambda: re.match("(a+)+$", "a" * 60 + "b"),
    "counts": lambda: sum(range(10**15)),
    "exits": lambda: os._exit(0),
    "crashes": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "raises": _raises,
    "leaves": _leaves,
}
MODE = {"mode": {"type": "string", "enum": [*WAYS, "lies", "writes"], "default": ""}}


HANGS = frozenset({"sleeps", "loops", "matches", "counts"})


def trouble(mode: str) -> None:
    WAYS.get(mode, WAYS[""])()


class Limited:
    """An extension with a short time limit only where its mode is to hang."""

    options: Mapping[str, Any]

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)  # type: ignore[call-arg]
        if self.options["mode"] not in HANGS:
            self.seconds = FAR_SECONDS


class TroubleTrait(Limited, Prefilter):
    """Demand a trait."""

    name = "TroubleTrait"
    seconds = SECONDS
    options_schema = MODE

    def bounds(self, spec: RequestSpec) -> Bounds:
        trouble(self.options["mode"])
        if self.options["mode"] == "writes":
            spec.scheduler_hints["rack"] = []  # type: ignore[index]
        if self.options["mode"] == "lies":
            return {"required": ["CUSTOM_X"]}  # type: ignore[return-value]
        return Bounds(root_required=frozenset({"CUSTOM_TROUBLE"}))


class TroubleLimits(Limited, QuotaSource):
    """One instance for all requests."""

    name = "TroubleLimits"
    seconds = SECONDS
    options_schema = MODE

    def limits(self, project_id: str) -> Mapping[str, int]:
        trouble(self.options["mode"])
        return {"instances": 1}


class TroubleForm(Limited, LaunchForm):
    """Ask nothing."""

    name = "TroubleForm"
    seconds = SECONDS
    options_schema = MODE

    def additions(self, answers: Mapping[str, Any]) -> Additions:
        trouble(self.options["mode"])
        return Additions({"rack": ["r1"]})


class TroublePanel(Limited, Panel):
    """Say which process it is shown by."""

    name = "TroublePanel"
    title = "Trouble"
    seconds = SECONDS
    options_schema = MODE

    def show(self, subject: PageSubject) -> PanelData | None:
        trouble(self.options["mode"])
        kind = Odd if self.options["mode"] == "lies" else PanelData
        return kind((("process", str(os.getpid())),))


class TroubleDisks(Limited, ImageConverter):
    """Copy."""

    name = "TroubleDisks"
    seconds = SECONDS
    reads = writes = frozenset({"trouble"})
    options_schema = MODE

    def convert(self, source: Path, source_format: str, target: Path, target_format: str) -> None:
        target.write_bytes(source.read_bytes()[:2])
        trouble(self.options["mode"])
        target.write_bytes(source.read_bytes())


class TroubleLog(Limited, FlowObserver):
    """Log received events, with their number."""

    name = "TroubleLog"
    seconds = SECONDS
    options_schema = {"path": {"type": "string", "default": ""}, "stops_at": {"type": "string", "default": ""}, **MODE}

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self.heard = 0

    def observe(self, event: FlowEvent) -> None:
        if event.kind == self.options["stops_at"]:
            trouble(self.options["mode"])
        self.heard += 1
        with Path(self.options["path"]).open("a") as log:
            log.write(f"{self.heard} {event.kind} {event.cell} {event.project_id} {event.instance_uuid}\n")


class TroubleSink(NotificationSink):
    """Store received messages, and report their number."""

    name = "shelf"
    options_schema = {
        "most": {"type": "integer", "minimum": 1, "default": 9},
        "key": {"type": "string", "default": "", "writeOnly": True},
        "opens": {"enum": ["", "nothing", "refuses"], "default": ""},
        "only": {"type": "integer", "default": 0},
        **MODE,
    }

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self.taken, self.closed = 0, 0

    def open(self) -> Any:
        if self.options["opens"] == "refuses":
            raise SinkFailed("the shelf is full")
        return self.take if self.options["opens"] == "nothing" else self.opened()

    @contextmanager
    def opened(self) -> Iterator[Send]:
        yield self.take
        self.closed += 1

    def take(self, message: Notification) -> Any:
        if self.options["only"] in (0, message.number):
            trouble(self.options["mode"])
        self.taken += 1
        return 200 if self.options["mode"] == "lies" else f"{self.taken} kept, {self.closed} closed"


@hookimpl
def register_prefilters() -> Sequence[type[Prefilter]]:
    return (TroubleTrait,)


@hookimpl
def register_quota_sources() -> Sequence[type[QuotaSource]]:
    return (TroubleLimits,)


@hookimpl
def register_launch_forms() -> Sequence[type[LaunchForm]]:
    return (TroubleForm,)


@hookimpl
def register_panels() -> Sequence[type[Panel]]:
    return (TroublePanel,)


@hookimpl
def register_image_converters() -> Sequence[type[ImageConverter]]:
    return (TroubleDisks,)


@hookimpl
def register_flow_observers() -> Sequence[type[FlowObserver]]:
    return (TroubleLog,)


@hookimpl
def register_notification_sinks() -> Sequence[type[NotificationSink]]:
    return (TroubleSink,)
