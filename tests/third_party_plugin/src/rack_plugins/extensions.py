"""Extensions of a data centre with racks: demands, limits, questions, a card, a disk format, a log."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conductor.core.errors import Invalid
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
from conductor.core.placement.query import UNBOUND, Bounds
from conductor.core.request_spec import RequestSpec

HEAD = b"RACK DISK 1\n"


class RackTrait(Prefilter):
    """With the hint `rack`, demand the trait that hosts of racks have."""

    name = "RackTrait"
    options_schema = {"trait": {"type": "string", "pattern": "^CUSTOM_[A-Z0-9_]+$", "default": "CUSTOM_RACKED"}}

    def bounds(self, spec: RequestSpec) -> Bounds:
        racks = spec.scheduler_hints.get("rack", [])
        if "r13" in racks:
            raise Invalid("There is no rack r13.", field="os:scheduler_hints.rack")
        return Bounds(root_required=frozenset({self.options["trait"]})) if racks else UNBOUND


class RackLimits(QuotaSource):
    """So many instances for each project, whatever is stored; projects in `broken` have the source fail."""

    name = "RackLimits"
    options_schema = {
        "instances": {"type": "integer", "minimum": 0, "default": 2},
        "broken": {"type": "boolean", "default": False},
    }

    def limits(self, project_id: str) -> Mapping[str, int]:
        if self.options["broken"]:
            raise RuntimeError("secret=hunter2")
        return {"instances": self.options["instances"], "cores": -1}


class WhichRack(LaunchForm):
    """Ask for the rack, and for its payer."""

    name = "WhichRack"
    title = "Rack"
    fields = {
        "rack": {"type": "string", "enum": ["any", "r1", "r2"], "title": "Rack", "default": "any"},
        "units": {"type": "integer", "minimum": 1, "maximum": 4, "title": "Height", "default": 1},
        "payer": {
            "type": "string",
            "pattern": "^[a-z]{2,10}$",
            "title": "Cost centre",
            "description": "Small letters, such as lab.",
        },
    }

    def additions(self, answers: Mapping[str, Any]) -> Additions:
        if answers["rack"] == "any" and answers["units"] > 2:
            raise Invalid("Name a rack for more than two units.", field="os:scheduler_hints.form:WhichRack.rack")
        hints = {} if answers["rack"] == "any" else {"rack": [answers["rack"]]}
        return Additions(hints, {"payer": answers["payer"], "units": str(answers["units"])})


class RackPanel(Panel):
    """The rack's location; `mode` breaks it in one of several ways."""

    name = "RackPanel"
    title = "Rack"
    seconds = 60.0  # no machine is too slow for it
    options_schema = {"mode": {"enum": ["good", "raises", "hangs", "lies"], "default": "good"}}

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        if self.options["mode"] == "hangs":
            self.seconds = 0.2  # type: ignore[misc]

    def show(self, subject: PageSubject) -> PanelData | None:
        if self.options["mode"] == "raises":
            raise RuntimeError("secret=hunter2")
        if self.options["mode"] == "hangs":
            time.sleep(3600.0)
        if self.options["mode"] == "lies":
            return "<b>r1</b>"  # type: ignore[return-value]
        pairs = (("Server", subject.name), ("Row", "<b>7</b>"))
        return PanelData(pairs, columns=("Unit", "Power"), rows=(("U1", "on"),), note="Door key at the desk.")


class RackDisks(ImageConverter):
    """A disk format that is raw data after one line."""

    name = "RackDisks"
    reads = frozenset({"rack"})
    writes = frozenset({"rack"})

    def convert(self, source: Path, source_format: str, target: Path, target_format: str) -> None:
        data = source.read_bytes()
        if source_format != "rack":
            target.write_bytes(HEAD + data)
        elif data.startswith(HEAD):
            target.write_bytes(data.removeprefix(HEAD))
        else:
            raise Invalid("The data are no disk of a rack.")


class RackLog(FlowObserver):
    """Keeps what happened; stops at events of the kind in `stops_at`."""

    name = "RackLog"
    seconds = 60.0
    options_schema = {"stops_at": {"type": "string", "default": ""}}

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        if self.options["stops_at"]:
            self.seconds = 2.0  # type: ignore[misc]
        self.seen: list[FlowEvent] = []

    def observe(self, event: FlowEvent) -> None:
        if event.kind == self.options["stops_at"]:
            time.sleep(3600.0)
        self.seen.append(event)
