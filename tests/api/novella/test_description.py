"""The OpenAPI document: valid, complete, the same for all callers, and as a page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator

from portal.api.novella import urls
from portal.api.novella.data import field_of
from portal.api.novella.reference import document

METHODS = ("get", "post", "put", "patch", "delete")


def test_the_description_is_openapi_3_1() -> None:
    found = document()
    assert found["openapi"] == "3.1.0"
    validate_schema(found)  # type: ignore[no-untyped-call]
    for schema in found["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_every_route_and_method_is_described() -> None:
    described = {(path, method) for path, methods in document()["paths"].items() for method in methods}
    there = set()
    for route in urls.urlpatterns:
        assert isinstance(route, URLPattern)
        path = "/api/" + re.sub(r"<str:(\w+)>", r"{\1}", str(route.pattern))
        there |= {(path, method) for method in route.callback.actions if method in METHODS}  # type: ignore[attr-defined]
    assert there - described == {("/api/docs", "get")}  # a page
    assert described <= there
    assert len(described) > 40


def test_operations_have_names_words_and_bodies() -> None:
    operations = [one for methods in document()["paths"].values() for one in methods.values()]
    names = [one["operationId"] for one in operations]
    assert len(set(names)) == len(names)
    assert [one["operationId"] for one in operations if not one.get("description")] == []
    assert "\\Z" not in str(document())


def test_all_but_two_operations_need_a_token() -> None:
    operations = [
        (path, method, one) for path, methods in document()["paths"].items() for method, one in methods.items()
    ]
    public = {(path, method) for path, method, one in operations if "security" not in one}
    assert public == {("/api/schema", "get"), ("/api/host-enrollments", "post")}
    assert "security" not in document()  # a default would apply to these two as well
    assert all(one["security"] == [{"token": []}] for path, method, one in operations if (path, method) not in public)


def test_all_users_may_read_it(databases: None, api_client: Any) -> None:
    answer = api_client(None).get("/api/schema")
    assert (answer.status_code, answer.json()["info"]["title"]) == (200, "Novella")
    page = Client().get("/api/docs")
    assert page.status_code == 200
    text = page.content.decode()
    assert all(path in text for path in document()["paths"])
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|\son[a-z]+=", text) is None


def test_an_annotation_without_a_field_raises_an_error() -> None:
    assert field_of(int | None).allow_null
    with pytest.raises(TypeError, match="no field"):
        field_of(complex)
