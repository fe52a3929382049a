"""Runs HTTP scenarios that are written as data.

A scenario file is YAML: a list of scenarios, each a name and steps that run in order against fresh databases with
ana, bo, rea, chi and admin in them (tests/people.py).

    - name: a project is made, found and removed
      steps:
        - as: admin                       # whose token; leave out for none. "Name of a person" or "none"
          version: "2.90"                 # compute microversion to ask for; optional
          post: /identity/v3/projects     # the method is the key: get, head, post, put, patch, delete
          headers: {X-Subject-Token: $token}
          body: {project: {name: web}}    # sent as JSON; text is sent as it is
          status: 201                     # required
          answer: {project: {name: web}}  # each key here is in the answer; objects may hold more, lists may not
          exactly: {…}                    # the whole body, instead of `answer`
          keys: {project: [id, name]}     # exactly these keys, at each path ("" is the body itself)
          has: [text, …]                  # each is somewhere in the body as text
          lacks: [text, …]                # none is anywhere in the body or the headers
          empty: true                     # no body at all
          answer_headers: {Vary: …}       # equal; a value of "*" only asks for the header to be there
          keep: {project: project.id}     # remember a value for later steps: a path in the body, or header:Name

`$name` in paths, headers, bodies and expectations is a kept value, or one of those that are there from the start:
`$ana`, `$ana_project`, `$ana_token` and so on for each person, `$member_role` and so on for each role, and what the
caller of `run` adds. In expectations `<any>`, `<uuid>`, `<hex>`, `<time>`, `<text>`, `<number>` match values by form.

    SCENARIOS = load(Path(__file__).parent)

    @pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
    def test_scenario(scenario, people, api_client):
        run(scenario, people, api_client)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import yaml

METHODS = ("get", "head", "post", "put", "patch", "delete")
_KEYS = frozenset(
    {*METHODS, "as", "version", "headers", "body", "status", "answer", "exactly", "keys", "has", "lacks", "empty"}
    | {"answer_headers", "keep"}
)
_FORMS: dict[str, re.Pattern[str]] = {
    "<uuid>": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "<hex>": re.compile(r"[0-9a-f]{32}"),
    "<time>": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z?"),
    "<text>": re.compile(r"(?s).+"),
    "<number>": re.compile(r"-?\d+(\.\d+)?"),
    "<any>": re.compile(r"(?s).*"),
}


@dataclass(frozen=True)
class Scenario:
    """A named list of steps and its file."""

    file: str
    name: str
    steps: list[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"


def load(folder: Path) -> list[Scenario]:
    """Return every scenario of the folder's YAML files."""
    found = []
    for path in sorted(folder.glob("*.yaml")):
        for entry in yaml.load(path.read_text(), yaml.CSafeLoader):
            for step in entry["steps"]:
                assert step.keys() <= _KEYS, (path.name, entry["name"], step.keys() - _KEYS)
            found.append(Scenario(path.stem, entry["name"], entry["steps"]))
    assert found, folder
    return found


def run(
    scenario: Scenario,
    people: Mapping[str, Any],
    api_client: Callable[..., Any],
    values: Mapping[str, str] | None = None,
    between: Callable[[], None] | None = None,
) -> dict[str, str]:
    """Runs all steps, and `between` after each; returns everything that was kept."""
    kept = {**_start_values(people, _tokens_of(scenario)), **(values or {})}
    for number, step in enumerate(scenario.steps, 1):
        where = f"{scenario}, step {number}"
        answer = _send(step, kept, api_client)
        _check(step, kept, answer, where)
        for name, source in step.get("keep", {}).items():
            kept[name] = _pick(answer, source, where)
        if between is not None:
            between()
    return kept


def _tokens_of(scenario: Scenario) -> set[str]:
    """Return the names of the tokens that its steps use: a token costs as much as a request."""
    callers = {f"{step['as']}_token" for step in scenario.steps if "as" in step}
    return callers.union(re.findall(r"\$\{?(\w+_token)", json.dumps(scenario.steps, default=str)))


