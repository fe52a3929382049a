"""Domain configuration options, stored for external tools.

The users of every domain are those of this database, whatever the options are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.errors import Forbidden, NotFound
from conductor.db.transactions import write_tx
from conductor.identity import domains
from conductor.identity.models import DomainOption

Config = dict[str, dict[str, Any]]
# The known options with their defaults. None is secret: there is no option for a password.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "identity": {"driver": "sql", "list_limit": None},
    "ldap": {
        "url": "ldap://localhost",
        "user": None,
        "suffix": "cn=example,cn=com",
        "query_scope": "one",
        "page_size": 0,
        "user_tree_dn": None,
        "user_filter": None,
        "user_objectclass": "inetOrgPerson",
        "user_id_attribute": "cn",
        "user_name_attribute": "sn",
        "user_mail_attribute": "mail",
        "group_tree_dn": None,
        "group_filter": None,
        "group_objectclass": "groupOfNames",
        "group_id_attribute": "cn",
        "group_name_attribute": "ou",
        "group_member_attribute": "member",
        "use_tls": False,
    },
}


def default(group: str | None = None, name: str | None = None) -> dict[str, Any]:
    """Return all defaults, those of a group, or one. Raises Forbidden for unknown ones."""
    if group is None:
        return {key: dict(values) for key, values in DEFAULTS.items()}
    _require_known(group, name)
    return {group: dict(DEFAULTS[group])} if name is None else {name: DEFAULTS[group][name]}


def show(domain_id: str, group: str | None = None, name: str | None = None) -> dict[str, Any]:
    """Return stored options: all, a group, or one. Raises NotFound for one not set, Forbidden for an unknown one."""
    domains.get(domain_id)
    if group is not None:
        _require_known(group, name)
    found = _config_of(domain_id)
    if not found or (group is not None and group not in found):
        raise _missing(domain_id, group)
    if group is None:
        return found
    if name is None:
        return {group: found[group]}
    if name not in found[group]:
        raise _missing(domain_id, f"{group}.{name}")
    return {name: found[group][name]}


def replace(domain_id: str, config: Config) -> bool:
    """Replace all options. Return whether none were set before. Raises NotFound, Forbidden."""
    domains.get(domain_id)
    _require_all_known(config)
    with write_tx():
        gone, _ = DomainOption.objects.filter(domain_id=domain_id).delete()
        _say(domain_id, config)
    return not gone


def change(domain_id: str, config: Config, group: str | None = None, name: str | None = None) -> Config:
    """Update some options, within a group or option only those set before. Return all. Raises as `show` does."""
    _require_all_known(config)
    with write_tx():
        show(domain_id, group, name)
        for key, values in config.items():
            DomainOption.objects.filter(domain_id=domain_id, group=key, name__in=list(values)).delete()
        _say(domain_id, config)
    return _config_of(domain_id)


def remove(domain_id: str, group: str | None = None, name: str | None = None) -> None:
    """Delete options: all, a group, or one. Raises as `show` does."""
    with write_tx():
        show(domain_id, group, name)
        rows = DomainOption.objects.filter(domain_id=domain_id)
        if group is not None:
            rows = rows.filter(group=group)
        (rows if name is None else rows.filter(name=name)).delete()


def _say(domain_id: str, config: Config) -> None:
    rows = [
        DomainOption(domain_id=domain_id, group=group, name=name, value=value)
        for group, values in config.items()
        for name, value in values.items()
    ]
    DomainOption.objects.bulk_create(rows)


def _config_of(domain_id: str) -> Config:
    found: Config = {}
    for row in DomainOption.objects.filter(domain_id=domain_id).order_by("group", "name"):
        found.setdefault(row.group, {})[row.name] = row.value
    return found


def _require_all_known(config: Config) -> None:
    if not config or not all(config.values()):
        raise Forbidden("Invalid domain specific configuration: name at least one option of each group.")
    for group, values in config.items():
        for name in values:
            _require_known(group, name)


def _require_known(group: str, name: str | None) -> None:
    if group not in DEFAULTS:
        raise Forbidden(f"Invalid domain specific configuration: group {group[:60]} is not {' or '.join(DEFAULTS)}.")
    if name is not None and name not in DEFAULTS[group]:
        raise Forbidden(f"Invalid domain specific configuration: group {group} has no option {name[:60]}.")


def _missing(domain_id: str, what: str | None) -> NotFound:
    return NotFound(f"Could not find {what or 'any group'} in the domain configuration of {domain_id}.")
