"""Requests that are generated from an API's OpenAPI document, and errors in the responses."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import schemathesis
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
EXAMPLES = 2  # for each operation and mode; all callers send the valid ones
TOKEN = "x-auth-token"
NOT_JSON = {"/api/docs"}
SAME = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
Tokens = Mapping[str | None, Mapping[str, str]]


def at_everything(tokens: Tokens, things: Mapping[str, str], *, leave_out: str) -> tuple[dict[str, str], int]:
    """Return the errors by request, and the number of operations, without those whose path ends with `leave_out`."""
    schema: Any = schemathesis.openapi.from_wsgi("/api/schema", get_wsgi_application())
    wrong: dict[str, str] = {}
    count = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in NOT_JSON or operation.path.endswith(leave_out):
            continue
        for mode in MODES:
            if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query):
                continue  # nothing could be wrong with it but its path
            count += 1
            _fire(operation, mode, tokens, things, wrong)
    return wrong, count


def _fire(operation: Any, mode: Any, tokens: Tokens, things: Mapping[str, str], wrong: dict[str, str]) -> None:
    turns, is_public = itertools.count(), not operation.definition.raw.get("security")

    @SAME
    @given(case=operation.as_strategy(generation_mode=mode))
    def fire(case: Any) -> None:
        case.headers = {name: value for name, value in (case.headers or {}).items() if name.lower() != TOKEN}
        if mode is GenerationMode.NEGATIVE or next(turns) % 2 == 0:
            case.path_parameters = {name: things.get(name, "x") for name in case.path_parameters or {}}
        for name, headers in tokens.items() if mode is GenerationMode.POSITIVE else [("admin", tokens["admin"])]:
            answer = case.call(headers=headers)
            try:
                case.validate_response(answer, checks=CHECKS)
                assert name or is_public or answer.status_code >= 400, "no role may"
            except Exception as failure:  # collected, so that all are reported at once
                what = f"{operation.method.upper()} {operation.path} as {name}"
                wrong.setdefault(what, f"{answer.status_code} {answer.content[:200]!r}: {str(failure)[:600]}")

    fire()