def _start_values(people: Mapping[str, Any], token_names: Collection[str]) -> dict[str, str]:
    from conductor.identity.models import Role

    values = {f"{role.name}_role": role.id for role in Role.objects.all()}
    for name, person in people.items():
        values |= {name: person.user.id, f"{name}_project": person.project.id}
        if f"{name}_token" in token_names:
            values[f"{name}_token"] = person.token()
    return values


def _fill(value: Any, kept: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return Template(value).safe_substitute(kept)
    if isinstance(value, list):
        return [_fill(item, kept) for item in value]
    if isinstance(value, dict):
        return {_fill(key, kept): _fill(item, kept) for key, item in value.items()}
    return value


def _send(step: Mapping[str, Any], kept: Mapping[str, str], api_client: Callable[..., Any]) -> Any:
    method = next(name for name in METHODS if name in step)
    client = api_client(None, version=step.get("version"))
    person = step.get("as", "none")
    client.token = None if person == "none" else kept[f"{person}_token"]
    extra = {"body": _fill(step["body"], kept)} if "body" in step else {}
    return client.call(method.upper(), _fill(step[method], kept), headers=_fill(step.get("headers", {}), kept), **extra)


def _check(step: Mapping[str, Any], kept: Mapping[str, str], answer: Any, where: str) -> None:
    text = answer.content.decode()
    assert answer.status_code == step["status"], f"{where}: {answer.status_code} {text}"
    assert re.fullmatch(r"req-[0-9a-f-]{36}", answer.headers["x-openstack-request-id"]), where
    if step.get("empty"):
        assert text == "", where
    if "answer" in step:
        _compare(_fill(step["answer"], kept), answer.json(), f"{where}: ", is_whole=False)
    if "exactly" in step:
        _compare(_fill(step["exactly"], kept), answer.json(), f"{where}: ", is_whole=True)
    for path, keys in step.get("keys", {}).items():
        found = _walk(answer.json(), path) if path else answer.json()
        assert sorted(found) == sorted(keys), f"{where}: keys of {path or 'the body'}"
    for name, value in _fill(step.get("answer_headers", {}), kept).items():
        assert name in answer.headers, f"{where}: no header {name}"
        assert value in ("*", answer.headers[name]), f"{where}: {name}: {answer.headers[name]}"
    for words in _fill(step.get("has", []), kept):
        assert words in text, f"{where}: no {words!r} in {text}"
    for words in _fill(step.get("lacks", []), kept):
        assert words not in text + str(answer.headers), f"{where}: {words!r} in {text}"


def _compare(wanted: Any, found: Any, where: str, *, is_whole: bool) -> None:
    if isinstance(wanted, dict):
        assert isinstance(found, dict), f"{where} is not an object: {found!r}"
        missing = wanted.keys() - found.keys()
        assert not missing, f"{where} lacks {sorted(missing)}"
        assert not is_whole or found.keys() == wanted.keys(), f"{where} has also {sorted(found.keys() - wanted.keys())}"
        for key, value in wanted.items():
            _compare(value, found[key], f"{where}.{key}", is_whole=is_whole)
    elif isinstance(wanted, list):
        assert isinstance(found, list), f"{where} is not a list: {found!r}"
        assert len(found) == len(wanted), f"{where} has {len(found)} items: {json.dumps(found)[:500]}"
        for index, value in enumerate(wanted):
            _compare(value, found[index], f"{where}[{index}]", is_whole=is_whole)
    elif isinstance(wanted, str) and wanted in _FORMS:
        assert _FORMS[wanted].fullmatch(str(found)), f"{where}: {found!r} is not {wanted}"
    else:
        assert (type(found), found) == (type(wanted), wanted), f"{where}: {found!r} instead of {wanted!r}"


def _walk(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = data[int(part)] if isinstance(data, list) else data[part]
    return data


def _pick(answer: Any, source: str, where: str) -> str:
    if source.startswith("header:"):
        return str(answer.headers[source.removeprefix("header:")])
    try:
        return str(_walk(answer.json(), source))
    except (KeyError, IndexError, TypeError):
        raise AssertionError(f"{where}: nothing at {source} in {answer.json()}") from None
