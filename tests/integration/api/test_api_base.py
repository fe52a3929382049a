"""Common behaviour of all API views, through the whole middleware stack."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings
from django.urls import path
from rest_framework.response import Response

from conductor.core.errors import Unavailable
from portal.api import errors
from portal.api.authorization import ADMIN, MEMBER
from portal.api.base import ApiRequest, ApiView, unknown_route
from portal.api.microversions import VersionTable, since
from portal.api.pagination import next_links, parse_page

LEGACY = "X-OpenStack-Nova-API-Version"
VERSIONS = VersionTable("compute", (("2.1", "First."), ("2.10", "Second.")), legacy_header=LEGACY)


class View(ApiView):
    service = "compute"
    versions = VERSIONS
    policies = {"look": MEMBER, "rule": ADMIN}

    def get(self, request: ApiRequest) -> Response:
        self.authorize("look")
        page = parse_page(request)
        links = next_links(request, "things", last_id="m 2", has_more=page.limit == 2)
        return Response({"who": request.context.user_name, "version": str(request.microversion), **links})

    def post(self, request: ApiRequest) -> Response:
        return Response(request.data, status=202)

    @since("2.10")
    def put(self, request: ApiRequest) -> Response:
        self.authorize("rule")
        return Response(status=204)

    def delete(self, request: ApiRequest) -> Response:
        raise RuntimeError("password=hunter2")

    def patch(self, request: ApiRequest) -> Response:
        raise Unavailable("The cell cell1 does not answer.")


urlpatterns = [path("compute/v2.1/things", View.as_view()), path("compute/<path:rest>", unknown_route("compute"))]
handler404 = errors.page_not_found
THINGS = "/compute/v2.1/things"


@pytest.fixture(autouse=True)
def _routes() -> Iterator[None]:
    with override_settings(ROOT_URLCONF=__name__):
        yield


def check_headers(answer: Any, version: str | None) -> None:
    assert re.fullmatch(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", answer.headers["x-openstack-request-id"])
    assert answer.headers["x-compute-request-id"] == answer.headers["x-openstack-request-id"]
    assert answer.headers["Vary"] == f"OpenStack-API-Version, {LEGACY}"
    assert answer.headers.get("OpenStack-API-Version") == (f"compute {version}" if version else None)
    assert answer.headers.get(LEGACY) == version
    assert "Set-Cookie" not in answer.headers
    assert answer.headers.get("Content-Type") in ("application/json", None)


def test_the_caller_and_the_version_reach_the_view(api_client: Any) -> None:
    answer = api_client("ana", version="2.10").get(THINGS)
    assert (answer.status_code, answer.json()) == (200, {"who": "ana", "version": "2.10"})
    check_headers(answer, "2.10")
    assert api_client("ana").get(THINGS).json()["version"] == "2.1"
    assert api_client("ana", version="latest").get(THINGS).json()["version"] == "2.10"


def test_without_a_token_nothing_runs(api_client: Any) -> None:
    for client in (api_client(None), type(api_client(None))("dead-token")):
        answer = client.delete(THINGS)
        assert answer.status_code == 401
        assert answer.json() == {
            "unauthorized": {"code": 401, "message": "The request you have made requires authentication."}
        }
        assert answer.headers["WWW-Authenticate"] == 'Keystone uri="http://testserver/identity"'
        check_headers(answer, "2.1")


def test_methods_check_rules_and_versions(api_client: Any) -> None:
    assert api_client("rea").get(THINGS).status_code == 403
    assert api_client("admin").put(THINGS).status_code == 404
    forbidden = api_client("ana", version="2.10").put(THINGS)
    assert forbidden.json() == {"forbidden": {"code": 403, "message": "Policy doesn't allow rule to be performed."}}
    assert api_client("admin", version="2.10").put(THINGS).status_code == 204


@pytest.mark.parametrize(("version", "status", "used"), [("2.11", 406, None), ("2.x", 400, None)])
def test_invalid_versions_are_refused(api_client: Any, version: str, status: int, used: str | None) -> None:
    answer = api_client("ana", version=version).get(THINGS)
    assert answer.status_code == status
    check_headers(answer, used)


def test_an_internal_error_shows_the_request_id_only(api_client: Any, caplog: Any) -> None:
    answer = api_client("ana").delete(THINGS)
    request_id = answer.headers["x-openstack-request-id"]
    assert answer.status_code == 500
    message = f"Something went wrong on our side. Quote {request_id} when you report it."
    assert answer.json() == {"computeFault": {"code": 500, "message": message}}
    check_headers(answer, "2.1")
    logged = next(record for record in caplog.records if record.name == "portal.api.errors")
    assert request_id in logged.getMessage()
    assert logged.exc_info is not None


def test_an_unavailable_part_is_named(api_client: Any) -> None:
    answer = api_client("ana").patch(THINGS)
    assert (answer.status_code, answer.json()["serviceUnavailable"]["message"]) == (
        503,
        "The cell cell1 does not answer.",
    )


def test_unknown_methods_and_routes_are_refused(api_client: Any) -> None:
    client = api_client("ana")
    requested = client.call("OPTIONS", THINGS)
    assert (requested.status_code, requested.content) == (204, b"")
    assert {"GET", "HEAD", "OPTIONS"} <= set(requested.headers["Allow"].split(", "))
    check_headers(requested, "2.1")
    assert client.call("TRACE", THINGS).json()["badMethod"]["code"] == 405
    for missing in ("/compute/v2.1/nothing", "/compute/v2.1/things/"):
        assert "Allow" not in client.call("OPTIONS", missing).headers
        assert client.get(missing).json() == {
            "itemNotFound": {"code": 404, "message": "The resource could not be found."}
        }


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'{"a": NaN}', 400),
        (b"[" * 200_000, 400),
        (b'{"a": ' + b"9" * 5000 + b"}", 400),
        (b'{"a": "\\u0000"}', 400),
        (b'{"a": "\\udc00"}', 400),
        (b"[" * 101 + b"1" + b"]" * 101, 400),
        (b'{"a":' * 101 + b"1" + b"}" * 101, 400),
        (b"[" * 100 + b"1" + b"]" * 100, 202),
        (b"[" + b"[1]," * 1000 + b"1]", 202),
        (b'"' + b"x" * 2_600_000 + b'"', 413),
        (b'{"a": "\\u00e9\\ud83d\\ude00"}', 202),
    ],
)
def test_bodies_of_every_kind(api_client: Any, body: bytes, status: int) -> None:
    answer = api_client("ana").post(THINGS, body)
    assert answer.status_code == status, answer.content[:200]
    check_headers(answer, "2.1")


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b'{"a": "\\u0000"}', "field/attribute a:"),
        (b'{"a": [{"b": 1}, {"c": "\\ud800"}]}', "field/attribute a.1.c:"),
        (b'{"a": {"x\\u0000": 1}}', "field/attribute a:"),
        (b'"\\u0000"', "Malformed request body:"),
    ],
)
def test_text_that_no_database_stores_is_named(api_client: Any, body: bytes, where: str) -> None:
    answer = api_client("ana").post(THINGS, body)
    assert answer.status_code == 400
    assert where in answer.json()["badRequest"]["message"]


def test_media_types(api_client: Any) -> None:
    client = api_client("ana")
    wrong = client.post(THINGS, b"a=1", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert (wrong.status_code, wrong.json()["badMediaType"]["code"]) == (415, 415)
    charset = client.post(THINGS, b"{}", headers={"Content-Type": "application/json; charset=UTF-8"})
    assert charset.status_code == 202
    assert client.get(THINGS, headers={"Accept": "text/html"}).status_code == 200


def test_the_next_page_carries_every_filter(api_client: Any) -> None:
    answer = api_client("ana").get(THINGS + "?name=a%26b&tag=x&tag=y&limit=2&marker=m1")
    assert answer.json()["things_links"] == [
        {"rel": "next", "href": f"http://testserver{THINGS}?name=a%26b&tag=x&tag=y&limit=2&marker=m+2"}
    ]


@pytest.mark.parametrize("limit", ["-1", "x", "", "1.5", "²"])
def test_an_invalid_limit_is_refused(api_client: Any, limit: str) -> None:
    answer = api_client("ana").get(f"{THINGS}?limit={limit}")
    assert answer.status_code == 400
    assert "limit" in answer.json()["badRequest"]["message"]


def test_a_callers_own_request_id_is_logged_and_not_used(api_client: Any, caplog: Any) -> None:
    theirs = "req-11111111-2222-3333-4444-555555555555"
    with caplog.at_level("INFO", "portal.middleware"):
        answer = api_client("ana").get(THINGS, headers={"X-OpenStack-Request-ID": theirs})
    assert answer.headers["x-openstack-request-id"] != theirs
    assert f"global_request_id={theirs}" in caplog.text
