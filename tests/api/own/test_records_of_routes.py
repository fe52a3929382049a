"""Each route by which an API can be told to change something is on record, or says here why it is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from portal.api import audited, member_changes

METHODS = ("post", "put", "patch", "delete")
WORKFLOW = "a workflow carries it out, and is its record"
ITSELF = "its service keeps the record, in the transaction of the change or with more to say"
READS = "it answers a question and changes nothing"
NOTHING = "there is nothing that it could change: it is always refused"
# By the view's service and name, with the method where another one is on record.
OFF_RECORD = {
    "identity.Tokens": "sign-ins come with every call of a program; a person's own are told of in `sign_ins`",
    "identity.UserPassword": ITSELF,
    "identity.Nothing": NOTHING,
    "identity.NothingById": NOTHING,
    "identity.RequestToken": "a program's step towards a token, which changes nothing until somebody authorises it",
    "identity.Exchange": "the last step to a token that somebody has authorised, which is on record",
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
    "compute.ExternalEvents": "another service tells of what has happened on its side",
    "compute.AssistedSnapshots": "a storage service has part of a snapshot done, whose record is the snapshot's",
    "compute.AssistedSnapshot": "a storage service has part of a snapshot done, whose record is the snapshot's",
    "compute.Networks": NOTHING,
    "compute.NetworkById": NOTHING,
    "compute.TenantNetworks": NOTHING,
    "compute.TenantNetworkById": NOTHING,
    "compute.Removed": NOTHING,
    "volume.MessageById": "a note about what came to nothing is put away, as in the bell",
    "volume.Empty": NOTHING,
    "volume.EmptyById": NOTHING,
    "own.HostEnrollments": ITSELF,
    "own.Intervention": ITSELF,
    "own.Close": ITSELF,
    "own.Quarantine": ITSELF,
    "own.Lift": ITSELF,
    "own.Open": ITSELF,
    "own.PluginsOfKind": ITSELF,
    "own.Release": ITSELF,
    "own.Snooze": ITSELF,
    "own.Wake": ITSELF,
    "own.Apply": ITSELF,
    "own.Subscriptions": ITSELF,
    "own.Subscription": ITSELF,
    "own.NewSecret": ITSELF,
    "own.Test": "the delivery log has it",
    "own.SendAgain": "the delivery log has it",
    "own.QuotaRequests": ITSELF,
    "own.Approve": ITSELF,
    "own.Refuse": ITSELF,
    "own.Withdraw": ITSELF,
    "own.Budget": ITSELF,
    "own.SnapshotSchedules": ITSELF,
    "own.SnapshotSchedule": ITSELF,
    "own.ConsoleShares": ITSELF,
    "own.ConsoleShare": ITSELF,
    "own.TryAgain": WORKFLOW,
    "own.MigrationOrder": WORKFLOW,
    "own.Launch": READS,
    "own.Move": READS,
    "own.Drain": READS,
    "own.Compare": READS,
    "own.Replay": READS,
    "own.Evaluate": READS,
    "own.Proposals": ITSELF,
    "own.Decline": ITSELF,
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
    request: Any = SimpleNamespace(method=method.upper(), path=path, _full_data={"some_deed": {}})
    return bool(audited.named(request) or member_changes.change(request))


def writing_routes(resolver: URLResolver, before: str = "/") -> Iterator[tuple[str, str, str]]:
    """Method, a path that leads there, and the view, by its service and name."""
    for route in resolver.url_patterns:
        path = before + sample(str(route.pattern))
        if isinstance(route, URLResolver):
            yield from writing_routes(route, path)
        elif isinstance(route, URLPattern) and hasattr(getattr(route.callback, "cls", None), "policies"):
            view: Any = route.callback.cls  # type: ignore[attr-defined]
            given = getattr(route.callback, "initkwargs", {}).get("http_method_names") or view.http_method_names
            for method in METHODS:
                if method in given and hasattr(view, method):
                    yield method, path, f"{view.service}.{view.__name__}"


def sample(pattern: str) -> str:
    """A path of a route's pattern, with words in the places of ids."""
    pattern = pattern.replace("(?:/|$)", "/").replace("(?:[0-9a-f]{32}/)?", "").replace("\\", "")
    return re.sub(r"\(\?P<\w+>[^)]*\)|<[^>]+>", "some-id", pattern).strip("^$")
