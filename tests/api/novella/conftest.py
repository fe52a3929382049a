"""Checks every response of our own API in these tests against its OpenAPI document."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from portal.api.novella.reference import document
from tests.api_client import ApiClient


@functools.cache
def templates() -> list[tuple[re.Pattern[str], str]]:
    """Paths of the description as patterns, those with fewer parameters first."""
    paths = sorted(document()["paths"], key=lambda path: path.count("{"))
    return [(re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))), path) for path in paths]


@functools.cache
def validator(path: str, method: str, status: str) -> Draft202012Validator:
    answers = document()["paths"][path][method]["responses"]
    schema = answers.get(status, answers["default"])["content"]["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": document()["components"]})


def check(method: str, path: str, answer: Any) -> None:
    path = path.partition("?")[0]
    template = next((name for pattern, name in templates() if pattern.fullmatch(path)), None)
    known = document()["paths"].get(template or "", {})
    if method.lower() not in known:
        assert answer.status_code in (404, 405), (method, path, answer.status_code)
        return
    if "content" not in known[method.lower()]["responses"].get(str(answer.status_code), {"content": None}):
        assert answer.content == b""
        return
    assert answer.headers["Content-Type"] == "application/json"
    body = json.loads(answer.content)
    if answer.status_code < 400:
        assert str(answer.status_code) in known[method.lower()]["responses"], (method, path, answer.status_code)
    errors = list(validator(str(template), method.lower(), str(answer.status_code)).iter_errors(body))
    assert not errors, (method, path, [(list(error.absolute_path), error.message[:300]) for error in errors[:3]])


@pytest.fixture(autouse=True)
def described_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check each response of `/api` against the OpenAPI document."""
    plain = ApiClient.call

    def call(self: ApiClient, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        answer = plain(self, method, path, *args, **kwargs)
        if path.startswith("/api/"):
            check(method, path, answer)
        return answer

    monkeypatch.setattr(ApiClient, "call", call)
