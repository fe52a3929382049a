"""Values of the triage: items with severity, effect and advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from conductor.core.phrases import Phrase, phrase, phrases

# Severity levels, the worst first; an item's `level` is one of these.
LEFT_BEHIND, HELD_UP, WAITED_FOR, UNTIDY = 1, 2, 3, 4
LEVELS: Mapping[int, str] = {
    LEFT_BEHIND: phrase("Cleanup incomplete: risk of data loss or cost"),
    HELD_UP: phrase("Blocks other workflows"),
    WAITED_FOR: phrase("Users are waiting"),
    UNTIDY: phrase("Minor"),
}
SURE, LIKELY, PERHAPS = "sure", "likely", "perhaps"


@dataclass(frozen=True)
class Advice:
    """The advised first action, and the confidence that it helps.

    Attributes:
        action: An intervention on a workflow, an action on a host, or "repair".
        is_at_once: The action needs only a reason, so the list can execute it. Otherwise its own form asks for the
            rest.
        revision: The revision of the workflow.
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
    """A snooze, with its operator and reason. `ended`: why it ended early."""

    reason: str
    until: datetime
    user_name: str
    created_at: datetime
    ended: str = ""


@dataclass(frozen=True)
class TriageItem:
    """One problem that needs an operator. `key` names its subject, and so stays the same between surveys.

    `why` is the root cause as far as it is known. `hurt` counts the users or objects that `hurts` describes.
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
    """A page of problems that need an operator, the most harmful first. `counts` are of all items by level."""

    items: list[TriageItem]
    counts: Mapping[int, int]
    total: int
    snoozed: int
    has_more: bool = False
    missing_cells: Mapping[str, str] = field(default_factory=dict)


def span(seconds: float) -> Phrase:
    """Return a length of time in one unit, for use in a sentence."""
    if seconds >= 86_400:
        return phrases("%(count)s day", "%(count)s days", round(seconds / 86_400))
    if seconds >= 3_600:
        return phrases("%(count)s hour", "%(count)s hours", round(seconds / 3_600))
    if seconds >= 60:
        return phrases("%(count)s minute", "%(count)s minutes", round(seconds / 60))
    return phrases("%(count)s second", "%(count)s seconds", max(0, round(seconds)))
