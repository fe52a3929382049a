"""Optional dependencies of the package: the extra that installs the client of each service."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

# The kind of a service, mostly the scheme of its URL → (extra of the package, modules that it installs).
EXTRAS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "amqp": ("rabbitmq", ("pika",)),
    "amqps": ("rabbitmq", ("pika",)),
    "redis": ("redis", ("redis", "channels_redis")),
    "rediss": ("redis", ("redis", "channels_redis")),
    "zookeeper": ("zookeeper", ("kazoo",)),
    "etcd": ("etcd", ("etcd3gw",)),
    "ovn": ("ovn", ("ovs", "ovsdbapp")),
    "openid": ("openid", ("authlib", "requests")),
    "postgresql": ("postgresql", ("psycopg",)),
}


def missing(kind: str) -> str:
    """Return the extra that must be installed for a service of this kind, or "" when nothing is missing."""
    extra, modules = EXTRAS.get(kind, ("", ()))
    return extra if any(find_spec(module) is None for module in modules) else ""
