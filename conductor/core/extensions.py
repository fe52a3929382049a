"""Base classes of plugins other than filters, weighers, drivers, memberships and sinks; the operator names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from conductor.core.placement.query import Bounds
from conductor.core.plugin_log import PluginLog
from conductor.core.plugin_options import OptionsSchema, with_defaults
from conductor.core.request_spec import RequestSpec


class Extension:
    """A subclass of one of the kinds gives `name` and the method that its kind names as `method`.

    It runs in a worker process, for `seconds` at most: one that hangs is killed. It shares no memory with its caller
    or with other calls; a kind that `keeps_process` has one process for all its calls. `options_schema` has a JSON
    schema with a default for each option by name; `options` are the values. `log` is a logger of its own: operators
    find its last lines in the catalogue.
    """

    kind: ClassVar[str] = ""
    method: ClassVar[str] = ""
    seconds: ClassVar[float] = 1.0
    keeps_process: ClassVar[bool] = False
    name: ClassVar[str] = ""
    options_schema: ClassVar[OptionsSchema] = {}
    log = PluginLog()

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = with_defaults(self.options_schema, options or {})


class Prefilter(Extension):
    """Turns a request into demands on hosts: required and forbidden traits, required and forbidden aggregates.

    Demands add up: no pre-filter can remove the demand of another one. A pre-filter reads only the request.
    """

    kind: ClassVar[str] = "prefilter"
    method: ClassVar[str] = "bounds"

    def bounds(self, spec: RequestSpec) -> Bounds:
        """Return the demands; `UNBOUND` for none. Raise `Invalid` with a text for tenants for impossible ones."""
        raise NotImplementedError


class QuotaSource(Extension):
    """Gives limits of projects: instances, cores, ram and so on. Other resources keep their stored limit.

    It can only lower the stored limits: the lower of the two applies, and −1 means no limit.
    """

    kind: ClassVar[str] = "quota_source"
    method: ClassVar[str] = "limits"

    def limits(self, project_id: str) -> Mapping[str, int]:
        """Return limits by resource. Called before resources are taken; the result is kept for a minute."""
        raise NotImplementedError


FORM_PREFIX = "form:"  # of the hint by which an answer is sent: form:NAME.FIELD


@dataclass(frozen=True)
class Additions:
    """Result of a form: scheduler hints and metadata that the server gets in addition to those of the request."""

    hints: Mapping[str, list[str]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


class LaunchForm(Extension):
    """Fields that the portal's launch form shows, and that the API takes as scheduler hints `form:NAME.FIELD`.

    `fields` has a JSON schema with `title`, `description` and `default` for each field by name: a string, a number, an
    integer, a boolean or an `enum` of texts. Valid answers are stored with the request and passed to `additions`.
    """

    kind: ClassVar[str] = "launch_form"
    method: ClassVar[str] = "additions"
    title: ClassVar[str] = ""
    fields: ClassVar[OptionsSchema] = {}

    def additions(self, answers: Mapping[str, Any]) -> Additions:
        """Return the additions for these answers. Raise `Invalid`, with a text for tenants, if answers contradict."""
        raise NotImplementedError


SERVER, HOST = "server", "host"
PLACES = (SERVER, HOST)


@dataclass(frozen=True)
class PageSubject:
    """Subject of the page: uuid and name of a server, or a host's name twice; `facts` holds what the page shows too."""

    place: str
    ident: str
    name: str
    project_id: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PanelData:
    """Pairs of a label and a value, and a table beneath; all of it is shown as text."""

    pairs: Sequence[tuple[str, str]] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    note: str = ""


class Panel(Extension):
    """Gives the data of a card, which the portal renders. If it fails, the card says so."""

    kind: ClassVar[str] = "panel"
    method: ClassVar[str] = "show"
    title: ClassVar[str] = ""
    place: ClassVar[str] = SERVER
    for_operators: ClassVar[bool] = False

    def show(self, subject: PageSubject) -> PanelData | None:
        """Return the content of the card; None for no card."""
        raise NotImplementedError


class ImageConverter(Extension):
    """Writes a disk of one of `reads` as raw data, or raw data as one of `writes`.

    The file is untrusted: follow no path that it names.
    """

    kind: ClassVar[str] = "image_converter"
    method: ClassVar[str] = "convert"
    seconds: ClassVar[float] = 3600.0
    reads: ClassVar[frozenset[str]] = frozenset()
    writes: ClassVar[frozenset[str]] = frozenset()

    def convert(self, source: Path, source_format: str, target: Path, target_format: str) -> None:
        """Write `target`, which does not exist yet; one of the two formats is `raw`. Raise for what cannot be read."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """A committed event: its kind, as in the event log, its subject, and its number."""

    kind: str
    topic: str
    cell: str
    number: int
    project_id: str = ""
    run_uuid: str = ""
    instance_uuid: str = ""


class FlowObserver(Extension):
    """Receives each event after its commit, one after another, in a separate process.

    Delivery is at most once: events are lost while it exceeds its time, or while the process ends. Use a notification
    sink where no event may be lost. It has no database and cannot hold up a workflow.
    """

    kind: ClassVar[str] = "flow_observer"
    method: ClassVar[str] = "observe"
    keeps_process: ClassVar[bool] = True

    def observe(self, event: FlowEvent) -> None:
        """Handle one event."""
        raise NotImplementedError


# Kinds by the hook that registers them.
BY_HOOK: Mapping[str, type[Extension]] = {
    "register_prefilters": Prefilter,
    "register_quota_sources": QuotaSource,
    "register_launch_forms": LaunchForm,
    "register_panels": Panel,
    "register_image_converters": ImageConverter,
    "register_flow_observers": FlowObserver,
}
BY_KIND: Mapping[str, type[Extension]] = {one.kind: one for one in BY_HOOK.values()}
