"""Audit of routes: each route that changes something is audited, or is listed here with the reason why not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from portal.api import audited, member_changes
from portal.api.member_changes import ApiChange

METHODS = ("post", "put", "patch", "delete")
WORKFLOW = "its service records it with the workflow that carries it out: attacks/test_audit_of_actions.py"
ITSELF = "its service keeps the record, in the transaction of the change or with more to say"
READS = "it answers a question and changes nothing"
NOTHING = "there is nothing that it could change: it is always refused"
# By the view's service and name, with the method where another one is on record.
OFF_RECORD = {
    "identity.Tokens": "sign-ins come with every call of a program; a user's own are listed in `sign_ins`",
    "identity.UserPassword": ITSELF,
    "identity.Nothing": NOTHING,
    "identity.NothingById": NOTHING,
    "compute.Servers": WORKFLOW,
    "compute.ServerById delete": WORKFLOW,
    "compute.ServerAction": WORKFLOW,
    "compute.Interfaces": WORKFLOW,
    "compute.InterfaceById": WORKFLOW,
    "compute.VolumeAttachments": WORKFLOW,
    "compute.VolumeAttachment": WORKFLOW,
    "compute.ServerMigration": WORKFLOW,
    "compute.ServerMigrationAction": WORKFLOW,
    "compute.RemoteConsoles": ITSELF,
    "compute.ServerShares": NOTHING,
    "compute.ServerShare": NOTHING,
    "compute.ExternalEvents": "another service reports its events",
    "compute.AssistedSnapshots": "a storage service has part of a snapshot done, whose record is the snapshot's",
    "compute.AssistedSnapshot": "a storage service has part of a snapshot done, whose record is the snapshot's",
    "compute.Networks": NOTHING,
    "compute.NetworkById": NOTHING,
    "compute.TenantNetworks": NOTHING,
    "compute.TenantNetworkById": NOTHING,
    "compute.Removed": NOTHING,
    "network.OtherRules": NOTHING,
    "volume.MessageById": "a note about what came to nothing is put away, as in the bell",
    "volume.Empty": NOTHING,
    "volume.EmptyById": NOTHING,
    "novella.HostEnrollmentViewSet.create": ITSELF,
    "novella.InterventionViewSet.create": ITSELF,
    "novella.CellViewSet.close": ITSELF,
    "novella.CellViewSet.quarantine": ITSELF,
    "novella.CellViewSet.lift": ITSELF,
    "novella.CellViewSet.open": ITSELF,
    "novella.PluginViewSet.partial_update": ITSELF,
    "novella.PluginViewSet.quarantine": ITSELF,
    "novella.PluginViewSet.release": ITSELF,
    "novella.TriageViewSet.snooze": ITSELF,
    "novella.TriageViewSet.wake": ITSELF,
    "novella.TriageViewSet.apply": ITSELF,
    "novella.SubscriptionViewSet.create": ITSELF,
    "novella.SubscriptionViewSet.partial_update": ITSELF,
    "novella.SubscriptionViewSet.destroy": ITSELF,
    "novella.SubscriptionViewSet.secret": ITSELF,
    "novella.SubscriptionViewSet.test": "the delivery log has it",
    "novella.SubscriptionViewSet.send_again": "the delivery log has it",
    "novella.QuotaRequestViewSet.create": ITSELF,
    "novella.QuotaRequestViewSet.approve": ITSELF,
    "novella.QuotaRequestViewSet.refuse": ITSELF,
    "novella.QuotaRequestViewSet.withdraw": ITSELF,
    "novella.BudgetViewSet.update": ITSELF,
    "novella.BudgetViewSet.destroy": ITSELF,
    "novella.SnapshotScheduleViewSet.create": ITSELF,
    "novella.SnapshotScheduleViewSet.destroy": ITSELF,
    "novella.ConsoleShareViewSet.create": ITSELF,
    "novella.ConsoleShareViewSet.destroy": ITSELF,
    "novella.ServerViewSet.try_again": WORKFLOW,
    "novella.LiveMigrationViewSet.create": WORKFLOW,
    "novella.WhatIfViewSet.launch": READS,
    "novella.WhatIfViewSet.move": READS,
    "novella.WhatIfViewSet.drain": READS,
    "novella.WhatIfViewSet.compare": READS,
    "novella.WhatIfViewSet.replay": READS,
    "novella.DecisionViewSet.evaluate": READS,
    "novella.ProposalViewSet.create": ITSELF,
    "novella.ProposalViewSet.apply": ITSELF,
    "novella.ProposalViewSet.decline": ITSELF,
}


def test_each_route_that_changes_something_is_on_record_or_says_why_not() -> None:
    written = list(writing_routes(get_resolver()))
    assert len(written) > 500
    missing = {f"{method} {path} ({view})" for method, path, view in written if not is_kept(method, path)}
    missing = {one for one in missing if why_not(one) is None}
    assert not missing, "neither on record nor in OFF_RECORD"
    used = {f"{view}{end}" for method, path, view in written if not is_kept(method, path) for end in ("", f" {method}")}
    assert set(OFF_RECORD) <= used, "no route of these is off record any more"


def why_not(route: str) -> str | None:
    method, _, view = route.partition(" ")[0], "", route.rpartition("(")[2].rstrip(")")
    return OFF_RECORD.get(view) or OFF_RECORD.get(f"{view} {method}")


def is_kept(method: str, path: str) -> bool:
    request = ApiChange(method.upper(), path, {"some_action": {}})
    return bool(audited.named(request) or member_changes.change(request))


def writing_routes(resolver: URLResolver, before: str = "/") -> Iterator[tuple[str, str, str]]:
    """Method, a path that leads there, and the view, by its service and name (and action, for a viewset)."""
    for route in resolver.url_patterns:
        path = before + sample(str(route.pattern))
        if isinstance(route, URLResolver):
            yield from writing_routes(route, path)
        elif isinstance(route, URLPattern) and hasattr(getattr(route.callback, "cls", None), "policies"):
            view: Any = route.callback.cls  # type: ignore[attr-defined]
            actions: dict[str, str] = getattr(route.callback, "actions", None) or {}
            for method in [one for one in METHODS if one in actions]:
                yield method, path, f"{view.service}.{view.__name__}.{actions[method]}"
            given = getattr(route.callback, "initkwargs", {}).get("http_method_names") or view.http_method_names
            for method in METHODS:
                if method in given and hasattr(view, method):
                    yield method, path, f"{view.service}.{view.__name__}"


def sample(pattern: str) -> str:
    """Return a path of a route's pattern, with words in the places of ids."""
    pattern = pattern.replace("(?:/|$)", "/").replace("(?:[0-9a-f]{32}/)?", "").replace("\\", "")
    return re.sub(r"\(\?P<\w+>[^)]*\)|<[^>]+>", "some-id", pattern).strip("^$")
