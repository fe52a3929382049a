"""Trusted forwarded headers, allowed hosts, and the addresses of links."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any

import pytest

from conductor.core.ip_addresses import is_public, read_address
from portal.environment import InvalidEnvironment, load
from portal.public_address import PublicAddress

PROXIES = (ip_network("10.0.0.0/8"), ip_network("2001:db8::/64"), ip_network("127.0.0.1"))
FORGED = {"x-forwarded-for": "6.6.6.6", "x-forwarded-proto": "https", "x-forwarded-host": "evil.example"}


def seen(
    headers: dict[str, str], peer: str = "198.51.100.1", *, kind: str = "http", path: str = "/", **options: Any
) -> dict[str, Any]:
    """Return the scope that an application behind it gets, or the answer of a refusal."""
    found: dict[str, Any] = {}

    async def application(scope: Any, receive: Any, send: Any) -> None:
        found.update(scope, host=dict(scope["headers"]).get(b"host", b"").decode())

    async def send(message: Any) -> None:
        found.setdefault("sent", []).append(message)

    raw = [(name.encode(), value.encode()) for name, value in ({"host": "cloud.example"} | headers).items()]
    scope = {"type": kind, "scheme": "ws" if kind == "websocket" else "http", "path": path}
    scope |= {"headers": raw, "client": (peer, 4000)}
    options = {"allowed_hosts": ["cloud.example", "127.0.0.1"], "trusted_proxies": PROXIES} | options
    asyncio.run(PublicAddress(application, **options)(scope, None, send))  # type: ignore[arg-type]
    return found


def test_forwarded_headers_of_untrusted_clients_are_ignored() -> None:
    for options in ({}, {"trusted_proxies": ()}):
        got = seen(FORGED, "127.0.0.2", **options)
        assert (got["client"][0], got["scheme"], got["host"]) == ("127.0.0.2", "http", "cloud.example")


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("192.0.2.9", "192.0.2.9"),
        ("6.6.6.6, 192.0.2.9", "192.0.2.9"),  # the first is what the client claims
        ("6.6.6.6, 192.0.2.9, 10.1.1.1", "192.0.2.9"),
        ("192.0.2.9:4711, 10.1.1.1", "192.0.2.9"),
        ("[2001:db8:1::9]:4711", "2001:db8:1::9"),
        ("::ffff:192.0.2.9", "192.0.2.9"),
        ("6.6.6.6, unknown", "10.0.0.1"),
        ("10.1.1.1", "10.1.1.1"),
        ("", "10.0.0.1"),
    ],
)
def test_the_rightmost_address_that_is_no_proxy_is_the_client(forwarded: str, client: str) -> None:
    assert seen({"x-forwarded-for": forwarded}, "10.0.0.1")["client"][0] == client
    assert seen({"x-forwarded-for": forwarded}, "::ffff:10.0.0.1")["client"][0] == client


def test_a_trusted_proxy_says_scheme_and_host() -> None:
    got = seen({"host": "backend", "x-forwarded-proto": "https", "x-forwarded-host": "cloud.example"}, "10.0.0.1")
    assert (got["scheme"], got["host"]) == ("https", "cloud.example")
    got = seen({"x-forwarded-proto": "https"}, "10.0.0.1", kind="websocket")
    assert got["scheme"] == "wss"


@pytest.mark.parametrize("path", ["/", "/compute/v2.1/", "/api/runs"])
def test_other_hosts_are_refused_with_the_fix(path: str) -> None:
    for peer, headers in (("10.0.0.1", {"x-forwarded-host": "evil.example"}), ("1.1.1.1", {"host": "evil.example"})):
        start, *rest = seen(headers, peer, path=path)["sent"]
        assert start["status"] == 400
        text = b"".join(message["body"] for message in rest).decode()
        assert "evil.example" in text
        assert "NOVELLA_PUBLIC_URL" in text
        assert "NOVELLA_ALLOWED_HOSTS" in text
    assert "sent" not in seen({"host": "192.0.2.77"}, path="/readyz")


def test_with_a_public_url_every_request_was_sent_there() -> None:
    public = {"public_url": "https://cloud.example:8443"}
    got = seen({"host": "127.0.0.1:8000"}, **public)
    assert (got["scheme"], got["host"]) == ("https", "cloud.example:8443")
    assert seen({}, kind="websocket", **public)["scheme"] == "wss"
    assert seen({"host": "evil.example"}, **public)["sent"][0]["status"] == 400


def test_the_environment_of_a_public_address() -> None:
    def parsed(**variables: str) -> Any:
        return load({"NOVELLA_SECRET_KEY": "k" * 32, **variables})

    one = parsed(NOVELLA_PUBLIC_URL="https://Cloud.Example:443/", NOVELLA_HOST="0.0.0.0")
    assert one.public_url == "https://cloud.example"
    assert one.allowed_hosts == ("localhost", "127.0.0.1", "[::1]", "cloud.example")
    one = parsed(NOVELLA_PUBLIC_URL="http://[2001:db8::1]:8000", NOVELLA_ALLOWED_HOSTS="b")
    assert (one.public_url, one.allowed_hosts) == ("http://[2001:db8::1]:8000", ("b", "[2001:db8::1]"))
    every = parsed(NOVELLA_HOST="::").allowed_hosts
    assert "*" not in every
    assert {"localhost", "127.0.0.1", "[::1]"} < set(every)
    assert parsed(NOVELLA_TRUSTED_PROXIES="10.0.0.0/8, ::1").trusted_proxies == (
        ip_network("10.0.0.0/8"),
        ip_network("::1"),
    )
    for name, value in (
        ("NOVELLA_PUBLIC_URL", "cloud.example"),
        ("NOVELLA_PUBLIC_URL", "https://cloud.example/path"),
        ("NOVELLA_PUBLIC_URL", "https://a:b@cloud.example"),
        ("NOVELLA_TRUSTED_PROXIES", "10.0.0.1/8"),
        ("NOVELLA_TRUSTED_PROXIES", "proxy"),
        ("NOVELLA_TLS_CERT", "/cert.pem"),
        ("NOVELLA_TLS_KEY", "/key.pem"),
    ):
        with pytest.raises(InvalidEnvironment, match=name):
            parsed(**{name: value})


@pytest.mark.parametrize(
    "text",
    [
        *("127.0.0.1", "::1", "0.0.0.0", "::", "10.1.2.3", "192.168.0.1", "169.254.169.254", "100.64.0.1", "224.0.0.1"),
        *("::127.0.0.1", "::10.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::808:808"),
        *("2002:7f00:1::", "2002:808:808::1", "2001:0:7f00:1::", "fe80::1", "fc00::1", "fec0::1", "ff02::1"),
        *("2001:db8::1", "100::1", "192.88.99.1", "255.255.255.255", "240.0.0.1", "::ffff:0:127.0.0.1"),
    ],
)
def test_addresses_that_are_not_public(text: str) -> None:
    address = read_address(text)
    assert address is not None
    assert not is_public(address)


# IANA's registries of special-purpose addresses, blocks that are not globally reachable or end at a relay; and
# 192.0.0.9, 192.0.0.10 and their like in IPv6, which lead to the nearest server of a network.
SPECIAL = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/32", "192.0.0.171/32"),
    *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32", "::1/128", "::/128", "64:ff9b:1::/48", "100::/64"),
    *("100:0:0:1::/64", "2001::/23", "2001::/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:2::/48"),
    *("2001:10::/28", "2001:20::/28", "2001:30::/28", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16"),
    *("fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
)


@pytest.mark.parametrize("cidr", SPECIAL)
def test_no_address_of_a_special_purpose_block_is_public(cidr: str) -> None:
    network = ip_network(cidr)
    middle = network[network.num_addresses // 2]
    assert [is_public(address) for address in (network[0], middle, network[-1])] == [False] * 3


@pytest.mark.parametrize("cidr", SPECIAL)
def test_the_tables_of_python_do_not_count(cidr: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (IPv4Address, IPv6Address):
        monkeypatch.setattr(kind, "is_global", property(lambda address: True))
    assert not is_public(ip_network(cidr)[-1])


@pytest.mark.parametrize(
    "text",
    [
        *("1.0.0.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "128.0.0.0", "172.15.255.255"),
        *("172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.167.255.255", "198.17.255.255", "198.20.0.0"),
        *("223.255.255.255", "2001:200::", "2001:db7:ffff::", "2001:db9::", "2003::", "3ffe::", "3fff:1000::"),
    ],
)
def test_neighbours_of_special_purpose_blocks_are_public(text: str) -> None:
    address = read_address(text)
    assert address is not None
    assert is_public(address)


@pytest.mark.parametrize("text", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "[2a00::1]:80"])
def test_addresses_that_are_public(text: str) -> None:
    address = read_address(text)
    assert address is not None
    assert is_public(address)
