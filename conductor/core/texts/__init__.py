"""The texts of all messages, by code: the only place with user-visible wording.

A text is English, with `%(name)s` for a value; where a `count` decides it is a `Plural`. Pages look it up in the
catalogue of their language.
"""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.texts import operations, projects, scheduling, workflows
from conductor.core.texts.forms import Text

# Words that messages and pages take from data: kinds and states of plugins and hosts, resources, components.
WORDS = (
    "Filter",
    "Weigher",
    "rejected",
    "its answer was used",
    "left out",
    "took too long",
    "none, it only watches",
    "let pass",
    "in quarantine",
    "out of time",
    "no time left for it in this decision",
    "it ended its process",
    "used",
    "failed",
    "claim failed",
    "refused",
    "not open",
    "not needed",
    "claim",
    "a deferred command is waiting",
    "vCPUs",
    "memory",
    "disk",
    "Cell conductor",
    "Scheduler",
    "runs",
    "Compute host",
    "Conductor",
    "timer",
    "children",
    "an integer",
    "a number",
    "a string",
    "a boolean",
    "an object",
    "a list",
    "completed",
    "preparing",
    "running",
    "cancelled",
    "accepted",
)
FAMILIES = (scheduling, workflows, operations, projects)
TEXTS: Mapping[str, Text] = {code: text for family in FAMILIES for code, text in family.TEXTS.items()}
