"""The metadata service by HTTP: pages, lists, the password, and malformed requests."""

from __future__ import annotations

import base64
import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_drivers.config_drive import build_iso
from compute_drivers.metadata_files import metadata_files
from compute_drivers.metadata_pages import MetadataPages
from compute_drivers.metadata_service.http import MAX_BODY_BYTES, MAX_HEAD_BYTES, Exchange
from conductor.core.compute_driver import GuestFile, NetworkPort
from tests.guests import guest_of, image_of

PORT = NetworkPort("p1", "private", "fa:16:3e:00:00:01", "10.64.0.3", 20, "10.64.0.0/20", "10.64.0.1")
GUEST = replace(
    guest_of("6c1a2f6e-7b0e-4d4f-9d39-1a3f0a7a3c55", image_of("i", b"x"), hostname="web-42", ports=(PORT,)),
    public_key="ssh-ed25519 AAAA ana",
    metadata={"tier": "front"},
    user_data=base64.b64encode(b"#!/bin/sh\n").decode(),
)


@pytest.fixture
def pages(tmp_path: Path) -> MetadataPages:
    return MetadataPages(metadata_files(GUEST, vendor_data={"cloud-init": "#cloud-config"}), tmp_path / "posted")


def reply(pages: MetadataPages, path: str) -> str:
    answer = pages.respond("GET", path)
    assert answer.status == 200
    return answer.body.decode()


@pytest.mark.parametrize("version", ["latest", "2018-08-27"])
def test_openstack_has_the_files_of_the_config_drive(pages: MetadataPages, version: str) -> None:
    folder = f"/openstack/{version}"
    data = json.loads(reply(pages, f"{folder}/meta_data.json"))
    assert (data["uuid"], data["meta"]) == (GUEST.instance_uuid, {"tier": "front"})
    assert data["public_keys"] == {"default": "ssh-ed25519 AAAA ana"}
    (network,) = json.loads(reply(pages, f"{folder}/network_data.json"))["networks"]
    assert (network["ip_address"], network["netmask"]) == ("10.64.0.3", "255.255.240.0")
    assert json.loads(reply(pages, f"{folder}/vendor_data.json")) == {"cloud-init": "#cloud-config"}
    assert json.loads(reply(pages, f"{folder}/vendor_data2.json")) == {"static": {"cloud-init": "#cloud-config"}}
    assert reply(pages, f"{folder}/user_data") == "#!/bin/sh\n"


def test_lists(pages: MetadataPages) -> None:
    assert reply(pages, "/").split() == ["2009-04-04", "latest", "openstack"]
    assert reply(pages, "/openstack/").split() == ["2018-08-27", "latest"]
    assert reply(pages, "/openstack/latest").split() == [
        *("meta_data.json", "network_data.json", "user_data", "vendor_data.json", "vendor_data2.json", "password"),
    ]
    assert reply(pages, "/latest/").split() == ["meta-data/", "user-data"]
    assert "placement/" in reply(pages, "/latest/meta-data/").split()
    assert reply(pages, "/latest/meta-data/public-keys/") == "0=default"


def test_amazon_has_each_value_by_itself(pages: MetadataPages) -> None:
    for path, value in {
        "instance-id": "i-6c1a2f6e",
        "local-ipv4": "10.64.0.3",
        "hostname": "web-42",
        "placement/availability-zone": "nova",
        "public-keys/0/openssh-key": "ssh-ed25519 AAAA ana",
    }.items():
        assert reply(pages, f"/2009-04-04/meta-data/{path}") == value
    assert reply(pages, "//latest/meta-data//hostname/?x=1") == "web-42"
    assert reply(pages, "/latest/user-data") == "#!/bin/sh\n"


def test_a_guest_without_key_and_user_data_has_no_such_pages(tmp_path: Path) -> None:
    pages = MetadataPages(metadata_files(replace(GUEST, public_key="", user_data="")), tmp_path / "posted")
    for path in ("/openstack/latest/user_data", "/latest/user-data", "/latest/meta-data/public-keys/"):
        assert pages.respond("GET", path).status == 404


@pytest.mark.parametrize("path", ["/openstack/2999-01-01", "/../../etc/passwd", "/%2e%2e/x", "/latest/meta-data/_name"])
def test_other_pages_are_not_there(pages: MetadataPages, path: str) -> None:
    assert pages.respond("GET", path).status == 404


