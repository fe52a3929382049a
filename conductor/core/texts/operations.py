"""Messages to operators: why a host or cell cannot be changed, what was done to it, what an audit check found."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.texts.forms import Plural, Text

TEXTS: Mapping[str, Text] = {
    # hosts
    "host.in_service": "The host is in service.",
    "host.draining": "The host is being drained: cancel the drain first.",
    "host.closed_already": "The host is already disabled.",
    "host.off_already": "The host is already marked as powered off.",
    "host.not_off": "The host is not marked as powered off.",
    "host.agent_unresponsive": "The host's agent doesn't respond.",
    "host.note_in_service": "The host is in service. Disable or drain it before you add a maintenance note.",
    "host.closed": "%(host)s takes no new servers. The servers on it stay.",
    "host.opened": "%(host)s takes new servers again.",
    "host.canary": "A canary is testing %(host)s. The host opens when it succeeds.",
    "host.marked_off": "%(host)s is marked as powered off. Its servers can be evacuated.",
    "host.marked_on": "%(host)s is up again as soon as it reports.",
    "host.evacuated": Plural("%(count)s server is being evacuated.", "%(count)s servers are being evacuated."),
    "host.not_evacuated": Plural(
        "%(count)s server can't be evacuated: %(reasons)s", "%(count)s servers can't be evacuated: %(reasons)s"
    ),
    "host.busy": "Host %(host)s is held by %(holder)s.",
    "drain.deadline_past": "The deadline must be in the future.",
    # cells
    "cell.without_hosts": "The cell has no hosts: it keeps the servers that never got one.",
    "cell.closed_already": "The cell is already closed.",
    "cell.in_service": "The cell is in service.",
    "cell.quarantined_already": "The cell is already in quarantine.",
    "cell.not_quarantined": "The cell is not in quarantine.",
    "cell.closed": "%(cell)s takes no new servers. The servers in it stay.",
    "cell.opened": "%(cell)s takes new servers again.",
    "cell.quarantined": "%(cell)s is in quarantine: nothing is read from it or sent to it.",
    "cell.released": "%(cell)s is back. Waiting work continues.",
    "cell.no_changes": "Cell %(cell)s is in quarantine: nothing can be changed there until an operator lifts it.",
    # proposals of plugins
    "proposal.own": "You proposed this. Another operator must apply it.",
    "proposal.applied": "The proposal was applied by %(name)s.",
    "proposal.declined": "The proposal was declined by %(name)s.",
    "proposal.no_change": "This changes no filter and no weigher: there is nothing to propose.",
    # what a check of the audit log found
    "audit.record": "record %(number)s (%(uuid)s, %(action)s)",
    "audit.unsealed_record": "record without a seal (%(uuid)s, %(action)s)",
    "audit.inserted": "%(record)s was inserted: there is no room for number %(place)s",
    "audit.missing": "record %(number)s is missing: the next one is number %(next)s",
    "audit.changed": "%(record)s was changed",
    "audit.replaced": "%(record)s is not the one that was sealed as number %(place)s",
    "audit.not_ours": "%(record)s was not written by Novella, or changed before it was sealed",
    "audit.missing_at_end": "record %(number)s is missing: %(sealed)s were sealed",
    "audit.last_seal": "the last seal is not that of record %(number)s",
    "audit.row_changed": "the row of the chain was changed",
    "audit.row_gone": "the row of the chain is gone",
    "audit.other_key": (
        "it was begun with another key. Give all processes the same NOVELLA_AUDIT_KEY, or else NOVELLA_SECRET_KEY"
    ),
}
