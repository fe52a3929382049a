"""Scheduler hints of a request. Each is a list of words; a list of one word also stands for that word."""

from __future__ import annotations

import json
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from conductor.core import json_text
from conductor.core.request_spec import RequestSpec

QUERY_HINT = "query"
ADDRESS_HINT = "build_near_host_ip"
LENGTH_HINT = "cidr"
DEFAULT_LENGTH = "/24"
QUERY_COMMANDS = ("=", "<", ">", "<=", ">=", "in", "not", "or", "and")


def words_of(spec: RequestSpec, name: str) -> Sequence[str]:
    """Return the words of a hint; none where it is missing, empty, or one empty word."""
    words = spec.scheduler_hints.get(name, ())
    return () if list(words) == [""] else words


def word_of(spec: RequestSpec, name: str, default: str = "") -> str | None:
    """Return the single word of a hint: `default` without such a hint, None for a list of none or several words."""
    words = spec.scheduler_hints.get(name)
    if words is None:
        return default
    return words[0] if len(words) == 1 else None


def network_of(address: str, length: str) -> IPv4Network | IPv6Network | None:
    """Return the network of an address with a length such as `/24`. None where the two are not a network."""
    try:
        return ip_network(address + length, strict=False)
    except ValueError:
        return None


def query_fault(text: str) -> str:
    """Return what is wrong with a JSON query, independent of hosts. Empty for a valid one."""
    try:
        query = json_text.loads(text) if text else None
    except json_text.TooDeep:
        return f"it nests deeper than {json_text.MOST_LEVELS} levels"
    except ValueError:
        return "it is no JSON"
    return _fault_in(query) if query else ""


def _fault_in(query: Any) -> str:
    if not isinstance(query, list):
        return "it is no list of a command and its arguments"
    if query and query[0] not in QUERY_COMMANDS:
        return f"there is no command {json.dumps(query[0])[:60]}; commands are {' '.join(QUERY_COMMANDS)}"
    return next(filter(None, (_fault_in(part) for part in query[1:] if isinstance(part, list))), "")
