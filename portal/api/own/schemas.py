"""Bodies of our own API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.consoles import ConsoleKind
from conductor.core.interventions import INTERVENTIONS, Intervention
from conductor.core.plugin_choice import KINDS
from conductor.core.recurrence import EVERY, STEPS, WEEKDAYS
from conductor.services.announcements import LONGEST_TEXT, LONGEST_TITLE, SEVERITIES
from conductor.services.budgets import HIGHEST_THRESHOLD, MOST_THRESHOLDS
from conductor.services.console_shares import MINUTES
from conductor.services.drains import LONGEST_NOTE
from conductor.services.plugin_proposals import LONGEST_QUESTION
from conductor.services.snapshot_schedules import MOST_KEPT
from conductor.services.what_if_batches import BATCHES
from conductor.services.what_if_comparisons import LARGEST_SUBSET
from portal.api.schema_parts import BOOLEAN, NON_NEGATIVE_INTEGER, POSITIVE_INTEGER, UUID, Schema, closed, wrapped

_TEXT = {"type": "string", "minLength": 1, "maxLength": 255}
_FIELDS: Mapping[str, Any] = {
    "reason": {**_TEXT, "pattern": r"\S", "x-fix": "Say why, in at most 255 characters: it is kept in the audit log."},
    "step": {"type": "string", "minLength": 1, "maxLength": 64},
    "confirm": _TEXT,
    "mark": {"type": "string", "enum": ["forced", "skipped"]},
}
_OPTIONAL: Mapping[str, Mapping[str, Any]] = {"skip": {"result": {"type": "object", "maxProperties": 50}}}


def _schema(one: Intervention) -> dict[str, Any]:
    fields = {name: _FIELDS[name] for name in one.needs}
    return {
        "type": "object",
        "properties": {**fields, **_OPTIONAL.get(one.id, {})},
        "required": list(one.needs),
        "additionalProperties": False,
    }


# One for each intervention, from the table that also says who may and when.
INTERVENE: Mapping[str, dict[str, Any]] = {one.id: _schema(one) for one in INTERVENTIONS}

NOTHING: Schema = {"type": "object", "maxProperties": 0}
DRAIN = closed({"most_at_once": POSITIVE_INTEGER, "allows_cold": BOOLEAN, "deadline_at": _TEXT, "dry_run": BOOLEAN})
_NAMES = {"type": "array", "items": _TEXT, "maxItems": 1000}
_RATIO = {"type": "number", "exclusiveMinimum": 0, "maximum": 1000, "x-fix": "It must be a number above 0."}
_NEW_HOSTS = closed(
    {
        "count": {"type": "integer", "minimum": 1, "maximum": 10_000},
        "like": _TEXT,
        "values": closed(
            {
                "vcpus": NON_NEGATIVE_INTEGER,
                "memory_mb": NON_NEGATIVE_INTEGER,
                "disk_gb": NON_NEGATIVE_INTEGER,
                "cpu_ratio": _RATIO,
                "ram_ratio": _RATIO,
                "disk_ratio": _RATIO,
                "availability_zone": _TEXT,
                "cell": _TEXT,
                "traits": _NAMES,
            }
        ),
    },
    required=("count",),
)
FLEET = closed(
    {
        "add": {"type": "array", "items": _NEW_HOSTS, "maxItems": 20},
        "remove": _NAMES,
        "enable": _NAMES,
        "disable": _NAMES,
    }
)
_FLAVOR_CHANGES = closed(
    {
        **dict.fromkeys(("vcpus", "memory_mb"), POSITIVE_INTEGER),
        **dict.fromkeys(("root_gb", "ephemeral_gb", "swap_mb"), NON_NEGATIVE_INTEGER),
        "extra_specs": {"type": "object", "additionalProperties": _TEXT, "maxProperties": 100},
    }
)
_HINT = {"anyOf": [_TEXT, _NAMES]}
WHAT_IF_LAUNCH = closed(
    {
        "flavor": _TEXT,
        "flavor_changes": _FLAVOR_CHANGES,
        "image": _TEXT,
        "count": {"type": "integer", "minimum": 1, "maximum": 1000},
        "availability_zone": _TEXT,
        "host": _TEXT,
        "scheduler_hints": {"type": "object", "additionalProperties": _HINT, "maxProperties": 20},
        "fleet": FLEET,
    },
    required=("flavor", "image"),
)
WHAT_IF_MOVE = closed({"server": UUID, "flavor": _TEXT, "is_live": BOOLEAN, "fleet": FLEET}, required=("server",))
WHAT_IF_DRAIN = closed({"host": _TEXT, "allows_cold": BOOLEAN, "fleet": FLEET}, required=("host",))
EVALUATE = closed({"fleet": {"enum": ["then", "now"]}})
CANARY = closed({"flavor": _TEXT, "image": _TEXT})
DRAIN_ACTION = closed(
    {"action": {"enum": ["pause", "resume", "stop", "cancel"]}, "deadline_at": _TEXT}, required=("action",)
)
SHARE_CONSOLE = closed(
    {
        "kind": {"type": "string", "enum": [one.value for one in ConsoleKind]},
        "minutes": {"type": "integer", "enum": list(MINUTES)},
    },
    required=("kind", "minutes"),
)
HOST_NOTE = closed({"note": {"type": "string", "maxLength": LONGEST_NOTE}}, required=("note",))

_PLUGIN_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_PLUGIN: Schema = {
    **closed(
        {
            "enabled": {"type": ["boolean", "null"]},
            "mode": {"type": ["string", "null"], "maxLength": 64},
            "on_failure": {"type": ["string", "null"], "maxLength": 64},
            "multiplier": {"type": ["number", "null"]},
            "options": {"type": ["object", "null"], "maxProperties": 100},
        }
    ),
    "minProperties": 1,
}
_SUPPOSED: Schema = {
    "fleet": FLEET,
    "plugins": closed(
        {kind: {"type": "object", "maxProperties": 500, "additionalProperties": _PLUGIN} for kind in KINDS}
    ),
    "subset": {"type": "integer", "minimum": 1, "maximum": LARGEST_SUBSET},
}
WHAT_IF_COMPARE: Schema = {
    **closed(
        {
            **{name: shape for name, shape in WHAT_IF_LAUNCH["properties"].items() if name != "flavor_changes"},
            "decision": UUID,
            "image_properties": {"type": "object", "additionalProperties": _TEXT, "maxProperties": 100},
            **_SUPPOSED,
        }
    ),
    "anyOf": [{"required": ["decision"]}, {"required": ["flavor", "image"]}],
    "x-fix": "Name a decision, or a flavor and an image.",
}
PROPOSE = closed(
    {
        "plugins": _SUPPOSED["plugins"],
        "reason": _FIELDS["reason"],
        "question": {
            "type": "string",
            "maxLength": LONGEST_QUESTION,
            "pattern": r"\A/what-if(\?[!-~]*)?\Z",
            "x-fix": "It must be the address of a what-if question, from /what-if on.",
        },
    },
    required=("plugins", "reason"),
)
DECIDE_PROPOSAL = closed({"reason": _FIELDS["reason"]}, required=("reason",))
WHAT_IF_REPLAY = closed({"count": {"type": "integer", "enum": list(BATCHES)}, **_SUPPOSED}, required=("count",))
CHANGE_PLUGINS: Schema = {
    **closed(
        {
            "order": {"type": "array", "items": _PLUGIN_NAME, "maxItems": 500},
            "plugins": {"type": "object", "maxProperties": 500, "additionalProperties": _PLUGIN},
        }
    ),
    "minProperties": 1,
}
QUARANTINE_PLUGIN = closed(
    {"reason": _FIELDS["reason"], "seconds": {"type": "number", "minimum": 0}}, required=("reason",)
)
RELEASE_PLUGIN = closed({"reason": _FIELDS["reason"]})
CELL_DEED = closed({"reason": _FIELDS["reason"]}, required=("reason",))

_KEY = {"type": "string", "minLength": 1, "maxLength": 300}
TRIAGE_SNOOZE = closed(
    {"key": _KEY, "reason": _FIELDS["reason"], "until": {"type": "string", "maxLength": 64}},
    required=("key", "reason", "until"),
)
TRIAGE_WAKE = closed({"key": _KEY}, required=("key",))
TRIAGE_APPLY = closed(
    {"key": _KEY, "action": {"type": "string", "minLength": 1, "maxLength": 64}, "reason": _FIELDS["reason"]},
    required=("key", "action", "reason"),
)

_LIMITS: Schema = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 50,
    "propertyNames": {"minLength": 1, "maxLength": 64},
    "additionalProperties": POSITIVE_INTEGER,
}
ASK_FOR_QUOTA = closed({"wanted": _LIMITS, "reason": _FIELDS["reason"]}, required=("wanted", "reason"))
APPROVE_QUOTA = closed({"answer": {"type": "string", "maxLength": 255}})
REFUSE_QUOTA = closed({"answer": _FIELDS["reason"]}, required=("answer",))

SET_BUDGET = closed(
    {
        "amount": {
            "type": "string",
            "pattern": r"\A\d{1,12}(\.\d{1,2})?\Z",
            "x-fix": 'It must be an amount as text, such as "500.00".',
        },
        "thresholds": {
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": HIGHEST_THRESHOLD},
            "maxItems": MOST_THRESHOLDS,
        },
    },
    required=("amount",),
)

_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
SCHEDULE_SNAPSHOTS = wrapped(
    "snapshot_schedule",
    {
        "server": _ID,
        "volume": _ID,
        "every": {"type": "string", "enum": list(EVERY)},
        "hours": {"type": "integer", "enum": list(STEPS)},
        "weekday": {"type": "string", "enum": list(WEEKDAYS)},
        "at": {
            "type": "string",
            "pattern": r"\A([01]\d|2[0-3]):[0-5]\d\Z",
            "x-fix": "It must be a time of day such as 02:30.",
        },
        "time_zone": {"type": "string", "minLength": 1, "maxLength": 64},
        "keep": {"type": "integer", "minimum": 1, "maximum": MOST_KEPT},
    },
    required=("every", "at", "keep"),
)

_TIME: Schema = {
    "type": ["string", "null"],
    "minLength": 1,
    "maxLength": 40,
    "x-fix": "It must be a time such as 2026-01-31T12:00:00Z, or null.",
}
_ANNOUNCEMENT: Schema = {
    "title": {"type": "string", "minLength": 1, "maxLength": LONGEST_TITLE, "pattern": r"\S"},
    "text": {"type": "string", "maxLength": LONGEST_TEXT},
    "severity": {"type": "string", "enum": list(SEVERITIES)},
    "begins_at": _TIME,
    "ends_at": _TIME,
}
ANNOUNCE = wrapped("announcement", _ANNOUNCEMENT, required=("title",))
CHANGE_ANNOUNCEMENT = wrapped("announcement", _ANNOUNCEMENT)

ENROLL_HOST = wrapped(
    "host_enrollment",
    {
        "token": {"type": "string", "minLength": 1, "maxLength": 128},
        "public_key": {"type": "string", "minLength": 1, "maxLength": 64},
    },
    required=("token", "public_key"),
)

_SUBSCRIPTION: Schema = {
    "name": {"type": "string", "minLength": 1, "maxLength": 60, "pattern": r"\S", "x-fix": "1 to 60 characters."},
    "url": {"type": "string", "minLength": 1, "maxLength": 1000},
    "events": {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": r"\A[a-z_.*]+\Z"},
        "minItems": 1,
        "maxItems": 50,
    },
    "servers": {"type": "array", "items": UUID, "maxItems": 50},
    "cloud_wide": {"type": "boolean"},
    "enabled": {"type": "boolean"},
}
SUBSCRIBE = closed({**_SUBSCRIPTION, "channel": {"enum": ["webhook", "chat", "email", "bell"]}}, required=("name",))
CHANGE_SUBSCRIPTION: Schema = {**closed(_SUBSCRIPTION), "minProperties": 1}