def test_pages_are_only_read(pages: MetadataPages) -> None:
    for method in ("POST", "PUT", "DELETE", "x"):
        refused = pages.respond(method, "/latest/meta-data/hostname", b"other")
        assert (refused.status, refused.headers) == (405, {"Allow": "GET, HEAD"})
    assert reply(pages, "/latest/meta-data/hostname") == "web-42"


def test_a_password_is_taken_once(pages: MetadataPages, tmp_path: Path) -> None:
    path = "/openstack/latest/password"
    assert reply(pages, path) == ""
    for wrong in (b"", b"x" * 1021):
        assert pages.respond("POST", path, wrong).status == 400
    assert list(tmp_path.iterdir()) == []
    assert pages.respond("POST", path, b"x" * 1020).status == 200
    assert pages.respond("POST", path, b"other").status == 409
    assert reply(pages, path) == "x" * 1020
    (kept,) = tmp_path.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert MetadataPages(metadata_files(GUEST), kept).respond("GET", path).body == b"x" * 1020  # also after a restart


class TestHttp:
    def test_a_request_in_pieces(self, pages: MetadataPages) -> None:
        exchange = Exchange(pages)
        for piece in (b"GET /latest/meta-data/host", b"name HTTP/1.0\r\n"):
            assert exchange.receive(piece) == b""
        answer = exchange.receive(b"\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\nweb-42")
        assert b"content-length: 6\r\n" in answer.lower()
        assert exchange.is_over
        assert exchange.receive(b"GET / HTTP/1.0\r\n\r\n") == b""

    def test_head_has_no_body(self, pages: MetadataPages) -> None:
        answer = Exchange(pages).receive(b"HEAD /latest/meta-data/hostname HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.endswith(b"\r\n\r\n")
        assert b"content-length: 6\r\n" in answer.lower()

    def test_a_body_that_is_announced(self, pages: MetadataPages) -> None:
        exchange = Exchange(pages)
        head = (
            b"POST /openstack/latest/password HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        )
        assert exchange.receive(head).startswith(b"HTTP/1.1 100 ")
        assert exchange.receive(b"pw").startswith(b"HTTP/1.1 200 ")
        assert reply(pages, "/openstack/latest/password") == "pw"

    @pytest.mark.parametrize(
        ("request_bytes", "status"),
        [
            (b"nonsense\r\n\r\n", 400),
            (b"GET /" + b"x" * MAX_HEAD_BYTES, 431),
            (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1), 413),
            (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2000\r\n" + b"x" * 8192 + b"\r\n", 413),
        ],
    )
    def test_large_and_malformed_requests_are_refused(
        self, pages: MetadataPages, request_bytes: bytes, status: int
    ) -> None:
        exchange = Exchange(pages)
        assert exchange.receive(request_bytes).startswith(b"HTTP/1.1 %d " % status)
        assert exchange.is_over

    @given(st.lists(st.binary(max_size=200), max_size=5))
    def test_no_input_of_a_guest_raises_an_error(self, pieces: list[bytes]) -> None:
        exchange = Exchange(MetadataPages(metadata_files(GUEST), Path("/nonexistent/posted")))
        for piece in pieces:
            exchange.receive(piece)


def test_files_are_named_in_the_metadata_and_lie_beside_them(tmp_path: Path) -> None:
    contents = base64.b64encode(b"\x00 hello").decode()
    guest = replace(GUEST, files=(GuestFile("/etc/motd", contents), GuestFile("/etc/issue", "")))
    pages = MetadataPages(metadata_files(guest), tmp_path / "posted")
    data = json.loads(pages.respond("GET", "/openstack/latest/meta_data.json").body)["files"]
    assert data == [
        {"path": "/etc/motd", "content_path": "/content/0000"},
        {"path": "/etc/issue", "content_path": "/content/0001"},
    ]
    found = [pages.respond("GET", f"/openstack{one['content_path']}") for one in data]
    assert [(one.status, one.body) for one in found] == [(200, b"\x00 hello"), (200, b"")]
    assert found[0].content_type == "application/octet-stream"
    assert b"content" in pages.respond("GET", "/openstack").body.splitlines()
    assert b"hello" in build_iso(metadata_files(guest))
    assert "files" not in json.loads(metadata_files(GUEST)["openstack/latest/meta_data.json"])
