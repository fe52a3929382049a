"""The kinds of group membership that ship besides the default."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.membership import Membership
from conductor.hookspecs import hookimpl
from conductor.membership.etcd import EtcdMembership
from conductor.membership.zookeeper import ZooKeeperMembership


@hookimpl
def register_memberships() -> Mapping[str, type[Membership]]:
    return {"zookeeper": ZooKeeperMembership, "etcd": EtcdMembership}
