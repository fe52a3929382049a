"""The kinds of group membership that ship, besides the default."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from django.utils.module_loading import import_string

from conductor.core.membership import Membership
from conductor.hookspecs import hookimpl

# The scheme of a URL → the library that its class needs, and the class.
KINDS = {
    "zookeeper": ("kazoo", "conductor.membership.zookeeper.ZooKeeperMembership"),
    "etcd": ("etcd3gw", "conductor.membership.etcd.EtcdMembership"),
}


@hookimpl
def register_memberships() -> Mapping[str, type[Membership]]:
    """Register the kinds whose client libraries are installed; these are extras of the package."""
    return {scheme: import_string(path) for scheme, (library, path) in KINDS.items() if find_spec(library)}
