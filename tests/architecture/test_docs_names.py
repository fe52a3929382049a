"""Checks that API paths, `openstack` command lines and plugins that the documentation names exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from itertools import product
from unittest.mock import MagicMock

import pytest
from django.urls import Resolver404, resolve

from portal.api.base import UnknownRoute
from scheduler_plugins.plugin import register_filters, register_weighers
from tests.architecture.tree import own_files, read

PAGES = [str(path) for path in own_files(".md") if path.parts[0] in ("README.md", "CONTRIBUTING.md", "docs")]

# Pages about one API write its paths without the root.
ROOTS = (
    "",
    "/compute/v2.1",
    "/identity",
    "/image",
    "/network",
    "/network/v2.0",
    "/load-balancer/v2.0/lbaas",
    "/volume",
    "/placement",
)
# Not routes of the HTTP server: files, WebSockets, servers of others, and what begins several routes.
FOREIGN = re.compile(r"/(dev|var|sbin|bin|mnt|live|openstack|redfish|console/TOKEN)\b|/api$|.*[/…]$")
PATH = re.compile(r"`(?:[A-Z]+ )?(/[a-z][^ `]*)`|\b(?:GET|POST|PUT|PATCH|DELETE|HEAD) (/[^\s`|,)]+)")
PLACEHOLDER = re.compile(r"<[^>]+>|\{[^},]+\}|(?<![\w-])[A-Z]{2,}\b(?!-)")
ALTERNATIVES = re.compile(r"\{([^{}]+,[^{}]+)\}")
VALUES = ("5d9f6a2c-9f1b-4f7e-8a2d-0c1b2a3d4e5f", "1", "name", "cancel")

# Commands of the stock client and of its plugins for placement and load balancers, by the groups of their entry points.
CLIENT_GROUPS = (
    "cli",
    "common",
    "compute.v2",
    "identity.v3",
    "image.v2",
    "network.v2",
    "volume.v3",
    "placement.v1",
    "load_balancer.v2",
)
CLIENT_LINE = re.compile(r"(?:^ +\$? ?|`)openstack ([a-z][^`\n#|>]*)", re.MULTILINE)

# Plugins of the tutorials and guides, which readers write themselves or take from Nova.
EXAMPLES = {
    "RackFilter",
    "RackWeigher",
    "NearRacksFilter",
    "QuietHostsWeigher",
    "ColdWeigher",
}


def unknown_paths(text: str) -> list[str]:
    """Return the paths in `text` that no route serves."""
    paths = {first or second for first, second in PATH.findall(text)}
    return sorted(path for path in paths if not FOREIGN.match(path) and not all(map(is_served, spelled_out(path))))


def spelled_out(path: str) -> Iterator[str]:
    """Return the path without its query; one path for each of the alternatives `{a,b}`."""
    parts = ALTERNATIVES.split(re.split(r"[?;…]", path)[0])
    yield from map("".join, product(*(part.split(",") if number % 2 else [part] for number, part in enumerate(parts))))


def is_served(path: str) -> bool:
    parts = PLACEHOLDER.split(path)
    for root, values in product(ROOTS, product(VALUES, repeat=len(parts) - 1)):
        if has_route(root + "".join(map("".join, zip(parts, (*values, ""), strict=True)))):
            return True
    return False


def has_route(path: str) -> bool:
    """Whether a route matches, other than that which answers everything unknown below the root of an API."""
    try:
        return not resolve(path).view_name.endswith(UnknownRoute.__name__)
    except Resolver404:
        return False


def client_commands() -> dict[str, EntryPoint]:
    """Words of a command → its entry point."""
    found = {}
    for group in CLIENT_GROUPS:
        for entry in entry_points(group=f"openstack.{group}"):
            found[entry.name.replace("_", " ")] = entry
    return found


def unknown_words(line: str, commands: dict[str, EntryPoint]) -> list[str]:
    """Return the command or options of a line that the `openstack` client does not know."""
    words = line.split()
    name = next((" ".join(words[:count]) for count in (4, 3, 2, 1) if " ".join(words[:count]) in commands), "")
    if not name:
        return [line.strip()]
    application = MagicMock()
    application.client_manager.is_network_endpoint_enabled.return_value = True
    parser = commands[name].load()(application, None).get_parser(name)
    options = parser._option_string_actions
    return [word for word in words if word.startswith("--") and word.partition("=")[0] not in options]


@pytest.mark.parametrize("page", PAGES)
def test_every_path_of_the_documentation_is_served(page: str) -> None:
    assert unknown_paths(read(page)) == []


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("`POST /api/hosts/HOST/drain`", []),
        ("`/workflows/UUID/do/NAME`", []),
        ("`/servers/{server_id}/tags`", []),
        ("`/api/workflows/UUID/{skip,retry}`", []),
        ("`/dev/kvm`", []),
        ("`POST /api/hosts/HOST/drains`", ["/api/hosts/HOST/drains"]),
        ("GET /v3/no-such-thing", ["/v3/no-such-thing"]),
        ("`/api/workflows/UUID/{skip,jump}`", ["/api/workflows/UUID/{skip,jump}"]),
    ],
)
def test_paths_without_a_route_are_found(text: str, unknown: list[str]) -> None:
    assert unknown_paths(text) == unknown


@pytest.mark.filterwarnings("ignore::DeprecationWarning:osc_lib")
def test_the_openstack_client_understands_every_line_of_the_documentation() -> None:
    commands = client_commands()
    lines = [(page, line) for page in PAGES for line in CLIENT_LINE.findall(read(page).replace("\\\n", " "))]
    assert len(lines) > 10
    assert [(page, words) for page, line in lines if (words := unknown_words(line, commands))] == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning:osc_lib")
@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("server create --flavor tiny --wait web-1", []),
        ("compute service set --down HOST nova-compute", []),
        ("server launch web-1", ["server launch web-1"]),
        ("server create --size tiny web-1", ["--size"]),
    ],
)
def test_unknown_words_of_the_openstack_client_are_found(line: str, unknown: list[str]) -> None:
    assert unknown_words(line, client_commands()) == unknown


@pytest.mark.parametrize("page", PAGES)
def test_every_filter_and_weigher_that_a_page_names_exists(page: str) -> None:
    known = {plugin.name for plugin in (*register_filters(), *register_weighers())} | EXAMPLES
    assert set(re.findall(r"\b[A-Z][A-Za-z]+(?:Filter|Weigher)\b", read(page))) - known == set()
