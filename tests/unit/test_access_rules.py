"""Requests that an access rule allows."""

from __future__ import annotations

import pytest

from conductor.identity.access_rules import allow
from conductor.identity.models import AccessRule

COMPUTE = frozenset({"compute"})


def _rule(path: str) -> list[AccessRule]:
    return [AccessRule(service="compute", method="GET", path=path)]


@pytest.mark.parametrize(
    ("rule", "path", "is_allowed"),
    [
        ("/v2.1/servers", "/v2.1/servers", True),
        ("/v2.1/servers", "/v2.1/servers/detail", False),
        ("/v2.1/servers", "/v2x1/servers", False),
        ("/v2.1/servers/*", "/v2.1/servers/1", True),
        ("/v2.1/servers/*", "/v2.1/servers/", False),
        ("/v2.1/servers/*", "/v2.1/servers/1/ips", False),
        ("/v2.1/servers/{server_id}/ips", "/v2.1/servers/1/ips", True),
        ("/v2.1/**", "/v2.1/servers/1/ips", True),
        ("/v2.1/**", "/v2/servers", False),
        ("/**", "/anything", True),
        ("/v2.1/**/ips", "/v2.1/servers/1/ips", True),
        ("/v2.1/**/ips", "/v2.1/servers/1/ports", False),
        ("/v2.1/web-*/x", "/v2.1/web-1/x", True),
        ("/v2.1/{a}{b}", "/v2.1/1", False),
        ("/v2.1/{a/b}", "/v2.1/{a/b}", True),
        ("/v2.1/[a-z]+", "/v2.1/abc", False),
        ("/v2.1/ä*", "/v2.1/äö\ud800", True),
    ],
)
def test_paths(rule: str, path: str, is_allowed: bool) -> None:
    assert allow(_rule(rule), COMPUTE, "GET", path) is is_allowed


def test_service_and_method_count_too() -> None:
    assert not allow(_rule("/**"), COMPUTE, "POST", "/x")
    assert not allow(_rule("/**"), frozenset({"image"}), "GET", "/x")
    assert not allow([], COMPUTE, "GET", "/x")
    assert allow(None, COMPUTE, "GET", "/x")
