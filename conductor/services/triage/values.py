"""One line of the triage: what is wrong, how bad it is, whom it hurts, and what to do first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from conductor.core.phrases import Phrase, phrase, phrases

# How bad something is, the worst first; a line's `level` is one of these.
LEFT_BEHIND, HELD_UP, WAITED_FOR, UNTIDY = 1, 2, 3, 4
LEVELS: Mapping[int, str] = {
    LEFT_BEHIND: phrase("Not clean: data or money may be at stake"),
    HELD_UP: phrase("Others are held up"),
    WAITED_FOR: phrase("Somebody waits"),
    UNTIDY: phrase("Untidy"),
}
SURE, LIKELY, PERHAPS = "sure", "likely", "perhaps"


@dataclass(frozen=True)
class Advice:
    """What to do first, and how sure that is (`confidence`).

    `action` is an intervention on a workflow, a deed on a host, or "repair". `is_at_once`: a reason is all that it
    needs, so it can be done from the list; else its own form asks for the rest. `revision` is that of the workflow.
    """

    action: str
    title: str
    does: str
    confidence: str = LIKELY
    is_at_once: bool = True
    is_danger: bool = False
    revision: str = ""


@dataclass(frozen=True)
class SnoozeView:
    """Who put it off until when, and why. `ended`: why it counts no more, although its time is not over."""

    reason: str
    until: datetime
    user_name: str
    created_at: datetime
    ended: str = ""


@dataclass(frozen=True)
class TriageItem:
    """One thing that needs an operator. `key` names what it is about, so that it stays the same from look to look.

    `why` is the first cause as far as it is known; `hurt` counts whom `hurts` describes.
    """

    key: str
    kind: str
    title: str
    name: str
    level: int
    why: str
    since: datetime
    hurts: str = ""
    hurt: int = 0
    state: str = ""
    cell: str = ""
    run_uuid: str = ""
    host: str = ""
    finding_uuid: str = ""
    instance_uuid: str = ""
    project_id: str = ""
    advice: Advice | None = None
    no_advice: str = ""
    snooze: SnoozeView | None = None

    @property
    def is_snoozed(self) -> bool:
        return self.snooze is not None and not self.snooze.ended


@dataclass(frozen=True)
class Triage:
    """A page of what needs an operator, the most harmful first. `counts` are of all lines by level."""

    items: list[TriageItem]
    counts: Mapping[int, int]
    total: int
    snoozed: int
    has_more: bool = False
    missing_cells: Mapping[str, str] = field(default_factory=dict)


def span(seconds: float) -> Phrase:
    """A length of time in one unit, as a sentence takes it."""
    if seconds >= 86_400:
        return phrases("%(count)s day", "%(count)s days", round(seconds / 86_400))
    if seconds >= 3_600:
        return phrases("%(count)s hour", "%(count)s hours", round(seconds / 3_600))
    if seconds >= 60:
        return phrases("%(count)s minute", "%(count)s minutes", round(seconds / 60))
    return phrases("%(count)s second", "%(count)s seconds", max(0, round(seconds)))
